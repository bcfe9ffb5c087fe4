// A view as a file: SVG drawn by a pen, PNG made from the SVG, CSV of its numbers.

import { drawChart, drawLegend } from "./chart.js";
import { own } from "./colours.js";
import { SvgPen } from "./pens.js";

const WIDTH = 720, HEIGHT = 420, LEGEND = 22, TIMES = 2;

export function toSvg(picture) {
  const pen = new SvgPen(WIDTH, HEIGHT, own("card"));
  if (picture.draw) {
    picture.draw(pen, WIDTH, HEIGHT - LEGEND);
    drawLegend(pen, picture.legend ?? [], 16, HEIGHT - 10);
  } else drawChart(pen, picture, WIDTH, HEIGHT);
  return pen.toString();
}

export async function toPng(picture) {
  const image = new Image();
  image.src = `data:image/svg+xml;base64,${btoa(unescape(encodeURIComponent(toSvg(picture))))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [WIDTH * TIMES, HEIGHT * TIMES];
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

/** Columns of numbers or words, by name. */
export function toCsv(columns) {
  const names = Object.keys(columns);
  const quoted = (cell) => (/[",\n]/.test(cell) ? `"${String(cell).replaceAll('"', '""')}"` : cell);
  const lines = [names.map(quoted).join(",")];
  const count = Math.max(0, ...names.map((name) => columns[name].length));
  for (let row = 0; row < count; row++)
    lines.push(names.map((name) => quoted(columns[name][row] ?? "")).join(","));
  return `${lines.join("\n")}\n`;
}

export function download(name, content, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
