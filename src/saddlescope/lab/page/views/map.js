// The effective map beside that of the nearest fixed point.

import { brief } from "../drawing/chart.js";
import { drawMaps } from "../drawing/heat.js";
import { DIVERGED, eigenvector, SIGNS } from "./maps.js";
import { WAITING } from "./time.js";

export const subsetName = (subset) => (subset.length ? `{${subset.map(eigenvector).join(" ")}}` : "∅");

export default {
  id: "map",
  title: "Effective map",
  help: "The effective map W at the playhead beside that of the fixed point whose answers are nearest",
  kind: "sheet",

  note(known) {
    const near = known.nearest();
    return near ? `${brief(near.distance)} away from ${subsetName(near.point.subset)}` : "";
  },

  detail: () => "The distance is the root mean square of what their answers differ by.",

  describe(known) {
    if (!known.has("effective_map")) return { silent: WAITING };
    const size = known.dimension, map = known.map(), near = known.nearest();
    if (!map.every(Number.isFinite)) return { silent: DIVERGED };
    const names = Array.from({ length: size }, (_, mode) => eigenvector(mode));
    const amplitude = known.theory?.arrays.amplitude?.data;
    const largest = amplitude ? Math.max(...amplitude) : Math.max(...map.map(Math.abs)) || 1;
    const maps = [{ title: "now", rows: size, columns: size, names,
                    value: (row, at) => map[row * size + at] }];
    if (near)
      maps.push({ title: "nearest fixed point", rows: size, columns: size,
                  names,
                  value: (row, at) => (row === at && near.point.subset.includes(row)
                    ? amplitude[row] : 0) });
    return { draw: (pen, width, height) => drawMaps(pen, maps, largest, width, height),
             legend: SIGNS() };
  },

  table(known) {
    const size = known.dimension, map = known.map(), columns = {};
    for (let at = 0; at < size; at++)
      columns[`W column ${at + 1} at t = ${known.moment}`] =
        Array.from({ length: size }, (_, row) => map[row * size + at]);
    return columns;
  },
};
