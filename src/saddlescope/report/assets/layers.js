// The layers of a panel: how each kind is drawn.
"use strict";

const layers = (() => {
  const { colour, colourOfValue } = scales;

  // The part of a piece of line that lies in a box, or null (Liang and Barsky).
  function clipped(x0, y0, x1, y1, box) {
    let begin = 0;
    let end = 1;
    const sides = [
      [x0 - x1, x0 - box.left], [x1 - x0, box.left + box.width - x0],
      [y0 - y1, y0 - box.top], [y1 - y0, box.top + box.height - y0],
    ];
    for (const [along, room] of sides) {
      if (along === 0 && room < 0) return null;
      if (along < 0) begin = Math.max(begin, room / along);
      if (along > 0) end = Math.min(end, room / along);
    }
    if (begin > end) return null;
    const at = (share) => [x0 + share * (x1 - x0), y0 + share * (y1 - y0)];
    return [...at(begin), ...at(end), begin > 0];
  }

  function traceLine(context, xs, ys, box) {
    const far = {
      left: box.left - 50, top: box.top - 50, width: box.width + 100, height: box.height + 100,
    };
    let down = false;
    context.beginPath();
    for (let n = 1; n < xs.length; n += 1) {
      const gap = xs[n] === null || xs[n - 1] === null;
      const piece = gap ? null : clipped(xs[n - 1], ys[n - 1], xs[n], ys[n], far);
      if (piece === null) {
        down = false;
        continue;
      }
      if (!down || piece[4]) context.moveTo(piece[0], piece[1]);
      context.lineTo(piece[2], piece[3]);
      down = true;
    }
  }

  const SHAPES = {
    square: [[-1, -1], [1, -1], [1, 1], [-1, 1]],
    diamond: [[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]],
    triangle: [[0, -1.2], [1.1, 0.9], [-1.1, 0.9]],
    wedge: [[0, 1.2], [1.1, -0.9], [-1.1, -0.9]],
  };
  const STROKES = {
    cross: [[-1, -1, 1, 1], [-1, 1, 1, -1]],
    plus: [[-1, 0, 1, 0], [0, -1, 0, 1]],
    star: [[-1, 0, 1, 0], [-0.5, -0.87, 0.5, 0.87], [-0.5, 0.87, 0.5, -0.87]],
    upright: [[0, -1, 0, 1]],
    flat: [[-1, 0, 1, 0]],
  };

  function drawMark(context, look, x, y, radius) {
    context.beginPath();
    if (STROKES[look.marker]) {
      for (const [x0, y0, x1, y1] of STROKES[look.marker]) {
        context.moveTo(x + radius * x0, y + radius * y0);
        context.lineTo(x + radius * x1, y + radius * y1);
      }
      context.stroke();
      return;
    }
    if (SHAPES[look.marker]) {
      SHAPES[look.marker].forEach(([right, down], n) =>
        context[n ? "lineTo" : "moveTo"](x + radius * right, y + radius * down));
      context.closePath();
    } else {
      context.arc(x, y, radius, 0, 2 * Math.PI);
    }
    if (look.filled) context.fill();
    if (look.edge) context.strokeStyle = colour(look.edge);
    if (look.edge || !look.filled) context.stroke();
  }

  const draw = {
    curve(context, layer, to, box, ratio) {
      const xs = layer.x.map((value) => (value === null ? null : to.x(value)));
      const height = layer.y_in === "panel" ? (share) => box.top + (1 - share) * box.height : to.y;
      const ys = layer.y.map((value) => (value === null ? null : height(value)));
      if (layer.look.width) {
        traceLine(context, xs, ys, box);
        context.stroke();
      }
      if (!layer.look.marker) return;
      context.setLineDash([]);
      context.lineWidth = 1.5 * ratio;
      xs.forEach((x, n) => {
        if (x === null) return;
        drawMark(context, layer.look, x, ys[n], (layer.look.size / 2) * ratio);
      });
    },
    rule(context, layer, to, box) {
      const at = to[layer.axis](layer.at);
      context.beginPath();
      const upright = layer.axis === "x";
      context.moveTo(upright ? at : box.left, upright ? box.top : at);
      context.lineTo(upright ? at : box.left + box.width, upright ? box.top + box.height : at);
      context.stroke();
    },
    span(context, layer, to, box) {
      const [from, end] = [to[layer.axis](layer.low), to[layer.axis](layer.high)];
      if (layer.axis === "x") context.fillRect(from, box.top, end - from, box.height);
      else context.fillRect(box.left, end, box.width, from - end);
    },
    bars(context, layer, to, box) {
      const half = layer.thickness / 2;
      layer.x.forEach((place, n) => {
        if (layer.heights[n] === null) return;
        const [x0, x1] = [to.x(place - half), to.x(place + half)];
        const top = to.y(layer.heights[n]);
        // A bar on a logarithmic axis begins at zero, which is below everything.
        const foot = Number.isFinite(to.y(0)) ? to.y(0) : box.top + box.height;
        context.fillRect(x0, top, x1 - x0, foot - top);
      });
    },
    band(context, layer, to) {
      context.beginPath();
      layer.x.forEach((x, n) => {
        if (x !== null) context[n ? "lineTo" : "moveTo"](to.x(x), to.y(layer.y[n]));
      });
      context.fill();
    },
    map(context, layer, to) {
      const xs = layer.x_edges.map(to.x).map(Math.round);
      const ys = layer.y_edges.map(to.y).map(Math.round);
      layer.values.forEach((row, up) => row.forEach((value, across) => {
        const fill = value === null ? null : colourOfValue(layer, value);
        if (fill === null) return;
        context.fillStyle = fill;
        context.fillRect(xs[across], ys[up], xs[across + 1] - xs[across], ys[up + 1] - ys[up]);
      }));
    },
    note(context, layer, to, box, ratio) {
      const x = layer.x_in === "panel" ? box.left + layer.x * box.width : to.x(layer.x);
      const y = layer.y_in === "panel" ? box.top + (1 - layer.y) * box.height : to.y(layer.y);
      // A note may stand beside the panel, but what it is about must be seen.
      const seen = (place, from, length) => place > from - 1 && place < from + length + 1;
      if (layer.x_in === "data" && !seen(x, box.left, box.width)) return;
      if (layer.y_in === "data" && !seen(y, box.top, box.height)) return;
      context.font = `${layer.look.size * ratio}px system-ui, sans-serif`;
      context.textAlign = layer.align;
      context.textBaseline = layer.baseline;
      context.translate(x + layer.shift[0] * ratio, y - layer.shift[1] * ratio);
      context.rotate((-layer.rotation * Math.PI) / 180);
      layer.text.split("\n").forEach((line, n) =>
        context.fillText(line, 0, n * 1.2 * layer.look.size * ratio));
    },
  };

  function drawLayers(plot, panel, hidden) {
    const { ctx: context, bbox: box } = plot;
    const ratio = uPlot.pxRatio;
    const to = {
      x: (value) => plot.valToPos(value, "x", true),
      y: (value) => plot.valToPos(value, "y", true),
    };
    const onMap = panel.layers.some((layer) => layer.kind === "map");
    context.save();
    for (const layer of panel.layers) {
      if (hidden.has(layer.entry)) continue;
      context.save();
      if (layer.kind !== "note") {
        context.beginPath();
        context.rect(box.left, box.top, box.width, box.height);
        context.clip();
      }
      // What is written on a heat map keeps its colour, as the map does.
      const [own] = layer.look.colour;
      const fixed = own === "ink" ? "#000" : own;
      const shade = layer.kind === "note" && onMap ? fixed : colour(layer.look.colour);
      context.globalAlpha = layer.look.alpha;
      context.strokeStyle = context.fillStyle = shade;
      context.lineWidth = Math.max(layer.look.width, 1) * ratio;
      context.lineJoin = "round";
      context.setLineDash(layer.look.dash.map((length) => length * ratio));
      draw[layer.kind](context, layer, to, box, ratio);
      context.restore();
    }
    if (onMap) {
      context.strokeStyle = scales.variable("--faint");
      context.lineWidth = 2 * ratio;
      context.strokeRect(box.left, box.top, box.width, box.height);
    }
    context.restore();
  }

  return { drawMark, drawLayers };
})();
