// Colours, numbers and axes of charts, for uPlot.
"use strict";

const scales = (() => {
  const FONT = "12px system-ui, sans-serif";
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  const page = document.documentElement;
  const variable = (name) => getComputedStyle(page).getPropertyValue(name).trim();

  function colour(pair) {
    const chosen = pair[dark.matches ? 1 : 0];
    return chosen === "ink" ? variable("--ink") : chosen;
  }

  function mix(from, to, share) {
    const part = (text, place) => parseInt(text.slice(place, place + 2), 16);
    const mixed = (n) => Math.round(part(from, n) * (1 - share) + part(to, n) * share);
    return `rgb(${[1, 3, 5].map(mixed).join(",")})`;
  }

  function colourOfValue(map, value) {
    const share = (value - map.low) / (map.high - map.low);
    if (!Number.isFinite(share)) return null;
    const place = Math.min(Math.max(share, 0), 1) * (map.stops.length - 1);
    const below = Math.min(Math.floor(place), map.stops.length - 2);
    return mix(map.stops[below], map.stops[below + 1], place - below);
  }

  const raised = (text) => [...text].map((sign) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[sign] ?? "⁻").join("");

  function written(value, digits) {
    if (value === null || !Number.isFinite(value)) return "–";
    const size = Math.abs(value);
    if (size !== 0 && (size >= 1e5 || size < 1e-3)) {
      const [front, power] = value.toExponential(digits - 1).split("e");
      const ten = `10${raised(String(Number(power)))}`;
      const factor = Number(front);
      const whole = factor === 1 ? ten : factor === -1 ? `-${ten}` : `${factor}×${ten}`;
      return whole.replace("-", "−");
    }
    return String(Number(value.toPrecision(digits))).replace("-", "−");
  }

  // Round numbers between two ends, about `count` of them.
  function evenTicks(low, high, count) {
    const rough = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(rough));
    const factors = [0.5, 1, 2, 5, 10];
    const place = factors.findIndex((factor) => factor >= (0.8 * rough) / power);
    const ticks = (step) => {
      const first = Math.ceil(low / step - 1e-9);
      const last = Math.floor(high / step + 1e-9);
      return Array.from({ length: last - first + 1 }, (_, n) =>
        Number(((first + n) * step).toPrecision(12)));
    };
    const found = ticks(factors[place] * power);
    return found.length > 1 ? found : ticks(factors[Math.max(place - 1, 0)] * power);
  }

  // Powers of ten, with 2, 3 and 5 between them where there is room.
  function logTicks(low, high, count) {
    const decades = Math.log10(high / low);
    if (decades < 0.7) return evenTicks(low, high, count);
    const stride = Math.max(1, Math.ceil(decades / count));
    const ticks = (fronts) => {
      const found = [];
      for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
        if (power % stride !== 0) continue;
        found.push(...fronts.map((front) => Number(`${front}e${power}`)));
      }
      return found.filter((tick) => tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9));
    };
    const choices = [[1, 2, 3, 5], [1, 2, 5], [1, 3]].map(ticks);
    return choices.find((found) => stride === 1 && found.length <= count) ?? ticks([1]);
  }

  // How far along its axis a value lies, in the scale of the axis.
  function along(axis, value) {
    return axis.scale === "log" ? Math.log(value) : value;
  }

  function scaleOf(axis) {
    const home = [axis.low, axis.high];
    return {
      time: false,
      auto: false,
      distr: { linear: 1, log: 3 }[axis.scale],
      dir: axis.inverted ? -1 : 1,
      range: (chart, low, high) => (low === null || low === undefined ? home : [low, high]),
    };
  }

  function axisOf(axis, name, upright) {
    const splits = (chart, place, low, high) => {
      if (axis.bare) return [];
      if (axis.ticks.length) return axis.ticks.filter((tick) => tick >= low && tick <= high);
      const room = upright ? chart.bbox.height : chart.bbox.width;
      const count = Math.max(3, Math.floor(room / uPlot.pxRatio / (upright ? 45 : 75)));
      if (axis.scale === "log") return logTicks(low, high, count);
      return evenTicks(low, high, count);
    };
    const values = (chart, ticks) =>
      ticks.map((tick) => axis.names[axis.ticks.indexOf(tick)] ?? written(tick, 6));
    const widest = (chart, texts) => {
      if (!texts) return 40;
      chart.ctx.save();
      chart.ctx.font = FONT;
      const width = Math.max(0, ...texts.map((text) => chart.ctx.measureText(text).width));
      chart.ctx.restore();
      return width + 14;
    };
    return {
      scale: name,
      side: upright ? 3 : 2,
      label: axis.label || undefined,
      labelSize: axis.label ? 22 : 0,
      labelGap: 2,
      labelFont: FONT,
      font: FONT,
      gap: 4,
      size: upright ? widest : 28,
      stroke: () => variable("--ink"),
      grid: { stroke: () => variable("--line"), width: 1 },
      ticks: { stroke: () => variable("--line"), width: 1, size: 5 },
      splits,
      values,
      filter: (chart, ticks) => ticks,
    };
  }

  return { dark, variable, colour, colourOfValue, written, along, scaleOf, axisOf };
})();
