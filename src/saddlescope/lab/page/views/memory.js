// A task that comes back: the loss that memory alone solves against the one on fresh tasks.

import { colour, own } from "../drawing/colours.js";
import { timeAxis, timeColumns } from "./time.js";

const CURVES = [["loss", "training", null], ["loss_in_weight", "in weights: the fixed task", 5],
                ["loss_in_context", "in context: fresh tasks", 2]];

export default {
  id: "memory",
  title: "Memory against learning in context",
  help: "Losses of the fixed task without its context, and of fresh tasks, over training time",
  kind: "chart", wide: true,

  isShown: (known) => known.state.share > 0,

  note: () => "",

  describe(known) {
    if (!known.has("loss_in_weight")) return { silent: "The losses come with the run." };
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
