// A chart described as data: drawn on the screen with uPlot's axes, in a file with its own.
//
// picture: { x, y: {label, low, high, scale}, lines, marks, levels, legend, playhead }

import { own } from "./colours.js";
import { CanvasPen } from "./pens.js";

const AXIS = 11;

/** Numbers in few characters: 20 000 as 20k, 1e-4 as 1e−4. */
export function brief(value) {
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (size >= 1e5 || size < 1e-3)
    return Number(value.toPrecision(3)).toExponential().replace("e+", "e").replaceAll("-", "−");
  if (size >= 1e4) return `${Number((value / 1000).toPrecision(3))}k`.replace("-", "−");
  return String(Number(value.toPrecision(3))).replace("-", "−");
}

/** Two functions, from the numbers of a picture to positions in a box. */
function positions(picture, box) {
  const share = ({ low, high, scale }) => {
    if (scale !== "log") return (value) => (value - low) / (high - low);
    const width = Math.log(high / low);
    return (value) => Math.log(Math.max(value, 1e-300) / low) / width;
  };
  const across = share(picture.x), up = share(picture.y);
  return [(value) => box.x + box.width * across(value),
          (value) => box.y + box.height * (1 - up(value))];
}

/** The lines and marks of a picture, with the positions of numbers given as functions. */
export function drawContent(pen, picture, X, Y, box) {
  const faint = own("faint"), { ratio } = pen;
  const labels = [];
  let labelled = -Infinity;
  for (const { value, label } of picture.levels ?? []) {
    pen.line([[box.x, Y(value)], [box.x + box.width, Y(value)]],
             { colour: faint, width: 1, dash: [5, 4], alpha: 0.75 });
    // Of levels that lie close together the first is labelled.
    if (!label || Y(value) - labelled < 12 * ratio) continue;
    labelled = Y(value);
    labels.push([Math.max(Y(value) - 7 * ratio, box.y + 5 * ratio), label]);
  }
  for (const line of picture.lines) {
    const points = [];
    for (let at = 0; at < line.x.length; at++) points.push([X(line.x[at]), Y(line.y[at])]);
    if (line.area) {
      const ground = Y(Math.max(picture.y.low, 0));
      pen.line([[points[0][0], ground], ...points, [points.at(-1)[0], ground]],
               { fill: line.colour, alpha: 0.14, close: true });
    }
    pen.line(points, line);
  }
  for (const mark of picture.marks ?? []) {
    const x = X(mark.x), y = mark.y === undefined ? box.y + box.height : Y(mark.y);
    const size = (mark.size ?? 5) * ratio;
    if (mark.form === "tick")
      pen.line([[x, y], [x, y - 2.2 * size]], { colour: mark.colour, width: mark.width ?? 1.6,
                                               alpha: mark.alpha });
    else if (mark.form === "triangle")
      pen.line([[x - size, y - 1.5 * size], [x + size, y - 1.5 * size], [x, y]],
               { fill: mark.colour, alpha: mark.alpha, close: true });
    else if (mark.form === "ring")
      pen.circle(x, y, mark.size ?? 5, { colour: mark.colour, fill: own("card"), width: 1.6,
                                        alpha: mark.alpha });
    else pen.circle(x, y, mark.size ?? 5, { fill: mark.colour, alpha: mark.alpha });
  }
  // Over the lines, or they could not be read.
  for (const [y, label] of labels)
    pen.text(box.x + box.width - 4 * ratio, y, label,
             { colour: faint, size: 10, align: "right", halo: own("card") });
}

/** How wide the labels of a vertical axis are, in one of two sizes: the drawing moves seldom. */
const room = (_, labels) => (labels?.some((label) => label.length > 6) ? 62 : 50);

export class Chart {
  constructor(stage, seek) {
    this.stage = stage;
    this.seek = seek;
    this.form = "";
    this.plot = null;
    this.line = document.createElement("div");
    this.line.className = "head-line";
  }

  /** Show a picture; axes are made anew only where their form changes. */
  show(picture) {
    this.picture = picture;
    const { clientWidth: width, clientHeight: height } = this.stage;
    if (!width || !height) return;
    const form = [picture.x.label, picture.y.label, picture.x.scale, picture.y.scale,
                  own("ink")].join();
    if (form !== this.form) { this.build(width, height); this.form = form; }
    if (this.plot.width !== width || this.plot.height !== height)
      this.plot.setSize({ width, height });
    this.plot.batch(() => {
      this.plot.setScale("x", { min: picture.x.low, max: picture.x.high });
      this.plot.setScale("y", { min: picture.y.low, max: picture.y.high });
    });
    this.plot.redraw(false, true);
    this.moveTo(picture.playhead);
  }

  build(width, height) {
    this.plot?.destroy();
    const { picture } = this;
    const axis = (own_, name) => ({
      scale: name, stroke: own("faint"), font: `${AXIS}px system-ui`, label: own_.label,
      labelFont: `${AXIS}px system-ui`, labelSize: 15, labelGap: 0,
      size: name === "x" ? 22 : room, gap: 4, ticks: { show: false },
      grid: { stroke: own("grid"), width: 1 }, space: name === "x" ? 60 : 30,
      values: (_, splits) => splits.map((one) => (one === null ? "" : brief(one))),
    });
    const options = {
      width, height, padding: [8, 16, 0, 0],
      cursor: { show: true, x: false, y: false, points: { show: false }, drag: { x: false, y: false } },
      legend: { show: false },
      scales: {
        x: { time: false, auto: false, distr: picture.x.scale === "log" ? 3 : 1,
             range: () => [this.picture.x.low, this.picture.x.high] },
        y: { auto: false, distr: picture.y.scale === "log" ? 3 : 1,
             range: () => [this.picture.y.low, this.picture.y.high] },
      },
      axes: [axis(picture.x, "x"), axis(picture.y, "y")],
      series: [{}, { show: true, paths: () => null, points: { show: false } }],
      hooks: { draw: [(plot) => this.drawn(plot)] },
    };
    const data = [[picture.x.low, picture.x.high], [picture.y.low, picture.y.high]];
    this.plot = new uPlot(options, data, this.stage);
    this.plot.over.append(this.line);
    if (this.seek) this.listen(this.plot.over);
  }

  listen(over) {
    const seek = (event) => {
      const left = event.clientX - over.getBoundingClientRect().left;
      this.seek(this.plot.posToVal(left, "x"));
    };
    over.addEventListener("pointerdown", (event) => {
      over.setPointerCapture(event.pointerId);
      seek(event);
    });
    over.addEventListener("pointermove", (event) => {
      if (over.hasPointerCapture(event.pointerId)) seek(event);
    });
  }

  drawn(plot) {
    const { left: x, top: y, width, height } = plot.bbox;
    const pen = new CanvasPen(plot.ctx, devicePixelRatio);
    const box = { x, y, width, height }, [X, Y] = positions(this.picture, box);
    pen.clipped(x, y, width, height, () => drawContent(pen, this.picture, X, Y, box));
  }

  moveTo(time) {
    if (!this.plot) return;
    this.line.hidden = time === null || time === undefined;
    if (this.line.hidden) return;
    const { low, high } = this.picture.x;
    const at = this.plot.valToPos(Math.min(Math.max(time, low), high), "x");
    this.line.style.transform = `translateX(${at}px)`;
  }
}

/** Round numbers inside an axis. */
export function ticks({ low, high, scale }, count = 6) {
  if (scale === "log") {
    const found = [];
    for (let power = Math.ceil(Math.log10(low)); power <= Math.log10(high); power++)
      found.push(10 ** power);
    return found;
  }
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((one) => one * power >= raw) * power;
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step)
    found.push(Math.abs(value) < step * 1e-9 ? 0 : value);
  return found;
}

/** The whole chart with a pen, axes included. */
export function drawChart(pen, picture, width, height) {
  const box = { x: 56, y: 30, width: width - 76, height: height - 86 };
  const [X, Y] = positions(picture, box);
  const faint = own("faint"), grid = own("grid");
  for (const value of ticks(picture.x)) {
    pen.line([[X(value), box.y], [X(value), box.y + box.height]], { colour: grid, width: 1 });
    pen.text(X(value), box.y + box.height + 12, brief(value), { colour: faint, align: "center" });
  }
  for (const value of ticks(picture.y)) {
    pen.line([[box.x, Y(value)], [box.x + box.width, Y(value)]], { colour: grid, width: 1 });
    pen.text(box.x - 6, Y(value), brief(value), { colour: faint, align: "right" });
  }
  pen.text(box.x + box.width / 2, box.y + box.height + 27, picture.x.label,
           { colour: faint, align: "center" });
  pen.text(box.x - 44, box.y - 10, picture.y.label, { colour: faint });
  pen.clipped(box.x, box.y, box.width, box.height, () => {
    drawContent(pen, picture, X, Y, box);
    if (picture.playhead !== null && picture.playhead !== undefined)
      pen.line([[X(picture.playhead), box.y], [X(picture.playhead), box.y + box.height]],
               { colour: own("accent"), width: 1.5 });
  });
  drawLegend(pen, picture.legend ?? [], box.x, height - 10);
}

/** A legend in one line. */
export function drawLegend(pen, entries, x, y) {
  for (const entry of entries) {
    drawKey(pen, entry, x, y);
    pen.text(x + 19, y, entry.label, { colour: own("faint"), size: 10 });
    x += 32 + entry.label.length * 6;
  }
}

/** The sign of a legend's entry, 14 wide. */
function drawKey(pen, { colour, dash, form }, x, y) {
  if (form === "dot") pen.circle(x + 8, y, 4, { fill: colour });
  else if (form === "ring") pen.circle(x + 8, y, 4, { colour });
  else if (form === "tick") pen.line([[x + 8, y - 5], [x + 8, y + 5]], { colour, width: 2 });
  else if (form === "triangle")
    pen.line([[x + 4, y - 4], [x + 12, y - 4], [x + 8, y + 3]], { fill: colour, close: true });
  else pen.line([[x, y], [x + 14, y]], { colour, width: 2, dash: dash ? [4, 3] : [] });
}
