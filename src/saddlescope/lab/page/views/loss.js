// The loss of every seed, with the predicted levels dashed and the predicted drops marked.

import { own } from "../drawing/colours.js";
import { timeAxis, timeColumns } from "./time.js";

export default {
  id: "loss",
  title: "Loss",
  help: "Loss of each seed over training time, beside the plateaus and drops that theory predicts",
  kind: "chart", width: "wide", first: true,

  note(known) {
    if (!known.prediction) return "";
    const levels = known.prediction.plateau_losses;
    if (!levels) return "theory predicts no levels for this setting";
    const count = levels.length - 1, drops = `${count} predicted drop${count === 1 ? "" : "s"}`;
    if (areTimesPredicted(known)) return `${drops}, timed from the initial weights alone`;
    // Where theory is silent a note says so.
    return known.prediction.notes.length ? `${drops}; their times are not predicted here`
                                         : `${drops}, after the end of this run`;
  },

  /** Where theory is silent, and why. */
  detail: (known) => known.prediction?.notes.join("; ") || undefined,

  describe(known) {
    const { prediction } = known, levels = prediction?.plateau_losses;
    const lines = [], marks = [];
    const top = Math.max(levels?.[0] ?? 0, known.has("loss") ? finiteMax(known) : 0) || 1;
    if (known.has("loss"))
      known.seeds.forEach((_, seed) => {
        const isShown = seed === known.seed;
        const line = { x: known.time, y: known.loss(seed), colour: own(isShown ? "accent" : "faint"),
                       width: isShown ? 2.2 : 1.1, alpha: isShown ? 1 : 0.45 };
        if (isShown) lines.push(line);
        else lines.unshift(line);
      });
    prediction?.drops.forEach(({ times, is_open }, seed) => {
      const isShown = seed === known.seed;
      times.forEach((time, drop) => {
        if (time === null || !levels) return;
        marks.push({ x: time, y: (levels[drop] + levels[drop + 1]) / 2,
                     form: is_open[drop] ? "ring" : "triangle", size: isShown ? 5 : 3,
                     colour: own(isShown ? "ink" : "faint"), alpha: isShown ? 1 : 0.5 });
      });
    });
    return {
      x: timeAxis(known),
      y: { label: "loss", low: 0, high: top * 1.1, scale: "linear" },
      levels: (levels ?? []).map((value) => ({ value, label: value.toFixed(3) })),
      lines, marks, playhead: known.moment,
      legend: legend(known),
    };
  },

  table(known) {
    const columns = timeColumns(known);
    known.seeds.forEach((label, seed) => {
      columns[`loss of seed ${label}`] = Array.from(known.loss(seed));
    });
    return columns;
  },
};

const areTimesPredicted = ({ prediction }) =>
  prediction.drops.some(({ times }) => times.some((time) => time !== null));

function legend(known) {
  const entries = [{ label: `seed ${known.seeds[known.seed] ?? ""}`, colour: own("accent") }];
  if (known.seeds.length > 1) entries.push({ label: "other seeds", colour: own("faint") });
  if (!known.prediction?.plateau_losses) return entries;
  entries.push({ label: "predicted levels", colour: own("faint"), dash: true });
  if (areTimesPredicted(known))
    entries.push({ label: "predicted drop", colour: own("ink"), form: "triangle" },
                 { label: "a close race between heads", colour: own("ink"), form: "ring" });
  return entries;
}

/**
 * The largest loss that is worth its room: a seed that diverges does not flatten the others, and
 * where all are far above the levels the lowest is seen.
 */
function finiteMax(known) {
  let top = 0, lowest = Infinity;
  known.seeds.forEach((_, seed) => {
    const loss = known.loss(seed);
    top = Math.max(top, loss[0] || 0);
    for (const value of loss) if (value < lowest) lowest = value;
  });
  return Math.min(top, Math.max(20 * (known.prediction?.plateau_losses?.[0] ?? top), lowest));
}
