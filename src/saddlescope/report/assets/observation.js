// The charts of observed runs. Python has put the runs into the page as JSON, numbers in base64.
// One state (step, measure, head, range of steps) is shown by all charts; each change redraws them.
"use strict";

(() => {
  const { dark, variable, colour, colourOfValue, written, scaleOf, axisOf } = scales;
  const STOPS = ["#440154", "#3b528b", "#21918c", "#5ec962", "#fde725"]; // viridis
  const RUNS = [["#0072b2", "#56b4e9"], ["#d55e00", "#e69f00"]];
  const BAND = ["rgba(230,159,0,.22)", "rgba(230,159,0,.28)"];
  const ARROWS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const HINT =
    "Click a cell to choose its head (or focus the map and use the arrow keys). Drag across a " +
    "chart to zoom all of them, double click to go back, click to move the slider.";

  function element(tag, properties = {}, ...inside) {
    const { label, ...others } = properties;
    const made = Object.assign(document.createElement(tag), others);
    if (label) made.setAttribute("aria-label", label);
    made.append(...inside);
    return made;
  }

  function decoded(text) {
    const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
    return new Float32Array(bytes.buffer);
  }

  function unpacked(run) {
    const of = (group) =>
      Object.fromEntries(Object.entries(group).map(([name, text]) => [name, decoded(text)]));
    const spectra = Object.fromEntries(Object.entries(run.spectra).map(([name, one]) =>
      [name, { ...one, values: decoded(one.values) }]));
    return { ...run, measures: of(run.measures), scalars: of(run.scalars), spectra };
  }

  const place = document.getElementById("observation");
  const runs = JSON.parse(document.getElementById("observation-data").textContent).map(unpacked);
  const allSteps = [...new Set(runs.flatMap((run) => run.steps))].sort((a, b) => a - b);
  const ends = [...allSteps, ...runs.flatMap((run) => run.loss.steps)];
  const whole = ends.reduce(([a, b], x) => [Math.min(a, x), Math.max(b, x)], [Infinity, -Infinity]);
  if (whole[0] === whole[1]) whole[1] += 1;
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.measures)))].sort();
  const scalarNames = [...new Set(runs.flatMap((run) => Object.keys(run.scalars)))].sort();
  const state = {
    step: allSteps[allSteps.length - 1],
    measure: names.includes("qk_effective_rank") ? "qk_effective_rank" : names[0],
    layer: 0,
    head: 0,
    range: [...whole],
  };

  const at = (run, values, step, layer, head) =>
    values[(step * run.layers.length + layer) * run.heads + head];

  // The last record of a run that is not after a step.
  function recordAt(run, step) {
    let found = 0;
    run.steps.forEach((one, n) => { if (one <= step) found = n; });
    return found;
  }

  function limits(arrays) {
    let [low, high] = [Infinity, -Infinity];
    for (const values of arrays) {
      for (const value of values) {
        if (Number.isFinite(value)) [low, high] = [Math.min(low, value), Math.max(high, value)];
      }
    }
    if (low > high) return [0, 1];
    return low === high ? [low - 0.5, high + 0.5] : [low, high];
  }

  const axis = (label, [low, high], scale = "linear") => ({
    label, scale, low, high, inverted: false, ticks: [], names: [], bare: false,
  });

  // The same ends in every chart, whatever range its own data have.
  const fixed = (one) => ({ ...scaleOf(one), range: () => [one.low, one.high] });

  // A chart whose curves are asked for anew whenever the state has changed.
  class Chart {
    constructor(host, title, curves, { time = true, log = false, wide = false, stages = false } = {}) {
      Object.assign(this, { curves, time, log, stages });
      this.heading = element("h3", { textContent: title });
      this.stage = element("div");
      this.readout = element("output", { textContent: "\u00a0" });
      this.box = element("div", { className: "chart" }, this.heading, this.stage, this.readout);
      if (wide) this.box.classList.add("wide");
      host.append(this.box);
      new ResizeObserver(() => this.fit()).observe(this.stage);
    }

    build() {
      this.plot?.destroy();
      const curves = this.curves();
      const xs = [...new Set(curves.flatMap((curve) => curve.x))].sort((a, b) => a - b);
      const spots = new Map(xs.map((x, n) => [x, n]));
      const columns = curves.map((curve) => {
        const column = new Array(xs.length).fill(undefined);
        curve.x.forEach((x, n) => {
          const y = curve.y[n];
          column[spots.get(x)] = Number.isFinite(y) && (!this.log || y > 0) ? y : null;
        });
        return column;
      });
      const [low, high] = limits(columns.map((column) => column.filter((y) => y != null)));
      const margin = this.log ? 0 : 0.04 * (high - low);
      const y = axis("", [low - margin, high + margin], this.log ? "log" : "linear");
      const x = this.time ? axis("step", state.range) : axis("index", [1, Math.max(2, xs.length)]);
      const options = {
        ...this.size(),
        legend: { show: false },
        padding: [8, 18, 0, 0],
        scales: { x: fixed(x), y: fixed(y) },
        axes: [axisOf(x, "x", false), axisOf(y, "y", true)],
        series: [{}, ...curves.map((curve) => ({
          label: curve.name,
          stroke: () => colour(RUNS[curve.run]),
          width: curve.faint ? 1 : 1.8,
          dash: curve.faint ? [4, 4] : undefined,
          spanGaps: true,
          points: { show: curve.x.length < 80 && !curve.faint, size: 4 },
        }))],
        cursor: {
          drag: { x: this.time, y: false, setScale: false, dist: 6 },
          bind: { dblclick: () => () => { zoom([...whole]); } },
        },
        hooks: {
          draw: [(plot) => this.decorate(plot)],
          setSelect: [(plot) => this.select(plot)],
          setCursor: [(plot) => this.read(plot)],
          ready: [(plot) => plot.over.addEventListener("click", () => this.click(plot))],
        },
      };
      this.plot = new uPlot(options, [xs.length ? xs : [0, 1], ...columns], this.stage);
      if (this.time) this.stage.dataset.range = state.range.join(" ");
    }

    size() {
      return { width: Math.max(220, this.stage.clientWidth), height: this.stages ? 260 : 220 };
    }

    fit() {
      if (this.plot && this.stage.clientWidth && this.plot.width !== this.size().width) {
        this.plot.setSize(this.size());
      }
    }

    // The slider's step as a line; plateaus and drops of the loss.
    decorate(plot) {
      if (!this.time) return;
      const { ctx, bbox } = plot;
      const across = (value) => plot.valToPos(value, "x", true);
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
      ctx.clip();
      if (this.stages) {
        runs.forEach((run, n) => {
          ctx.fillStyle = BAND[dark.matches ? 1 : 0];
          for (const drop of run.stages.drops) {
            const width = Math.max(across(drop.end) - across(drop.start), 2);
            ctx.fillRect(across(drop.start), bbox.top, width, bbox.height);
          }
          ctx.strokeStyle = colour(RUNS[n]);
          ctx.lineWidth = 3 * uPlot.pxRatio;
          ctx.globalAlpha = 0.55;
          for (const { start, end, level } of run.stages.plateaus) {
            const up = plot.valToPos(level, "y", true);
            ctx.beginPath();
            ctx.moveTo(across(start), up);
            ctx.lineTo(across(end), up);
            ctx.stroke();
          }
          ctx.globalAlpha = 1;
        });
      }
      ctx.strokeStyle = variable("--ink");
      ctx.lineWidth = uPlot.pxRatio;
      ctx.beginPath();
      ctx.moveTo(across(state.step), bbox.top);
      ctx.lineTo(across(state.step), bbox.top + bbox.height);
      ctx.stroke();
      ctx.restore();
    }

    select(plot) {
      const { left, width } = plot.select;
      if (width < 6) return;
      const range = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
      plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
      this.dragged = true;
      zoom(range);
    }

    click(plot) {
      if (this.dragged || !this.time) {
        this.dragged = false;
        return;
      }
      const wanted = plot.posToVal(plot.cursor.left, "x");
      const distance = (step) => Math.abs(step - wanted);
      go(allSteps.reduce((best, step) => (distance(step) < distance(best) ? step : best)));
    }

    read(plot) {
      const { idx } = plot.cursor;
      if (idx === null || idx === undefined) {
        this.readout.textContent = "\u00a0";
        return;
      }
      const parts = plot.series.slice(1).map((series, n) => [series.label, plot.data[n + 1][idx]])
        .filter(([, value]) => value !== null && value !== undefined)
        .map(([label, value]) => `${label} ${written(value, 4)}`);
      const where = `${this.time ? "step" : "index"} ${written(plot.data[0][idx], 6)}`;
      this.readout.textContent = [where, ...parts].join("  ·  ");
    }
  }

  // Layers down, heads across, the measure of each at the slider's step as a colour.
  class HeatMap {
    constructor(host, run) {
      this.run = run;
      this.canvas = element("canvas", { className: "map", tabIndex: 0 });
      this.canvas.setAttribute("role", "img");
      this.title = element("h3");
      this.readout = element("output", { textContent: "\u00a0" });
      host.append(element("div", {}, this.title, this.canvas, element("div", {}, this.readout)));
      const room = runs.length > 1 ? 440 : 900;
      this.cell = Math.max(10, Math.min(44, Math.floor(room / run.heads), 480 / run.layers.length));
      this.canvas.addEventListener("click", (event) => this.choose(event));
      this.canvas.addEventListener("pointermove", (event) => this.tell(this.cellAt(event)));
      this.canvas.addEventListener("keydown", (event) => {
        const step = ARROWS[event.key];
        if (!step) return;
        event.preventDefault();
        pick(state.layer + step[0], state.head + step[1], run);
        this.tell([state.layer, state.head]);
      });
    }

    cellAt(event) {
      const box = this.canvas.getBoundingClientRect();
      const { layers, heads } = this.run;
      const bound = (share, count) => Math.min(count - 1, Math.max(0, Math.floor(share * count)));
      return [
        bound((event.clientY - box.top) / box.height, layers.length),
        bound((event.clientX - box.left) / box.width, heads),
      ];
    }

    choose(event) {
      pick(...this.cellAt(event), this.run);
    }

    tell([layer, head]) {
      const values = this.run.measures[state.measure];
      const value = values && at(this.run, values, recordAt(this.run, state.step), layer, head);
      const name = `${this.run.layers[layer]}, head ${head}`;
      this.readout.textContent = `${name}: ${state.measure} ${written(value ?? NaN, 4)}`;
    }

    draw() {
      const { run, canvas, cell } = this;
      const values = run.measures[state.measure];
      const record = recordAt(run, state.step);
      const [low, high] = limits(runs.map((one) => one.measures[state.measure] ?? []));
      const map = { stops: STOPS, low, high };
      canvas.width = run.heads * cell;
      canvas.height = run.layers.length * cell;
      const context = canvas.getContext("2d");
      for (let layer = 0; layer < run.layers.length; layer += 1) {
        for (let head = 0; head < run.heads; head += 1) {
          const value = values ? at(run, values, record, layer, head) : NaN;
          context.fillStyle = colourOfValue(map, value) ?? variable("--line");
          context.fillRect(head * cell, layer * cell, cell, cell);
        }
      }
      context.strokeStyle = "#ffffff";
      context.lineWidth = 3;
      const corner = [state.head * cell + 1.5, state.layer * cell + 1.5];
      context.strokeRect(...corner, cell - 3, cell - 3);
      context.strokeStyle = "#000000";
      context.lineWidth = 1;
      context.strokeRect(corner[0] + 2, corner[1] + 2, cell - 7, cell - 7);
      const step = run.steps[record];
      this.title.textContent = (runs.length > 1 ? `${run.name}, ` : "") + `step ${step}`;
      const label = `${state.measure} of ${run.layers.length} layers (down) and ${run.heads} heads ` +
        `(across) at step ${step}. Arrow keys choose a head.`;
      canvas.setAttribute("aria-label", label);
      canvas.dataset.record = String(record);
    }
  }

  const suffixed = (run, name) => (runs.length > 1 ? `${run.name} ${name}`.trim() : name);

  function lossCurves() {
    return runs.map((run, n) =>
      ({ run: n, name: suffixed(run, "loss"), x: run.loss.steps, y: run.loss.values }));
  }

  const headCurves = (name) => () => runs.flatMap((run, n) => {
    const wanted = name ?? state.measure;
    const values = run.measures[wanted];
    if (!values || state.layer >= run.layers.length || state.head >= run.heads) return [];
    const y = run.steps.map((_, step) => at(run, values, step, state.layer, state.head));
    return [{ run: n, name: suffixed(run, wanted), x: run.steps, y }];
  });

  const scalarCurves = (name) => () => runs.flatMap((run, n) =>
    run.scalars[name] ? [{ run: n, name: suffixed(run, name), x: run.steps, y: run.scalars[name] }]
      : []);

  // At the slider's step, and faintly at the first.
  const spectrumCurves = (circuit) => () => runs.flatMap((run, n) => {
    const spectra = run.spectra[circuit];
    if (!spectra || state.layer >= run.layers.length || state.head >= run.heads) return [];
    const record = recordAt(run, state.step);
    let spot = 0;
    spectra.places.forEach((one, k) => { if (one <= record) spot = k; });
    const x = Array.from({ length: spectra.size }, (_, k) => k + 1);
    const curve = (k, faint) => {
      const start = ((k * run.layers.length + state.layer) * run.heads + state.head) * spectra.size;
      const y = Array.from(spectra.values.slice(start, start + spectra.size));
      const step = run.steps[spectra.places[k]];
      return { run: n, name: suffixed(run, `step ${step}`), x, y, faint };
    };
    return spot ? [curve(0, true), curve(spot, false)] : [curve(spot, false)];
  });

  const slider = element("input", {
    type: "range", min: 0, max: allSteps.length - 1, step: 1, value: allSteps.length - 1,
    label: "step of the run",
  });
  const shown = element("output");
  const chooser = element("select", { label: "measure" },
    ...names.map((name) => element("option", { value: name, textContent: name })));
  chooser.value = state.measure;
  const bar = element("div", { className: "bar" },
    element("label", {}, "measure", chooser),
    element("label", { className: "slider" }, "step", slider, shown));
  const legend = element("div", { className: "legend" }, ...runs.map((run, n) => {
    const one = element("span", { textContent: run.name });
    one.dataset.run = String(n);
    return one;
  }));
  const gradient = element("span", { className: "gradient" });
  gradient.style.background = `linear-gradient(to right, ${STOPS.join(",")})`;
  const [lowest, highest] = [element("span"), element("span")];
  const maps = element("div", { className: "maps" });
  const charts = element("div", { className: "charts" });
  place.append(bar, element("p", { className: "faint", textContent: HINT }));
  if (runs.length > 1) place.append(legend);
  const top = element("div", { className: "charts" });
  place.append(top, maps,
    element("div", { className: "scale" }, lowest, gradient, highest,
      element("span", { className: "faint", textContent: "layers down, heads across" })), charts);

  const drawn = [];
  if (runs.some((run) => run.loss.steps.length)) {
    drawn.push(new Chart(top, "loss, with its plateaus and drops", lossCurves,
      { wide: true, stages: true }));
  }
  const heatMaps = runs.map((run) => new HeatMap(maps, run));
  const course = new Chart(charts, "", headCurves(null), { wide: true });
  const drifts = ["qk_drift", "ov_drift"].filter((name) => names.includes(name))
    .map((name) => [name, new Chart(charts, "", headCurves(name))]);
  const spectra = ["qk", "ov"].map((name) =>
    [name, new Chart(charts, "", spectrumCurves(name), { time: false, log: true })]);
  const scalarsDrawn = scalarNames.map((name) => new Chart(charts, name, scalarCurves(name)));
  drawn.push(course, ...drifts.map(([, one]) => one), ...spectra.map(([, one]) => one),
    ...scalarsDrawn);

  function refresh() {
    shown.textContent = written(state.step, 6);
    slider.value = String(allSteps.indexOf(state.step));
    slider.setAttribute("aria-valuetext", `step ${state.step}`);
    const [low, high] = limits(runs.map((run) => run.measures[state.measure] ?? []));
    [lowest.textContent, highest.textContent] = [written(low, 3), written(high, 3)];
    const head = `head ${state.layer}.${state.head}`;
    course.heading.textContent = `${state.measure} of ${head}`;
    drifts.forEach(([name, chart]) => {
      chart.heading.textContent = `${name} of ${head}: turned since the previous record`;
    });
    spectra.forEach(([name, chart]) => {
      chart.heading.textContent = `${name.toUpperCase()} singular values of ${head}`;
    });
    legend.childNodes.forEach((one, n) => one.style.setProperty("--own", colour(RUNS[n])));
    heatMaps.forEach((map) => map.draw());
    drawn.forEach((chart) => chart.build());
  }

  function go(step) {
    state.step = step;
    refresh();
  }

  function zoom(range) {
    state.range = [Math.max(whole[0], range[0]), Math.min(whole[1], range[1])];
    refresh();
  }

  function pick(layer, head, run) {
    state.layer = Math.min(Math.max(layer, 0), run.layers.length - 1);
    state.head = Math.min(Math.max(head, 0), run.heads - 1);
    refresh();
  }

  slider.addEventListener("input", () => go(allSteps[Number(slider.value)]));
  chooser.addEventListener("change", () => {
    state.measure = chooser.value;
    refresh();
  });
  dark.addEventListener("change", refresh);
  refresh();
})();
