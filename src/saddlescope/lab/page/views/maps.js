// Keys and queries of every head as heat maps, beside the eigenvectors; of merged heads their maps.

import { colour } from "../drawing/colours.js";
import { drawMaps } from "../drawing/heat.js";

const subscripts = "₀₁₂₃₄₅₆₇₈₉";
export const eigenvector = (mode) => `e${[...String(mode + 1)].map((one) => subscripts[one]).join("")}`;

export default {
  id: "maps",
  title: "Keys and queries",
  help: "Keys and queries of each head as heat maps along the eigenvectors of the inputs",
  kind: "sheet",

  note: (known) => (known.isSeparate ? "rows: heads; columns: eigenvectors" : "one map a head"),

  describe(known) {
    if (!known.has("k") && !known.has("U")) return { silent: "The weights come with the run." };
    const names = Array.from({ length: known.dimension }, (_, mode) => eigenvector(mode));
    const maps = known.isSeparate ? pairs(known, names) : merged(known, names);
    let largest = 0;
    for (const map of maps.slice(0, known.isSeparate ? 2 : undefined))
      for (let row = 0; row < map.rows; row++)
        for (let at = 0; at < map.columns; at++)
          largest = Math.max(largest, Math.abs(map.value(row, at)));
    if (known.isSeparate) maps.push(eigenvectors(names, largest || 1));
    return { draw: (pen, width, height) => drawMaps(pen, maps, largest || 1, width, height) };
  },

  table(known) {
    const columns = {};
    for (const name of known.isSeparate ? ["k", "q"] : ["U"]) {
      const array = known.array(name), row = array.row(known.seed, known.now);
      columns[`${name} [${array.shape.slice(2).join(" × ")}] at t = ${known.moment}`] = Array.from(row);
    }
    return columns;
  },
};

function pairs(known, names) {
  const rank = known.array("k").shape[3];
  const rowNames = Array.from({ length: known.heads }, (_, head) => ({
    words: `${head + 1}`, colour: colour(head), row: head * rank + (rank - 1) / 2 }));
  return ["k", "q"].map((name) => ({
    title: name === "k" ? "keys" : "queries", rows: known.heads * rank, columns: known.dimension, names,
    rowNames: name === "k" ? rowNames : undefined, group: rank,
    value: (row, at) =>
      known.array(name).at(known.seed, known.now, Math.floor(row / rank), row % rank, at),
  }));
}

const eigenvectors = (names, largest) => ({
  title: "eigenvectors", rows: names.length, columns: names.length, names,
  rowNames: names.map((words, row) => ({ words, row })),
  value: (row, at) => (row === at ? largest : 0),
});

function merged(known, names) {
  const shown = Math.min(known.heads, 4);
  return Array.from({ length: shown }, (_, head) => ({
    title: `head ${head + 1}`, rows: known.dimension, columns: known.dimension,
    names: names.length <= 4 ? names : undefined,
    value: (row, at) => known.array("U").at(known.seed, known.now, head, row, at),
  }));
}
