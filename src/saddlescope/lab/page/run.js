// What is known of the setting on the screen: prediction, run, law and prompts, and what follows.

import { Shaped } from "./frames.js";

// What a frame of one seed has of all of them.
const OF_ALL = new Set(["loss", "time", "step"]);

export class Known {
  constructor() {
    this.hello = this.prediction = this.run = this.law = this.prompts = null;
    // The prediction of the run that is shown, which may be older than the latest one.
    this.theory = null;
    this.state = null;
    this.place = 0;
    this.seedIndex = 0;
    this.cache = new Map();
  }

  take(frame) {
    this[frame.kind] = frame;
    if (frame.kind === "run" || frame.kind === "prompts") this.cache.clear();
    if (frame.kind !== "run") return;
    if (frame.shown !== null)
      for (const name of Object.keys(frame.arrays).filter((one) => !OF_ALL.has(one)))
        frame.arrays[name] = new Shaped(frame.arrays[name].data, frame.arrays[name].shape, frame.shown);
    this.theory = this.prediction;
  }

  get time() { return this.run ? this.run.arrays.time.data : []; }
  get steps() { return this.run?.arrays.step?.data ?? null; }
  get points() { return this.time.length; }
  get seeds() { return this.run ? this.run.seeds : []; }
  /** The index of the record at the playhead, within what there is of a run. */
  get now() { return Math.min(this.place, Math.max(this.points - 1, 0)); }
  /** Whether there is more of the run than the seed that is shown. */
  get isWhole() { return this.run !== null && this.run.shown === null; }
  /** Whether the law is still that of an earlier run. */
  get isLawAwaited() { return this.run?.number !== this.law?.number; }
  /** Whether more was predicted than has come. */
  get isIncomplete() {
    return this.prediction !== this.theory ||
      (this.run !== null && (this.run.share < 1 || !this.isWhole || this.isLawAwaited));
  }
  get seed() { return Math.min(this.seedIndex, Math.max(this.seeds.length - 1, 0)); }
  get moment() { return this.points ? this.time[this.now] : 0; }
  has(name) { return Boolean(this.run && name in this.run.arrays); }
  array(name) { return this.run.arrays[name]; }
  get isSeparate() { return this.has("k"); }
  get dimension() { return this.has("effective_map") ? this.array("effective_map").shape[2] : 0; }
  get heads() { return this.has("v") ? this.array("v").shape[2] : 0; }
  get levels() { return this.theory?.plateau_losses ?? null; }
  /** When the run will end. */
  get end() { return this.prediction?.until ?? 1; }

  /** What is computed once from the run and the prompts that are shown. */
  remember(name, compute) {
    if (!this.cache.has(name)) this.cache.set(name, compute());
    return this.cache.get(name);
  }

  loss(seed) { return this.array("loss").row(seed); }

  map(place = this.now) { return this.array("effective_map").row(this.seed, place); }

  /** The drops that were predicted of a seed. */
  drops(seed) { return this.theory?.drops?.[seed] ?? null; }

  /** When a seed's loss first passes midway between two levels, between records by a line. */
  crossing(seed, drop) {
    const middle = (this.levels[drop] + this.levels[drop + 1]) / 2;
    const loss = this.loss(seed);
    if (!(loss[0] > middle)) return null;
    for (let at = 1; at < loss.length; at++) {
      if (!(loss[at] <= middle)) continue;
      const part = (loss[at - 1] - middle) / (loss[at - 1] - loss[at]);
      return this.time[at - 1] + part * (this.time[at] - this.time[at - 1]);
    }
    return null;
  }

  /**
   * The fixed point whose answers are nearest to the run's, and the root of the mean square of what
   * they differ by: in the eigenbasis the entries of W, times those of β and x_q, do not correlate.
   */
  nearest(place = this.now) {
    if (!this.theory?.points.length || !this.has("effective_map")) return null;
    const { amplitude, basis, query_power, summary_power } = this.theory.arrays;
    if (!amplitude) return null;
    const maps = this.array("effective_map"), size = amplitude.data.length;
    const own = inBasis(basis.data, maps.data, maps.offset(this.seed, place), size);
    const power = (a, b) => summary_power.data[a] * query_power.data[b];
    let whole = 0;
    for (let a = 0; a < size; a++)
      for (let b = 0; b < size; b++) whole += power(a, b) * own[a * size + b] ** 2;
    if (!Number.isFinite(whole)) return null;
    let best = null;
    for (const point of this.theory.points) {
      let square = whole;
      for (const d of point.subset) {
        const learned = amplitude.data[d];
        square += power(d, d) * learned * (learned - 2 * own[d * size + d]);
      }
      if (best === null || square < best.square) best = { point, square };
    }
    return { point: best.point, distance: Math.sqrt(Math.max(best.square, 0)) };
  }

  /** The fixed points that the run was nearest to, one after another, with when it came. */
  visited() {
    return this.remember(`visited ${this.seed}`, () => {
      const found = [];
      for (let place = 0; place < this.points; place++) {
        const near = this.nearest(place);
        if (near === null) break;
        if (!found.length || found.at(-1).point !== near.point)
          found.push({ point: near.point, place });
      }
      return found;
    });
  }

  /** θ = ∫ v dt of every head of the seed, [head][record] (T18). */
  angles() {
    return this.remember(`angles ${this.seed}`, () => {
      const values = this.array("v"), { time } = this;
      return Array.from({ length: this.heads }, (_, head) => {
        const sums = new Float64Array(this.points);
        for (let at = 1; at < this.points; at++)
          sums[at] = sums[at - 1] + (time[at] - time[at - 1]) *
            (values.at(this.seed, at - 1, head) + values.at(this.seed, at, head)) / 2;
        return sums;
      });
    });
  }

  /** What the model answers to every prompt, βᵀ W x_q, at a record. */
  answers(place = this.now) {
    const { summary, query } = this.prompts.arrays, size = this.dimension;
    const map = this.map(place);
    return Array.from({ length: summary.shape[0] }, (_, prompt) => {
      let sum = 0;
      for (let a = 0; a < size; a++)
        for (let b = 0; b < size; b++)
          sum += summary.at(prompt, a) * map[a * size + b] * query.at(prompt, b);
      return sum;
    });
  }

  /** The mean square between the model's answers and those of every algorithm. */
  distances(place = this.now) {
    return this.remember(`distances ${this.seed} ${place}`, () => {
      const own = this.answers(place), { answers } = this.prompts.arrays;
      return this.prompts.names.map((_, row) => {
        let sum = 0;
        own.forEach((value, prompt) => { sum += (value - answers.at(row, prompt)) ** 2; });
        return sum / own.length;
      });
    });
  }
}

/** UᵀWU, the rows of W beginning at a place of an array. */
function inBasis(vectors, data, begin, size) {
  const half = new Float64Array(size * size), whole = new Float64Array(size * size);
  for (let a = 0; a < size; a++)
    for (let b = 0; b < size; b++)
      for (let d = 0; d < size; d++)
        half[a * size + d] += data[begin + a * size + b] * vectors[b * size + d];
  for (let a = 0; a < size; a++)
    for (let c = 0; c < size; c++)
      for (let d = 0; d < size; d++)
        whole[c * size + d] += vectors[a * size + c] * half[a * size + d];
  return whole;
}
