// The controls: each has a label, a value, and one line of explanation.

import { colour } from "./drawing/colours.js";
import { isMixed, preset, PRESETS } from "./settings.js";

const DISTRIBUTIONS = { gaussian: "Gaussian", rademacher: "random signs", uniform: "uniform",
                        laplace: "Laplace", "student:5": "Student t, 5 d.o.f." };
const GROUPS = [
  ["Model", [
    { name: "model", label: "Keys and queries", options: { separate: "separate", merged: "merged" },
      hint: "Two vectors per head, or one matrix: a staircase, or a single drop." },
    { name: "heads", label: "Heads H", hint: "Attention heads that share the work." },
    { name: "rank", label: "Rank R", off: (state) => state.model === "merged",
      hint: "Key–query pairs per head; rank two skips steps." },
  ]],
  ["Task", [
    { name: "dimension", label: "Dimension D", hint: "Number of components of each input." },
    { name: "spectrum", label: "Spectrum of the inputs", bars: true,
      hint: "Variance along each eigenvector: drag a bar, or use the arrow keys." },
    { name: "context_length", label: "Context length N", scale: "log",
      hint: "Examples that the model sees before the query." },
    { name: "inputs", label: "Distribution", options: DISTRIBUTIONS, off: isMixed,
      hint: "Of the inputs; its fourth moment shifts every level slightly." },
    { name: "label_noise", label: "Label noise σ", high: 2, step: 0.01, off: isMixed,
      hint: "Standard deviation of the noise on the context's labels." },
    { name: "share", label: "Share of a fixed task ρ", step: 0.01,
      off: (state) => state.spectrum.length > 4,
      hint: "Above 0, one task keeps coming back and memory competes (D ≤ 4)." },
  ]],
  ["Start", [
    { name: "init_scale", label: "Initialisation scale w", scale: "log", low: 1e-4, high: 3,
      hint: "Small is rich, with plateaus; large is lazy, without." },
    { name: "seeds", label: "Seeds", hint: "Random starts that are trained together." },
  ]],
  ["Training", [
    { name: "method", label: "Method", options: { descent: "gradient descent", flow: "gradient flow",
                                                 optimiser: "optimiser" },
      hint: "Discrete steps, their continuous limit, or another update rule." },
    { name: "optimiser", label: "Optimiser", options: null, off: (state) => state.method !== "optimiser",
      hint: "From optax. Time then counts steps, and drop times are not predicted." },
    { name: "learning_rate", label: "Learning rate η", scale: "log", low: 1e-3, high: 10,
      off: (state) => state.method === "flow", limit: true,
      hint: "Red mark: the largest rate that is stable on every plateau." },
    { name: "steps", label: "Steps", scale: "log", low: 100, high: 1e6,
      off: (state) => state.method === "flow", hint: "How long to train." },
    { name: "until", label: "Until time t/τ", scale: "log", low: 10, high: 1e7,
      off: (state) => state.method !== "flow", hint: "How long the flow lasts." },
    { name: "spacing", label: "Time axis", options: { linear: "linear", log: "logarithmic" },
      hint: "Records are spaced in the same way." },
  ]],
];
const SLIDER = 1000;
// Key presses from end to end of a logarithmic slider.
const KEY_STEPS = 100;

const make = (tag, attributes = {}, ...content) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...content);
  return element;
};
const shown = (value) => (Math.abs(value) >= 1e5 || (value !== 0 && Math.abs(value) < 1e-3)
  ? value.toExponential(1) : String(Number(value.toPrecision(4))));
/** Two digits, without the zero before the point: for a narrow bar. */
const few = (value) => String(Number(value.toPrecision(2))).replace(/^0\./, ".");

export class Controls {
  /** `changed` takes new values by name, and `refuse` the reason why something typed is none. */
  constructor(form, limits, changed, refuse) {
    this.limits = limits;
    this.changed = changed;
    this.refuse = refuse;
    this.parts = [];
    form.replaceChildren(...GROUPS.map(([title, controls]) =>
      make("fieldset", {}, make("legend", {}, title), ...controls.map((one) => this.build(one)))));
    form.addEventListener("submit", (event) => event.preventDefault());
  }

  build(control) {
    const id = `control-${control.name}`, hint = make("p", { class: "hint", id: `${id}-hint` },
                                                      control.hint);
    const box = make("div", { class: "control" });
    const part = control.bars ? this.bars(control, id) : control.options !== undefined
      ? this.choice(control, id) : this.slider(control, id);
    box.append(...part.elements, hint);
    this.parts.push({ ...part, control, box });
    return box;
  }

  choice(control, id) {
    const options = control.options ??
      Object.fromEntries(this.limits.optimisers.map((name) => [name, name]));
    const select = make("select", { id, "aria-describedby": `${id}-hint` }, ...Object.entries(options)
      .map(([value, words]) => make("option", { value }, words)));
    select.addEventListener("change", () => this.changed({ [control.name]: select.value }));
    return { elements: [make("div", { class: "line" }, make("label", { for: id }, control.label),
                             select)],
             inputs: [select], show: (state) => { select.value = state[control.name]; } };
  }

  slider(control, id) {
    const limit = this.limits[control.name], whole = limit.whole ?? false;
    const low = control.low ?? limit.low, high = control.high ?? limit.high;
    const isLog = control.scale === "log";
    const toPlace = (value) => (isLog ? SLIDER * Math.log(value / low) / Math.log(high / low)
                                      : value);
    const toValue = (place) => {
      const raw = isLog ? low * (high / low) ** (place / SLIDER) : place;
      return whole ? Math.round(raw) : Number(raw.toPrecision(3));
    };
    const range = make("input", { id, type: "range", "aria-describedby": `${id}-hint`,
      min: isLog ? 0 : low, max: isLog ? SLIDER : high,
      step: isLog ? 1 : whole ? 1 : control.step });
    const number = make("input", { type: "number", class: "number", "aria-label":
      `${control.label}, exact value`, min: limit.low, max: limit.high, step: "any" });
    const send = (value) => {
      if (Number.isFinite(value)) this.changed(this.change(control.name, value));
    };
    range.addEventListener("input", () => send(toValue(Number(range.value))));
    if (isLog)
      range.addEventListener("keydown", (event) => {
        const power = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10,
                        PageDown: -10 }[event.key];
        if (!power) return;
        event.preventDefault();
        const before = this.state[control.name];
        const raw = before * (high / low) ** (power / KEY_STEPS);
        // A whole number moves by one at least.
        const value = whole ? Math.round(before + Math.sign(power) * Math.max(Math.abs(raw - before), 1))
                            : Number(raw.toPrecision(3));
        send(Math.min(Math.max(value, low), high));
      });
    const current = (state) => (control.name === "dimension" ? state.spectrum.length
      : control.name === "seeds" && Array.isArray(state.seeds) ? state.seeds.length
        : state[control.name]);
    number.addEventListener("change", () => {
      const text = number.value, value = Number(text);
      if (text !== "" && value >= limit.low && value <= limit.high &&
          (!whole || Number.isInteger(value))) { send(value); return; }
      number.value = current(this.state);
      this.refuse(`${control.label} = ${text || "nothing"}: the lab takes ` +
                  `${whole ? "a whole number" : "a number"} from ${limit.low} to ${limit.high}`);
    });
    const mark = make("div", { class: "limit", hidden: "", title: "stable limit" });
    const track = make("div", { class: "track" }, range, mark);
    const show = (state) => {
      const value = current(state);
      // The server refuses what an address has in place of a number.
      if (!Number.isFinite(value)) { number.value = ""; return; }
      range.value = toPlace(value);
      range.setAttribute("aria-valuetext", shown(value));
      if (document.activeElement !== number) number.value = value;
    };
    const showLimit = (rate) => {
      mark.hidden = !(control.limit && rate !== null && rate > low && rate < high);
      if (mark.hidden) return;
      const place = toPlace(rate) / SLIDER;
      mark.style.left = `calc(${(100 * place).toFixed(2)}% + ${(8 - 16 * place).toFixed(1)}px)`;
      mark.title = `stable below ${shown(rate)} (T21)`;
      range.setAttribute("aria-valuetext", `${number.value}; stable below ${shown(rate)}`);
    };
    return { elements: [make("div", { class: "line" }, make("label", { for: id }, control.label),
                             number), track],
             inputs: [range, number], show, showLimit };
  }

  /** What a slider changes. The dimension changes the spectrum: new eigenvalues fall off slowly. */
  change(name, value) {
    if (name !== "dimension") return { [name]: value };
    const before = this.state.spectrum, last = before.at(-1);
    const spectrum = Array.from({ length: value }, (_, mode) => before[mode] ??
      Number(Math.max(last * 0.7 ** (mode - before.length + 1), this.limits.spectrum.low)
        .toPrecision(3)));
    return { spectrum };
  }

  bars(control, id) {
    const box = make("div", { class: "bars", role: "group", "aria-label": control.label,
                              "aria-describedby": `${id}-hint` });
    const { low, high, most } = this.limits.spectrum;
    const presets = make("div", { class: "presets", role: "group", "aria-label": "Presets" });
    for (const name of Object.keys(PRESETS)) {
      const button = make("button", { type: "button" }, name);
      button.addEventListener("click", () =>
        this.changed({ spectrum: preset(name, this.state.spectrum.length) }));
      presets.append(button);
    }
    // A bar pushes its neighbours along, so that the order stays.
    const set = (mode, value) => {
      const spectrum = [...this.state.spectrum];
      spectrum[mode] = Number(Math.min(Math.max(value, low), high).toPrecision(3));
      for (let at = 0; at < mode; at++) spectrum[at] = Math.max(spectrum[at], spectrum[mode]);
      for (let at = mode + 1; at < spectrum.length; at++)
        spectrum[at] = Math.min(spectrum[at], spectrum[mode]);
      this.changed({ spectrum });
    };
    let top = 0.5;
    const show = (state) => {
      // An address may hold anything: the server refuses it, and the bars show what they can.
      const values = state.spectrum.slice(0, most).filter(Number.isFinite);
      if (!box.querySelector(".held")) top = Math.max(0.5, (values[0] ?? 0) * 1.15);
      while (box.children.length > values.length) box.lastChild.remove();
      while (box.children.length < values.length)
        box.append(this.bar(box.children.length, set, () => top));
      values.forEach((value, mode) => {
        const bar = box.children[mode];
        bar.querySelector("i").style.height = `${Math.min((100 * value) / top, 100)}%`;
        bar.querySelector("b").textContent = values.length > 5 ? few(value) : shown(value);
        bar.style.setProperty("--colour", colour(mode));
        bar.setAttribute("aria-valuenow", value);
        bar.setAttribute("aria-valuetext", shown(value));
      });
    };
    const disable = (isOff) => {
      for (const bar of box.children) bar.tabIndex = isOff ? -1 : 0;
      for (const button of presets.children) button.disabled = isOff;
      box.style.pointerEvents = isOff ? "none" : "";
    };
    return { elements: [make("div", { class: "line" }, make("span", {}, control.label)), box, presets],
             inputs: [], show, disable };
  }

  bar(mode, set, top) {
    const { low, high } = this.limits.spectrum;
    const bar = make("div", { class: "bar", role: "slider", tabindex: 0, "aria-label":
      `Variance along eigenvector ${mode + 1}`, "aria-valuemin": low, "aria-valuemax": high,
      "aria-orientation": "vertical" }, make("i"), make("b"));
    const drag = (event) => {
      const box = bar.getBoundingClientRect();
      set(mode, top() * (box.bottom - event.clientY) / box.height);
    };
    bar.addEventListener("pointerdown", (event) => {
      bar.setPointerCapture(event.pointerId);
      bar.classList.add("held");
      drag(event);
    });
    bar.addEventListener("pointermove", (event) => {
      if (bar.hasPointerCapture(event.pointerId)) drag(event);
    });
    for (const end of ["pointerup", "pointercancel"])
      bar.addEventListener(end, () => { bar.classList.remove("held"); this.show(this.state); });
    bar.addEventListener("keydown", (event) => {
      const factor = { ArrowUp: 1.05, ArrowRight: 1.05, ArrowDown: 1 / 1.05, ArrowLeft: 1 / 1.05,
                       PageUp: 1.5, PageDown: 1 / 1.5 }[event.key];
      if (!factor) return;
      event.preventDefault();
      set(mode, this.state.spectrum[mode] * factor);
    });
    return bar;
  }

  show(state) {
    this.state = state;
    for (const part of this.parts) {
      part.show(state);
      const isOff = this.isFrozen || Boolean(part.control.off?.(state));
      part.box.classList.toggle("off", isOff && !this.isFrozen);
      for (const input of part.inputs) input.disabled = isOff;
      part.disable?.(isOff);
    }
  }

  /** Show the limit of the learning rate (T21), where there is one. */
  showLimit(rate) {
    for (const part of this.parts) part.showLimit?.(rate);
  }

  /** A saved page shows its setting, and it cannot be changed. */
  freeze() {
    this.isFrozen = true;
  }
}
