// Heat maps: matrices as coloured cells, all of one picture on one scale.

import { diverging, own } from "./colours.js";

/** Maps side by side, below `above`; each is {title, rows, columns, value(row, column), names,
 *  rowNames, group}. */
export function drawMaps(pen, maps, largest, width, height, above = 0) {
  const ink = own("ink"), faint = own("faint"), line = own("line");
  const gap = 14, top = 18, bottom = 18, left = (map) => (map.rowNames ? 24 : 2);
  const columns = maps.reduce((sum, map) => sum + map.columns, 0);
  const margins = maps.reduce((sum, map) => sum + left(map), gap * (maps.length - 1) + 4);
  const rows = Math.max(...maps.map((map) => map.rows));
  // Square cells, unless there are many rows: then they are flat. Few are large, below their title.
  const largestCell = Math.max(46, 130 / Math.max(...maps.map((map) => map.columns)));
  const cell = Math.min((width - margins) / columns, largestCell,
                        Math.max((height - top - bottom) / rows, 17));
  let x = (width - margins - cell * columns) / 2;
  for (const map of maps) {
    const tall = Math.min(cell, (height - top - bottom) / map.rows), begin = x + left(map);
    const y = above + top + (height - top - bottom - tall * map.rows) / 2;
    pen.text(begin + (cell * map.columns) / 2, y - 10, map.title,
             { colour: ink, size: cell * map.columns < 70 ? 9.5 : 11, align: "center", weight: 600 });
    for (let row = 0; row < map.rows; row++)
      for (let column = 0; column < map.columns; column++)
        pen.rectangle(begin + column * cell, y + row * tall, cell - 0.5, tall - 0.5,
                      { fill: diverging(map.value(row, column) / largest) });
    pen.rectangle(begin - 0.5, y - 0.5, cell * map.columns + 0.5, tall * map.rows + 0.5,
                  { colour: line });
    if (cell >= 13)
      (map.names ?? []).forEach((name, column) =>
        pen.text(begin + (column + 0.5) * cell, y + map.rows * tall + 9, name,
                 { colour: faint, size: 10, align: "center" }));
    for (const { words, colour, row } of map.rowNames ?? [])
      pen.text(begin - 4, y + (row + 0.5) * tall, words,
               { colour: colour ?? faint, size: Math.min(10, tall * (map.group ?? 1)), align: "right",
                 weight: colour ? 600 : 400 });
    x = begin + cell * map.columns + gap;
  }
}
