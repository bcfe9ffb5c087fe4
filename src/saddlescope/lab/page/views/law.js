// The law of the first drop over random starts, with this run's seeds as ticks (T18).

import { brief } from "../drawing/chart.js";
import { own } from "../drawing/colours.js";
import { WAITING } from "./time.js";

export default {
  id: "law",
  title: "Law of the first drop",
  help: "Density of the first drop's time over random starts, with the seeds of this run as ticks",
  kind: "chart",

  isAwaited: (known) => known.isLawAwaited,

  note: ({ law }) => `${law.applies ? "over random starts" : "for small starts, unlike these"}; ` +
                     `median ${brief(law.median)}`,

  describe(known) {
    if (!known.law) return { silent: WAITING };
    const { reason } = known.law;
    if (reason !== null) return { silent: `${reason[0].toUpperCase()}${reason.slice(1)}.` };
    const { time, density } = known.law.arrays;
    const high = Math.max(...density.data) * 1.15 || 1, drops = measured(known);
    const marks = drops.flatMap((at, seed) => at === null ? [] : [{
      x: at, form: "tick", size: seed === known.seed ? 12 : 8, width: seed === known.seed ? 2.6 : 1.6,
      colour: own(seed === known.seed ? "accent" : "ink"), alpha: seed === known.seed ? 1 : 0.55,
    }]);
    return {
      x: { label: "time of the first drop t/τ", low: 0,
           high: 1.02 * Math.max(time.data.at(-1), ...drops), scale: "linear" },
      y: { label: "density", low: 0, high, scale: "linear" },
      lines: [{ x: time.data, y: density.data, colour: own("accent"), width: 1.8, area: true }],
      marks, playhead: null,
      legend: [{ label: "predicted density", colour: own("accent") },
               { label: "seeds of this run", colour: own("ink"), form: "tick" }],
    };
  },

  table(known) {
    const { time, density, survival } = known.law.arrays;
    return { time: Array.from(time.data), density: Array.from(density.data),
             survival: Array.from(survival.data), seed: known.seeds.map(String),
             "first drop of the seed": measured(known).map((at) => at ?? "") };
  },
};

const measured = (known) => (known.has("loss") && known.levels?.length > 1
  ? known.seeds.map((_, seed) => known.crossing(seed, 0)) : []);
