// Every dormant head as a particle on its own hill (T18): θ = ∫v dt, and v² = F(θ).
//
// The hill is −F/2, and the particle's energy is zero. Eigenvectors that are learned drive no longer.

import { colour, own } from "../drawing/colours.js";
import { DIVERGED } from "./maps.js";

const SAMPLES = 121;
// The share of an eigenvector's amplitude at which its drive counts as used up.
const LEARNED = 0.5;

export default {
  id: "particles",
  title: "Heads as particles",
  help: "Each head as a ball on its own potential: one after another they roll off and learn",
  kind: "chart",

  note: () => "each on its own hill −F(θ)/2, with θ = ∫v dt",

  describe(known) {
    if (known.state.model === "merged")
      return { silent: "Heads behave as particles only if keys and queries are separate." };
    if (known.state.method === "optimiser")
      return { silent: "Heads behave as particles only under gradient descent and gradient flow." };
    const drive = known.theory?.arrays.drive?.data;
    if (!drive || !known.isSeparate || known.state.share > 0)
      return { silent: "No potential is known for this setting." };
    if (!known.map().every(Number.isFinite)) return { silent: DIVERGED };
    const left = remaining(known, drive), strongest = Math.max(...drive);
    const reach = Math.log(60) / (2 * strongest);
    const unit = known.state.init_scale ** 2 / known.heads;
    const lines = [], marks = [];
    for (let head = 0; head < known.heads; head++) {
      const hill = potential(known, head, left), now = known.angles()[head][known.now];
      const x = Array.from({ length: SAMPLES }, (_, at) => reach * (2 * at / (SAMPLES - 1) - 1));
      const gone = Math.abs(now) > reach;
      if (!gone)
        lines.push({ x, y: x.map((theta) => -hill(theta - now) / 2 / unit), colour: colour(head),
                     width: 1.5, alpha: 0.85 });
      const side = Math.sign(now) * reach * 0.97;
      const floor = -2.85 + 0.24 * head;
      marks.push({ x: gone ? side : now, y: gone ? floor : Math.max(-hill(0) / 2 / unit, -2.9),
                   form: gone ? "ring" : "dot", colour: colour(head), size: gone ? 4 : 6 });
    }
    return {
      x: { label: "θ", low: -reach, high: reach, scale: "linear" },
      y: { label: "height", low: -3, high: 1.2, scale: "linear" },
      levels: [{ value: 0, label: "energy" }], lines, marks, playhead: null,
      legend: [{ label: "dormant head", colour: own("ink"), form: "dot" },
               { label: "rolled off, at the edge", colour: own("ink"), form: "ring" }],
    };
  },

  table(known) {
    const columns = { time: Array.from(known.time) };
    known.angles().forEach((angle, head) => { columns[`theta of head ${head + 1}`] = [...angle]; });
    return columns;
  },
};

/** The drive of each eigenvector, zero once it is learned. */
function remaining(known, drive) {
  const { amplitude, basis } = known.theory.arrays, map = known.map();
  const size = drive.length;
  return Array.from(drive, (one, mode) => {
    let own_ = 0;
    for (let a = 0; a < size; a++)
      for (let b = 0; b < size; b++) own_ += basis.at(a, mode) * map[a * size + b] * basis.at(b, mode);
    const share = own_ / amplitude.data[mode];
    return share > LEARNED ? 0 : one;
  });
}

/** F about where a head is, from its weights there. */
function potential(known, head, drive) {
  const { basis } = known.theory.arrays;
  const keys = known.array("k"), queries = known.array("q"), [, , , rank, size] = keys.shape;
  const value = known.array("v").at(known.seed, known.now, head);
  const rising = new Float64Array(size), falling = new Float64Array(size);
  for (let pair = 0; pair < rank; pair++)
    for (let mode = 0; mode < size; mode++) {
      let key = 0, query = 0;
      for (let a = 0; a < size; a++) {
        key += keys.at(known.seed, known.now, head, pair, a) * basis.at(a, mode);
        query += queries.at(known.seed, known.now, head, pair, a) * basis.at(a, mode);
      }
      rising[mode] += (key + query) ** 2 / 4;
      falling[mode] += (key - query) ** 2 / 4;
    }
  return (theta) => {
    let height = value * value;
    for (let mode = 0; mode < size; mode++)
      height += rising[mode] * Math.expm1(2 * drive[mode] * theta) +
                falling[mode] * Math.expm1(-2 * drive[mode] * theta);
    return height;
  };
}
