// A task that comes back: the loss on it that memory alone solves, and the loss on fresh tasks.

import { colour, own } from "../drawing/colours.js";
import { timeAxis, timeColumns, WAITING } from "./time.js";

const CURVES = [["loss", "training", null], ["loss_in_weight", "in weights: the fixed task", 5],
                ["loss_in_context", "in context: fresh tasks", 2]];

export default {
  id: "memory",
  title: "Memory against learning in context",
  help: "Loss on the fixed task without its context, and on fresh tasks, over training time",
  kind: "chart", width: "wide",

  isShown: (known) => known.state.share > 0,

  note: (known) =>
    `the same task comes back in ${Number((100 * known.state.share).toPrecision(3))} % of the prompts`,

  describe(known) {
    if (!known.has("loss_in_weight")) return { silent: WAITING };
    const present = CURVES.filter(([name]) => known.has(name));
    const looks = present.map(([, label, number]) =>
      ({ label, colour: number === null ? own("faint") : colour(number) }));
    const lines = present.map(([name], at) => ({
      x: known.time, y: known.array(name).row(known.seed), width: 2, colour: looks[at].colour }));
    const top = Math.max(...lines.map((line) => line.y.filter(Number.isFinite).reduce(
      (a, b) => Math.max(a, b), 0)));
    return { x: timeAxis(known), y: { label: "loss", low: 0, high: Math.min(top, 20) * 1.06 || 1,
                                      scale: "linear" },
             lines, playhead: known.moment, legend: looks };
  },

  table(known) {
    const columns = timeColumns(known);
    for (const [name, label] of CURVES)
      if (known.has(name)) columns[label] = Array.from(known.array(name).row(known.seed));
    return columns;
  },
};
