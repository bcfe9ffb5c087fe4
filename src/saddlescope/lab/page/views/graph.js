// The graph of saddles: a node for each set of learned eigenvectors, with the run's path lit.

import { own } from "../drawing/colours.js";
import { subsetName } from "./map.js";

export default {
  id: "graph",
  title: "Graph of saddles",
  help: "Fixed points by the number of eigenvectors learned and by loss; the run's path is lit",
  kind: "sheet", first: true,

  note(known) {
    const visited = lit(known);
    return visited.length ? `nearest now: ${subsetName(visited.at(-1).subset)}` : "";
  },

  describe(known) {
    const points = known.theory?.points ?? [];
    if (!points.length) return { silent: "No fixed points are known here." };
    return {
      draw: (pen, width, height) => draw(pen, known, points, width, height),
      legend: [{ label: "run", colour: own("accent"), form: "dot" },
               { label: "predicted", colour: own("faint"), dash: true },
               { label: "index 0", colour: own("faint"), form: "dot" },
               { label: "index > 0", colour: own("faint"), form: "ring" }],
    };
  },

  table(known) {
    const points = known.theory?.points ?? [], visited = new Set(lit(known));
    return { learned: points.map((point) => subsetName(point.subset)),
             loss: points.map((point) => point.loss), index: points.map((point) => point.index),
             visited: points.map((point) => (visited.has(point) ? "yes" : "")) };
  },
};

/** The fixed points that the seed has been nearest to, up to the playhead. */
const lit = (known) =>
  known.visited().filter(({ place }) => place <= known.now).map(({ point }) => point);

/** Pairs of fixed points that differ by one learned eigenvector; made once. */
function edges(theory) {
  theory.edges ??= theory.points.flatMap((point) => theory.points
    .filter((next) => next.subset.length === point.subset.length + 1 &&
            point.subset.every((mode) => next.subset.includes(mode)))
    .map((next) => [point, next]));
  return theory.edges;
}

function draw(pen, known, points, width, height) {
  const faint = own("faint"), accent = own("accent"), card = own("card");
  const most = Math.max(1, ...points.map((point) => point.subset.length));
  const losses = points.map((point) => point.loss);
  const [low, high] = [Math.min(...losses), Math.max(...losses)];
  const left = 44, right = 22, top = 14, bottom = 54;
  const X = (point) => left + ((width - left - right) * point.subset.length) / most;
  const Y = (point) => top + (height - top - bottom) * (1 - (point.loss - low) / (high - low || 1));
  const keys = new Map(points.map((point) => [point.subset.join(), point]));
  const many = points.length > 40;
  const gap = [NaN, NaN];
  pen.line(edges(known.theory).flatMap(([one, other]) => [[X(one), Y(one)], [X(other), Y(other)], gap]),
           { colour: own("line"), width: many ? 0.5 : 1 });
  const path = (known.theory.path ?? []).map((subset) => keys.get(subset.join())).filter(Boolean);
  if (known.theory.is_merged && points.length === 2) path.push(...points);
  pen.line(path.map((point) => [X(point), Y(point)]),
           { colour: faint, width: 1.4, dash: [5, 4] });
  const visited = lit(known);
  pen.line(visited.map((point) => [X(point), Y(point)]), { colour: accent, width: 2.6 });
  for (const point of points) {
    const isLit = visited.includes(point), radius = many ? 2.6 : 4.5;
    pen.circle(X(point), Y(point), radius, isLit
      ? { fill: accent, colour: accent }
      : { fill: point.index === 0 ? faint : card, colour: faint, width: 1.1 });
  }
  if (visited.length) {
    const now = visited.at(-1);
    pen.circle(X(now), Y(now), 8.5, { colour: accent, width: 2 });
    // Left of the path, where the graph leaves room.
    const isFirst = now.subset.length === 0;
    pen.text(X(now) + (isFirst ? 14 : -6), Y(now) + (isFirst ? 0 : 16), subsetName(now.subset),
             { colour: own("ink"), size: 11, weight: 600, align: isFirst ? "left" : "right",
               halo: card });
  }
  for (let count = 0; count <= most; count++)
    pen.text(left + ((width - left - right) * count) / most, height - 20, String(count),
             { colour: faint, size: 10, align: "center" });
  pen.text((left + width - right) / 2, height - 7, "eigenvectors learned",
           { colour: faint, size: 10, align: "center" });
  for (const value of [low, high])
    pen.text(left - 12, top + (height - top - bottom) * (1 - (value - low) / (high - low || 1)),
             value.toFixed(2), { colour: faint, size: 10, align: "right" });
}
