// The layers of a panel: what each kind says at a place of the screen.
"use strict";

const reading = (() => {
  const { written } = scales;
  const NEAR = 40; // pixels within which something is read

  // The place of a curve that is nearest to a place of the screen.
  function nearestOnCurve(plot, layer, left, top) {
    let best = { distance: Infinity };
    let before = null;
    const consider = (place, x, y) => {
      const distance = Math.hypot(place[0] - left, place[1] - top);
      if (distance < best.distance) best = { distance, left: place[0], top: place[1], x, y };
    };
    layer.x.forEach((x, n) => {
      const up = layer.y_in === "panel"
        ? (1 - layer.y[n]) * plot.over.clientHeight
        : plot.valToPos(layer.y[n], "y");
      const here = x === null ? null : [plot.valToPos(x, "x"), up];
      // Where a height is a share of the panel it is no value.
      if (here) consider(here, x, layer.y_in === "panel" ? undefined : layer.y[n]);
      if (here && before && layer.look.width && !layer.look.marker) {
        const foot = footOn(before, here, [left, top]);
        if (foot) consider(foot, plot.posToVal(foot[0], "x"), plot.posToVal(foot[1], "y"));
      }
      before = here;
    });
    return best;
  }

  // Where a place is nearest to the inside of a piece of line, if it is nearest to its inside.
  function footOn(from, to, place) {
    const [across, down] = [to[0] - from[0], to[1] - from[1]];
    const length = across ** 2 + down ** 2;
    const share = ((place[0] - from[0]) * across + (place[1] - from[1]) * down) / length;
    return share > 0 && share < 1 ? [from[0] + share * across, from[1] + share * down] : null;
  }

  const cell = (edges, value) => edges.findIndex((edge, n) =>
    n + 1 < edges.length && (value - edge) * (value - edges[n + 1]) <= 0);

  const nearest = {
    curve: nearestOnCurve,
    rule(plot, layer, left, top) {
      const at = plot.valToPos(layer.at, layer.axis);
      const place = layer.axis === "y" ? { left, top: at } : { left: at, top };
      // A curve that runs along a rule is what the reader means.
      return {
        ...place,
        distance: Math.abs(layer.axis === "y" ? at - top : at - left) + 3,
        [layer.axis]: layer.at,
      };
    },
    bars(plot, layer, left) {
      const x = plot.posToVal(left, "x");
      const n = layer.x.findIndex((place) => Math.abs(x - place) <= layer.thickness / 2);
      if (n < 0) return { distance: Infinity };
      const end = { left: plot.valToPos(layer.x[n], "x"), top: plot.valToPos(layer.heights[n], "y") };
      return { ...end, distance: NEAR / 4, x: layer.x[n], y: layer.heights[n] };
    },
    map(plot, layer, left, top) {
      const [x, y] = [plot.posToVal(left, "x"), plot.posToVal(top, "y")];
      const [across, up] = [cell(layer.x_edges, x), cell(layer.y_edges, y)];
      if (across < 0 || up < 0) return { distance: Infinity };
      const middle = (edges, n) => (edges[n] + edges[n + 1]) / 2;
      return {
        distance: NEAR - 1, left, top, value: layer.values[up][across],
        x: middle(layer.x_edges, across), y: middle(layer.y_edges, up),
      };
    },
  };

  // The height of a curve above a place of the x axis, if it has one there.
  function heightAt(plot, layer, left) {
    if (layer.kind === "rule") return layer.axis === "y" ? layer.at : null;
    if (layer.kind !== "curve" || !layer.look.width || layer.y_in === "panel") return null;
    for (let n = 1; n < layer.x.length; n += 1) {
      if (layer.x[n] === null || layer.x[n - 1] === null) continue;
      const [from, to] = [plot.valToPos(layer.x[n - 1], "x"), plot.valToPos(layer.x[n], "x")];
      if ((left - from) * (left - to) > 0 || from === to) continue;
      const [low, high] = [plot.valToPos(layer.y[n - 1], "y"), plot.valToPos(layer.y[n], "y")];
      return plot.posToVal(low + ((left - from) / (to - from)) * (high - low), "y");
    }
    return null;
  }

  // A place of an axis in words: the name of its tick, or the number.
  function named(axis, value) {
    const name = axis.names[axis.ticks.indexOf(value)];
    const number = name ?? written(value, 5);
    return axis.label ? `${axis.label}: ${number}` : number;
  }

  // What was found at a place, in words.
  function sentence(panel, { layer, x, y, value }) {
    const words = [];
    const label = layer.entry === null ? "" : panel.entries[layer.entry].label;
    if (label) words.push(label);
    if (x !== undefined) words.push(named(panel.x, x));
    if (y !== undefined) words.push(named(panel.y, y));
    if (value !== undefined) words.push(`${layer.name || "value"}: ${written(value, 5)}`);
    return words.join("  ·  ");
  }

  // The layer, and its place, that is nearest to a place of the screen; null if all are far.
  function nearestIn(plot, seen, left, top) {
    let best = { distance: NEAR };
    for (const layer of seen) {
      const found = nearest[layer.kind]?.(plot, layer, left, top);
      if (found && found.distance < best.distance) best = { ...found, layer };
    }
    return best.layer ? best : null;
  }

  return { heightAt, named, nearestIn, sentence };
})();
