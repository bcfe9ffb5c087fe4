// The chart of a sweep: a heat map over two axes, or a line over one with the range over seeds. All
// numbers are in the page; the menus choose what is drawn, the sliders fix the other axes.
"use strict";

(() => {
  const { axes, kept, seeds } = JSON.parse(document.getElementById("data").textContent);
  const canvas = document.getElementById("chart");
  const readout = document.getElementById("readout");
  const LINES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"];
  const STOPS = ["#440154", "#3b528b", "#21918c", "#5ec962", "#fde725"];
  const names = Object.keys(axes);
  const chosen = { kept: Object.keys(kept)[0], x: null, y: null };
  const fixed = Object.fromEntries(names.map((name) => [name, 0]));
  let drawn = null;

  const written = (value) =>
    typeof value === "number" ? String(Number(value.toPrecision(4))) : String(value);
  const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function element(tag, properties, ...inside) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...inside);
    return made;
  }

  // Numbers on a linear or a logarithmic scale, whichever spaces them more evenly; texts one by one.
  function spacing(labels) {
    if (labels.some((label) => typeof label !== "number")) return labels.map((_, index) => index);
    const spread = (values) => {
      const steps = values.slice(1).map((value, index) => value - values[index]);
      return (Math.max(...steps) - Math.min(...steps)) / Math.abs(steps.reduce((a, b) => a + b, 0));
    };
    const logs = labels.every((label) => label > 0) ? labels.map(Math.log10) : null;
    return logs && labels.length > 2 && spread(logs) < spread(labels) ? logs : labels;
  }

  function at(one, field, where) {
    let index = 0;
    for (const name of one.axes) index = index * axes[name].length + where[name];
    return one[field] ? one[field][index] : null;
  }

  // Positions from 0 to 1 along a side, with the edges between neighbours.
  function along(labels) {
    const values = spacing(labels);
    if (values.length === 1) return { centres: [0.5], edges: [0, 1] };
    const middles = values.slice(1).map((value, index) => (value + values[index]) / 2);
    const first = 2 * values[0] - middles[0];
    const last = 2 * values[values.length - 1] - middles[middles.length - 1];
    const scale = (value) => (value - first) / (last - first);
    return { centres: values.map(scale), edges: [first, ...middles, last].map(scale) };
  }

  function colourAt(share) {
    const position = Math.min(Math.max(share, 0), 1) * (STOPS.length - 1);
    const below = Math.min(Math.floor(position), STOPS.length - 2);
    const [a, b] = [STOPS[below], STOPS[below + 1]].map((stop) =>
      [1, 3, 5].map((from) => parseInt(stop.slice(from, from + 2), 16)));
    return `rgb(${a.map((part, i) => Math.round(part + (b[i] - part) * (position - below))).join()})`;
  }

  function range(values) {
    const sound = values.filter((value) => value !== null);
    if (!sound.length) return { low: 0, high: 1, share: () => 0.5, ticks: [] };
    let [low, high] = [Math.min(...sound), Math.max(...sound)];
    const logarithmic = low > 0 && high > 50 * low;
    if (low === high) {
      const room = Math.abs(low) / 2 || 0.5;
      [low, high] = [low - room, high + room];
    }
    const to = logarithmic ? Math.log10 : (value) => value;
    const from = logarithmic ? (value) => 10 ** value : (value) => value;
    const share = (value) => (to(value) - to(low)) / (to(high) - to(low));
    const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) => from(to(low) + part * (to(high) - to(low))));
    return { low, high, share, ticks };
  }

  function draw() {
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    [canvas.width, canvas.height] = [width * ratio, height * ratio];
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.font = "13px system-ui, sans-serif";
    // As wide as the longest label, within reason.
    const labels = chosen.y ? [...axes[chosen.y].map(written), chosen.y] : ["0.000000"];
    const widest = Math.max(...labels.map((text) => context.measureText(text).width));
    const box = { left: Math.min(Math.max(widest + 16, 60), width / 3), top: 28, right: width - 92, bottom: height - 46 };
    drawn = { box, ...(chosen.y ? drawMap(context, box) : drawLines(context, box)) };
    context.strokeStyle = ink("--line");
    context.strokeRect(box.left, box.top, box.right - box.left, box.bottom - box.top);
  }

  const sideways = (box, share) => box.left + share * (box.right - box.left);
  const upwards = (box, share) => box.bottom - share * (box.bottom - box.top);

  function label(context, text, x, y, align) {
    context.fillStyle = ink("--ink");
    context.textAlign = align;
    context.fillText(text, x, y);
  }

  function shortened(context, text, width) {
    if (context.measureText(text).width <= width) return text;
    let end = text.length;
    while (end > 1 && context.measureText(`${text.slice(0, end)}…`).width > width) end -= 1;
    return `${text.slice(0, end)}…`;
  }

  // As many labels as there is room for, long ones shortened.
  function drawBottom(context, box, centres) {
    const labels = axes[chosen.x];
    const width = box.right - box.left;
    const step = Math.ceil(labels.length / Math.max(Math.floor(width / 76), 1));
    const room = (step * width) / labels.length - 8;
    labels.forEach((one, index) => {
      if (index % step) return;
      const text = shortened(context, written(one), room);
      label(context, text, sideways(box, centres[index]), box.bottom + 18, "center");
    });
    label(context, chosen.x, (box.left + box.right) / 2, box.bottom + 38, "center");
  }

  function drawMap(context, box) {
    const one = kept[chosen.kept];
    const [x, y] = [along(axes[chosen.x]), along(axes[chosen.y])];
    const cells = axes[chosen.y].map((_, row) => axes[chosen.x].map((_, column) =>
      at(one, "mean", { ...fixed, [chosen.x]: column, [chosen.y]: row })));
    const scale = range(cells.flat());
    cells.forEach((line, row) => line.forEach((value, column) => {
      const [left, right] = [x.edges[column], x.edges[column + 1]].map((e) => sideways(box, e));
      const [bottom, top] = [y.edges[row], y.edges[row + 1]].map((e) => upwards(box, e));
      context.fillStyle = value === null ? ink("--line") : colourAt(scale.share(value));
      context.fillRect(left, top, right - left + 0.5, bottom - top + 0.5);
    }));
    drawBottom(context, box, x.centres);
    const step = Math.ceil(axes[chosen.y].length / Math.max(Math.floor((box.bottom - box.top) / 22), 1));
    axes[chosen.y].forEach((text, row) => {
      if (row % step) return;
      const fitting = shortened(context, written(text), box.left - 12);
      label(context, fitting, box.left - 8, upwards(box, y.centres[row]) + 4, "right");
    });
    label(context, chosen.y, box.left, box.top - 10, "right");
    for (let part = 0; part < 100; part += 1) {
      context.fillStyle = colourAt(part / 99);
      context.fillRect(box.right + 14, upwards(box, (part + 1) / 100), 12,
        (box.bottom - box.top) / 100 + 1);
    }
    scale.ticks.forEach((value) =>
      label(context, written(value), box.right + 32, upwards(box, scale.share(value)) + 4, "left"));
    return { x, y, cells };
  }

  function drawLines(context, box) {
    const one = kept[chosen.kept];
    const x = along(axes[chosen.x]);
    const values = (field) => axes[chosen.x].map((_, column) =>
      at(one, field, { ...fixed, [chosen.x]: column }));
    const [mean, low, high] = ["mean", "low", "high"].map(values);
    const scale = range([...mean, ...(one.low ? [...low, ...high] : [])]);
    const point = (value, column) =>
      [sideways(box, x.centres[column]), upwards(box, 0.04 + 0.92 * scale.share(value))];
    if (one.low) {
      context.strokeStyle = LINES[0];
      context.globalAlpha = 0.35;
      context.lineWidth = 4;
      low.forEach((value, column) => {
        if (value === null) return;
        context.beginPath();
        context.moveTo(...point(value, column));
        context.lineTo(...point(high[column], column));
        context.stroke();
      });
      context.globalAlpha = 1;
    }
    context.strokeStyle = context.fillStyle = LINES[0];
    context.lineWidth = 1.8;
    context.beginPath();
    let begun = false;
    mean.forEach((value, column) => {
      if (value === null) begun = false;
      else if (begun) context.lineTo(...point(value, column));
      else {
        context.moveTo(...point(value, column));
        begun = true;
      }
    });
    context.stroke();
    mean.forEach((value, column) => {
      if (value === null) return;
      context.beginPath();
      context.arc(...point(value, column), 3, 0, 7);
      context.fill();
    });
    drawBottom(context, box, x.centres);
    scale.ticks.forEach((value) => label(
      context, written(value), box.left - 8, upwards(box, 0.04 + 0.92 * scale.share(value)) + 4,
      "right"));
    return { x, cells: [mean] };
  }

  function read(event) {
    if (!drawn) return;
    const { box } = drawn;
    const shares = [
      (event.offsetX - box.left) / (box.right - box.left),
      (box.bottom - event.offsetY) / (box.bottom - box.top),
    ];
    const find = (side, share) =>
      Math.min(Math.max(side.edges.findIndex((edge) => edge > share) - 1, 0), side.centres.length - 1);
    const column = find(drawn.x, shares[0]);
    const row = drawn.y ? find(drawn.y, shares[1]) : 0;
    const value = drawn.cells[row][column];
    const where = [`${chosen.x} = ${written(axes[chosen.x][column])}`];
    if (drawn.y) where.push(`${chosen.y} = ${written(axes[chosen.y][row])}`);
    readout.textContent =
      `${where.join(", ")}: ${chosen.kept} = ${value === null ? "none" : written(value)}`;
  }

  function choice(title, options, value, change) {
    const list = element("select", {}, ...options.map(([text, own]) =>
      element("option", { value: own, textContent: text })));
    list.value = value;
    list.addEventListener("change", () => change(list.value));
    return element("label", {}, title, list);
  }

  function build() {
    const along = kept[chosen.kept].axes;
    if (!along.includes(chosen.x)) chosen.x = along[0];
    if (!along.includes(chosen.y) || chosen.y === chosen.x) chosen.y = "";
    const listed = along.map((name) => [name, name]);
    document.getElementById("choices").replaceChildren(
      choice("quantity", Object.keys(kept).map((name) => [name, name]), chosen.kept, (value) => {
        chosen.kept = value;
        build();
      }),
      choice("x axis", listed, chosen.x, (value) => {
        chosen.x = value;
        build();
      }),
      choice("y axis", [["the quantity", ""], ...listed.filter(([one]) => one !== chosen.x)],
        chosen.y, (value) => {
          chosen.y = value;
          build();
        }),
    );
    const free = along.filter((name) => name !== chosen.x && name !== chosen.y);
    document.getElementById("sliders").replaceChildren(...free.map((name) => {
      const shown = element("output", { textContent: written(axes[name][fixed[name]]) });
      const slider = element("input", {
        type: "range", min: 0, max: axes[name].length - 1, step: 1, value: fixed[name], name,
      });
      slider.addEventListener("input", () => {
        fixed[name] = Number(slider.value);
        shown.textContent = written(axes[name][fixed[name]]);
        draw();
      });
      return element("label", {}, element("span", {}, `${name} = `, shown), slider);
    }));
    readout.textContent = seeds > 1 ? `mean of ${seeds} seeds${chosen.y ? "" : ", with the range"}` : "";
    draw();
  }

  canvas.addEventListener("pointermove", read);
  window.addEventListener("resize", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  chosen.x = kept[chosen.kept].axes[0] || null;
  chosen.y = kept[chosen.kept].axes[1] || "";
  build();
})();
