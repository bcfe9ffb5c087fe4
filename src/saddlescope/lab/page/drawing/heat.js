// Heat maps: matrices as coloured cells, all of one picture on one scale.

import { diverging, own } from "./colours.js";

/** Maps side by side; each is {title, rows, columns, value(row, column), names, rowNames, note}. */
export function drawMaps(pen, maps, largest, width, height) {
  const ink = own("ink"), faint = own("faint"), line = own("line");
  const left = maps.some((map) => map.rowNames) ? 30 : 4, gap = 14, top = 18, bottom = 18;
  const columns = maps.reduce((sum, map) => sum + map.columns, 0);
  const room = width - left * maps.length - gap * (maps.length - 1);
  const rows = Math.max(...maps.map((map) => map.rows));
  const cell = Math.min(room / columns, (height - top - bottom) / rows, 46);
  const used = maps.length * left + gap * (maps.length - 1) + cell * columns;
  let x = (width - used) / 2;
  for (const map of maps) {
    const begin = x + left, y = top + (height - top - bottom - cell * rows) / 2;
    pen.text(begin + (cell * map.columns) / 2, y - 10, map.title,
             { colour: ink, size: 11, align: "center", weight: 600 });
    for (let row = 0; row < map.rows; row++)
      for (let column = 0; column < map.columns; column++)
        pen.rectangle(begin + column * cell, y + row * cell, cell - 0.5, cell - 0.5,
                      { fill: diverging(map.value(row, column) / largest) });
    pen.rectangle(begin - 0.5, y - 0.5, cell * map.columns + 0.5, cell * map.rows + 0.5,
                  { colour: line });
    (map.names ?? []).forEach((name, column) =>
      pen.text(begin + (column + 0.5) * cell, y + map.rows * cell + 9, name,
               { colour: faint, size: 10, align: "center" }));
    if (map.rowNames && cell >= 8)
      map.rowNames.forEach(({ words, colour, row }) =>
        pen.text(begin - 4, y + (row + 0.5) * cell, words,
                 { colour: colour ?? faint, size: 10, align: "right", weight: colour ? 600 : 400 }));
    x = begin + cell * map.columns + gap;
  }
}
