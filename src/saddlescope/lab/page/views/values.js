// The value weight of every head, beside the scalar equation of one that learns (T12).

import { colour, own } from "../drawing/colours.js";
import { column, span, timeAxis, timeColumns, WAITING } from "./time.js";

export default {
  id: "values",
  title: "Value weights",
  help: "Value weight of each head over training time; dashed, the solution of the scalar equation",
  kind: "chart",

  note(known) {
    return known.has("v") && this.courses(known).length ? "dashed: v̇ = c v² − bκ v⁵, predicted" : "";
  },

  describe(known) {
    if (!known.has("v")) return { silent: WAITING };
    const values = known.array("v"), lines = [], every = [];
    for (let head = 0; head < known.heads; head++) {
      const own_ = column(known, (at) => values.at(known.seed, at, head));
      every.push(...own_);
      lines.push({ x: known.time, y: own_, colour: colour(head), width: 1.8 });
    }
    lines.push(...this.courses(known));
    const [low, high] = span(every, 0.05);
    return {
      x: timeAxis(known), y: { label: "v", low, high, scale: "linear" }, lines,
      playhead: known.moment,
      legend: Array.from({ length: known.heads }, (_, head) =>
        ({ label: head ? `${head + 1}` : "head 1", colour: colour(head), form: "dot" })),
    };
  },

  /** The predicted curves of the heads that should learn, at rank one. */
  courses(known) {
    const { arrays } = known.theory ?? {}, drops = known.drops(known.seed);
    if (!drops || !arrays?.amplitude || !known.hello || known.state.rank !== 1) return [];
    const { course_time, course_value } = known.hello.arrays;
    const values = known.array("v");
    return drops.times.flatMap((time, drop) => {
      const head = drops.heads[drop], mode = drops.modes[drop];
      if (time === null || head === null || head === undefined) return [];
      const rest = Math.cbrt(arrays.amplitude.data[mode]), unit = arrays.rise_time.data[mode];
      // The equation is that of the size; its sign is the head's.
      const sign = Math.sign(values.at(known.seed, known.points - 1, head)) || 1;
      return [{ x: Array.from(course_time.data, (one) => time + unit * one),
                y: Array.from(course_value.data, (one) => sign * rest * one),
                colour: own("ink"), width: 1.2, dash: [4, 3], alpha: 0.8 }];
    });
  },

  table(known) {
    const columns = timeColumns(known), values = known.array("v");
    for (let head = 0; head < known.heads; head++)
      columns[`v of head ${head + 1}`] = column(known, (at) => values.at(known.seed, at, head));
    return columns;
  },
};
