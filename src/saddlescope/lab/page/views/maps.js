// Keys and queries of every head as heat maps beside the eigenvectors, or the maps of merged heads.

import { colour, diverging } from "../drawing/colours.js";
import { drawMaps } from "../drawing/heat.js";
import { WAITING } from "./time.js";

// More maps than these are drawn in two lines.
const MOST_IN_A_LINE = 5;
const subscripts = "₀₁₂₃₄₅₆₇₈₉";
export const eigenvector = (mode) => `e${[...String(mode + 1)].map((one) => subscripts[one]).join("")}`;

/** What the colours of a heat map mean. */
export const SIGNS = () => [{ label: "negative", colour: diverging(-1), form: "dot" },
                            { label: "positive", colour: diverging(1), form: "dot" }];
export const DIVERGED = "This seed has diverged by this time.";

export default {
  id: "maps",
  title: "Keys and queries",
  help: "Keys and queries of each head as heat maps along the eigenvectors of the inputs",
  kind: "sheet",

  note: (known) => (known.isSeparate ? "rows: heads; columns: eigenvectors"
                                     : "the merged map U of each head"),

  describe(known) {
    if (!known.has("k") && !known.has("U")) return { silent: WAITING };
    const names = Array.from({ length: known.dimension }, (_, mode) => eigenvector(mode));
    const maps = known.isSeparate ? pairs(known, names) : merged(known, names);
    let largest = 0;
    for (const map of maps)
      for (let row = 0; row < map.rows; row++)
        for (let at = 0; at < map.columns; at++)
          largest = Math.max(largest, Math.abs(map.value(row, at)));
    // NaN stays the largest of all.
    if (!Number.isFinite(largest)) return { silent: DIVERGED };
    if (known.isSeparate) maps.push(eigenvectors(names, largest || 1));
    const lines = Math.ceil(maps.length / MOST_IN_A_LINE), inLine = Math.ceil(maps.length / lines);
    return {
      draw(pen, width, height) {
        for (let line = 0; line < lines; line++)
          drawMaps(pen, maps.slice(line * inLine, (line + 1) * inLine), largest || 1, width,
                   height / lines, (line * height) / lines);
      },
      legend: SIGNS(),
    };
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
  return Array.from({ length: known.heads }, (_, head) => ({
    title: known.heads > 5 && head ? `${head + 1}` : `head ${head + 1}`,
    rows: known.dimension, columns: known.dimension,
    names: known.heads <= MOST_IN_A_LINE && names.length <= 4 ? names : undefined,
    value: (row, at) => known.array("U").at(known.seed, known.now, head, row, at),
  }));
}
