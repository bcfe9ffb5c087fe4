// The charts of a page. Python has put the panels that a figure describes (report/_panels.py) into
// the page as JSON. uPlot gives axes, scales, the cursor and the box of a zoom; layers.js
// draws the layers, so that curves with an x of their own, bars and heat maps share one chart.
"use strict";

(() => {
  const { dark, colour, written, along, scaleOf, axisOf } = scales;
  const { drawMark, drawLayers } = layers;
  const { heightAt, named, nearestIn, sentence } = reading;
  const HINT =
    "Drag a box or scroll to zoom, double click to go back; point at something to read it. " +
    "The legend hides and shows.";
  const KEYS = "Arrows move the cursor, + and − zoom, 0 goes back.";
  const CLOSEST_ZOOM = 1e-4; // of the whole range
  const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const charts = [];

  function element(tag, properties = {}, ...inside) {
    const { label, ...others } = properties;
    const made = Object.assign(document.createElement(tag), others);
    if (label) made.setAttribute("aria-label", label);
    made.append(...inside);
    return made;
  }

  // A key of the legend, at twice its size for sharp screens.
  function paintSwatch(canvas, look) {
    const context = canvas.getContext("2d");
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.strokeStyle = context.fillStyle = colour(look.colour);
    context.globalAlpha = Math.max(look.alpha, 0.4);
    if (look.width) {
      context.lineWidth = Math.max(look.width, 1.5) * 2;
      context.setLineDash(look.dash.map((length) => length * 2));
      context.beginPath();
      context.moveTo(0, 12);
      context.lineTo(52, 12);
      context.stroke();
      context.setLineDash([]);
    }
    context.lineWidth = 3;
    if (look.marker) drawMark(context, look, 26, 12, Math.min(look.size, 9));
    if (!look.width && !look.marker) context.fillRect(4, 2, 44, 20);
  }

  function colourBar(map) {
    const bar = element("span", { className: "gradient" });
    bar.style.background = `linear-gradient(to right, ${map.stops.join(",")})`;
    const name = element("span", { textContent: map.name });
    return element(
      "div", { className: "colour-bar" }, name, written(map.low, 3), bar, written(map.high, 3),
    );
  }

  class Chart {
    constructor(host, panel) {
      this.panel = panel;
      this.hidden = new Set();
      this.title = panel.title || panel.y.label || "chart";
      this.stage = element("div", {
        className: "stage", tabIndex: 0, role: "group", label: `${this.title}. ${KEYS}`,
      });
      this.readout = element("output", { className: "readout" });
      this.dot = element("div", { className: "nearest", hidden: true });
      this.keys = panel.entries.map((entry, place) => this.key(entry, place));
      const heading = element("h4", { textContent: panel.title });
      host.append(
        element("div", { className: "head" }, heading, this.tools()),
        this.stage,
        this.readout,
        element("div", { className: "legend" }, ...this.keys.map((key) => key.button)),
      );
      const map = panel.layers.find((layer) => layer.kind === "map");
      if (map) host.append(colourBar(map));
      this.plot = this.start();
      this.listen();
      this.repaint();
    }

    start() {
      const { panel } = this;
      const options = {
        ...this.size(),
        legend: { show: false },
        padding: [10, 24, 0, 0],
        scales: { x: scaleOf(panel.x), y: scaleOf(panel.y) },
        axes: [axisOf(panel.x, "x", false), axisOf(panel.y, "y", true)],
        // uPlot wants a series; what is seen are the layers.
        series: [{}, { show: false }],
        cursor: {
          points: { show: false },
          drag: { x: true, y: true, uni: 30, dist: 6, setScale: true },
          bind: { dblclick: () => () => this.reset() },
        },
        hooks: {
          draw: [(plot) => drawLayers(plot, panel, this.hidden)],
          setCursor: [(plot) => this.read(plot)],
          setScale: [(plot) => this.noteView(plot)],
        },
      };
      return new uPlot(options, [[panel.x.low, panel.x.high], [null, null]], this.stage);
    }

    size() {
      const width = Math.max(140, Math.floor(this.stage.clientWidth));
      const height = Math.round(Math.min(460, Math.max(180, width * this.panel.ratio + 60)));
      return { width, height };
    }

    // A line of the legend: a button that hides and shows what belongs to it.
    key(entry, place) {
      const canvas = element("canvas", { width: 52, height: 24, className: "swatch" });
      canvas.setAttribute("aria-hidden", "true");
      const value = element("span", { className: "value" });
      const button = element("button", { type: "button" }, canvas, entry.label, value);
      button.setAttribute("aria-pressed", "true");
      button.addEventListener("click", () => {
        if (!this.hidden.delete(place)) this.hidden.add(place);
        button.setAttribute("aria-pressed", String(!this.hidden.has(place)));
        this.plot.redraw();
      });
      return { button, value, paint: () => paintSwatch(canvas, entry.look) };
    }

    tools() {
      const actions = [
        ["+", "zoom in", () => this.zoom(0.7, ...this.middle())],
        ["−", "zoom out", () => this.zoom(1 / 0.7, ...this.middle())],
        ["reset", "whole range", () => this.reset()],
      ];
      const buttons = actions.map(([text, name, act]) => {
        const label = `${name}: ${this.title}`;
        const button = element("button", { type: "button", textContent: text, title: name, label });
        button.addEventListener("click", act);
        return button;
      });
      return element("div", { className: "tools" }, ...buttons);
    }

    listen() {
      const { over } = this.plot;
      const place = (event) => {
        const box = over.getBoundingClientRect();
        return [event.clientX - box.left, event.clientY - box.top];
      };
      over.append(this.dot);
      over.addEventListener("wheel", (event) => {
        const factor = Math.exp(Math.max(-1, Math.min(1, event.deltaY * 0.002)));
        // Zoomed out already: the wheel scrolls the page.
        if (this.zoom(factor, ...place(event))) event.preventDefault();
      }, { passive: false });
      for (const kind of ["pointerdown", "pointermove"]) {
        over.addEventListener(kind, (event) => {
          const [left, top] = place(event);
          if (event.pointerType === "touch") this.plot.setCursor({ left, top });
        });
      }
      this.stage.addEventListener("keydown", (event) => {
        if (this.press(event.key)) event.preventDefault();
      });
      new ResizeObserver(() => {
        if (this.stage.clientWidth) this.fit();
      }).observe(this.stage);
    }

    press(name) {
      const { over, cursor } = this.plot;
      const { clientWidth: width, clientHeight: height } = over;
      const [left, top] = cursor.left >= 0 ? [cursor.left, cursor.top] : this.middle();
      if (STEPS[name]) {
        const bound = (value, most) => Math.min(Math.max(value, 0), most);
        this.plot.setCursor({
          left: bound(left + (STEPS[name][0] * width) / 50, width),
          top: bound(top + (STEPS[name][1] * height) / 50, height),
        });
      } else if (name === "+" || name === "=") this.zoom(0.7, left, top);
      else if (name === "-") this.zoom(1 / 0.7, left, top);
      else if (name === "0" || name === "Escape") this.reset();
      else return false;
      return true;
    }

    // Zoom about a place of the screen; says whether that was possible.
    zoom(factor, left, top) {
      const { over, scales: now } = this.plot;
      const { x: across, y: up } = this.panel;
      const x = this.zoomed("x", across, factor, left, over.clientWidth);
      const y = this.zoomed("y", up, factor, top, over.clientHeight);
      const was = [now.x.min, now.x.max, now.y.min, now.y.max];
      const same = [...x, ...y].every((end, place) => end === was[place]);
      if (!same) this.show(x, y);
      return !same || factor < 1;
    }

    // The ends of an axis after a zoom: within the whole range, and no closer than is useful.
    zoomed(name, axis, factor, place, length) {
      const ends = [place - place * factor, place + (length - place) * factor]
        .map((end) => this.plot.posToVal(end, name))
        .sort((one, other) => one - other);
      const [low, high] = [Math.max(ends[0], axis.low), Math.min(ends[1], axis.high)];
      const { min, max } = this.plot.scales[name];
      const range = (from, to) => along(axis, to) - along(axis, from);
      const close = range(low, high) < CLOSEST_ZOOM * range(axis.low, axis.high);
      return close ? [min, max] : [low, high];
    }

    show(x, y) {
      this.plot.batch(() => {
        this.plot.setScale("x", { min: x[0], max: x[1] });
        this.plot.setScale("y", { min: y[0], max: y[1] });
      });
    }

    reset() {
      const { x, y } = this.panel;
      this.show([x.low, x.high], [y.low, y.high]);
    }

    middle() {
      const { clientWidth, clientHeight } = this.plot.over;
      return [clientWidth / 2, clientHeight / 2];
    }

    // Say what the cursor is at, and how high each curve is above its place.
    read(plot) {
      const { left, top } = plot.cursor;
      const away = !(left >= 0);
      const seen = away ? [] : this.panel.layers.filter((layer) => !this.hidden.has(layer.entry));
      this.keys.forEach((key, place) => {
        const heights = seen
          .filter((layer) => layer.entry === place)
          .map((layer) => heightAt(plot, layer, left))
          .filter((height) => height !== null);
        const ends = [Math.min(...heights), Math.max(...heights)].map((end) => written(end, 4));
        const range = ends[0] === ends[1] ? ends[0] : ends.join(" … ");
        key.value.textContent = heights.length ? range : "";
      });
      const found = nearestIn(plot, seen, left, top);
      this.dot.hidden = !found || found.layer.kind === "map";
      if (found) {
        this.dot.style.transform = `translate(${found.left}px, ${found.top}px)`;
        this.readout.textContent = sentence(this.panel, found);
      } else {
        const across = named(this.panel.x, plot.posToVal(left, "x"));
        const up = named(this.panel.y, plot.posToVal(top, "y"));
        this.readout.textContent = away ? "" : `${across}  ·  ${up}`;
      }
    }

    noteView(plot) {
      const { x, y } = plot.scales;
      this.stage.dataset.view = [x.min, x.max, y.min, y.max].join(" ");
    }

    fit() {
      const { width, height } = this.size();
      if (width !== this.plot.width || height !== this.plot.height) {
        this.plot.setSize({ width, height });
      }
    }

    repaint() {
      this.keys.forEach((key) => key.paint());
      this.plot.redraw();
    }
  }

  function build(place) {
    place.append(element("p", { className: "hint", textContent: HINT }));
    const found = JSON.parse(document.getElementById(place.dataset.panels).textContent);
    for (const panel of found) {
      const isMap = panel.layers.some((layer) => layer.kind === "map");
      const host = element("div", { className: isMap ? "chart with-map" : "chart" });
      // Beside one another as in the drawing, but never too narrow to read.
      const share = Math.round(100 * Math.min(1, panel.share * 1.12));
      host.style.flexBasis = `max(${isMap ? 14 : 17}rem, calc(${share}% - 1.5rem))`;
      place.append(host);
      charts.push(new Chart(host, panel));
    }
    charts.forEach((chart) => chart.fit());
  }

  function toggle(button, place) {
    place.hidden = !place.hidden;
    button.setAttribute("aria-expanded", String(!place.hidden));
    if (!place.hidden && !place.childElementCount) build(place);
  }

  // A phone has no room for panels side by side: there the charts, one under another, stand in the
  // place of the picture, from when it comes near.
  const narrow = window.matchMedia("(max-width: 40rem)").matches;
  const near = new IntersectionObserver((entries) => entries.forEach((entry) => {
    if (!entry.isIntersecting) return;
    near.unobserve(entry.target);
    const button = entry.target.querySelector("button.interactive");
    const place = document.getElementById(button.getAttribute("aria-controls"));
    if (place.hidden) toggle(button, place);
    entry.target.classList.add("as-charts");
  }), { rootMargin: "1000px" });

  for (const button of document.querySelectorAll("button.interactive")) {
    const place = document.getElementById(button.getAttribute("aria-controls"));
    button.hidden = false;
    button.addEventListener("click", () => toggle(button, place));
    if (narrow) near.observe(button.closest("section"));
  }
  dark.addEventListener("change", () => charts.forEach((chart) => chart.repaint()));
})();
