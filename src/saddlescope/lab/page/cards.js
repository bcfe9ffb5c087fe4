// The views as cards: title, note, drawing, legend, and a menu that saves them.

import { Chart } from "./drawing/chart.js";
import { download, toCsv, toPng, toSvg } from "./drawing/files.js";
import { Sheet } from "./drawing/sheet.js";
import { closeWhenLeft } from "./menus.js";
import algorithm from "./views/algorithm.js";
import conserved from "./views/conserved.js";
import graph from "./views/graph.js";
import law from "./views/law.js";
import loss from "./views/loss.js";
import map from "./views/map.js";
import maps from "./views/maps.js";
import memory from "./views/memory.js";
import particles from "./views/particles.js";
import values from "./views/values.js";

const VIEWS = [loss, graph, memory, values, particles, law, maps, map, conserved, algorithm];
// Their axes are not training time: there is nothing to seek.
const STILL = new Set(["law", "particles"]);

const make = (tag, className, text = "") => {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = text;
  return element;
};

class Card {
  constructor(view, known, seek) {
    this.view = view;
    this.known = known;
    this.element = make("figure", "view");
    this.element.id = `view-${view.id}`;
    this.element.classList.toggle("wide", view.width === "wide");
    this.element.classList.toggle("full", view.width === "full");
    this.element.classList.toggle("first", Boolean(view.first));
    this.element.classList.toggle("still", STILL.has(view.id));
    const top = make("div", "top");
    const title = make("h2", "", view.title);
    title.title = view.help;
    this.note = make("p", "note");
    top.append(title, this.menu());
    this.stage = make("div", "stage");
    this.stage.setAttribute("role", "img");
    this.silent = make("p", "silent");
    this.legend = make("figcaption", "legend");
    this.element.append(top, this.note, this.stage, this.silent, this.legend);
    // Until there is a run: it may be compiled first, or the setting in the address be refused.
    this.silent.textContent = "No run yet.";
    this.stage.hidden = this.legend.hidden = this.takeAway.hidden = true;
    this.element.hidden = Boolean(view.isShown && !view.isShown(known));
    this.renderer = view.kind === "chart"
      ? new Chart(this.stage, STILL.has(view.id) ? null : seek) : new Sheet(this.stage);
    new ResizeObserver(() => { if (this.picture) this.show(); }).observe(this.stage);
  }

  menu() {
    const details = make("details", "");
    const summary = make("summary", "", "⋯");
    summary.setAttribute("aria-label", `Save ${this.view.title}`);
    const menu = make("div", "menu");
    const { id } = this.view, name = `saddlescope-${id}`;
    const ways = {
      PNG: async () => download(`${name}.png`, await toPng(this.picture), "image/png"),
      SVG: () => download(`${name}.svg`, toSvg(this.picture), "image/svg+xml"),
      CSV: () => download(`${name}.csv`, toCsv(this.view.table(this.known)), "text/csv"),
    };
    for (const [label, take] of Object.entries(ways)) {
      const button = make("button", "", label);
      button.type = "button";
      button.addEventListener("click", () => { details.open = false; take(); });
      menu.append(button);
    }
    details.append(summary, menu);
    closeWhenLeft(details);
    this.takeAway = details;
    return details;
  }

  /** Its words, and what is to be drawn. */
  describe() {
    const { view, known } = this;
    this.element.hidden = Boolean(view.isShown && !view.isShown(known));
    if (this.element.hidden || this.isAwaited) return;
    this.picture = view.describe(known);
    const isSilent = "silent" in this.picture;
    this.stage.hidden = this.legend.hidden = this.takeAway.hidden = isSilent;
    this.silent.hidden = !isSilent;
    this.note.textContent = isSilent ? "" : view.note(known);
    this.note.title = view.detail?.(known) ?? this.note.textContent;
    if (isSilent) { this.silent.textContent = this.picture.silent; return; }
    this.stage.setAttribute("aria-label", `${view.help}. ${this.note.textContent}`);
    this.showLegend(this.picture.legend ?? []);
  }

  show() {
    if (!this.element.hidden && !this.isAwaited && !("silent" in this.picture))
      this.renderer.show(this.picture);
  }

  /** Whether part of what it shows is on its way: until then the older picture stays whole. */
  get isAwaited() { return Boolean(this.picture && this.view.isAwaited?.(this.known)); }

  showLegend(entries) {
    const text = JSON.stringify(entries);
    if (text === this.shownLegend) return;
    this.shownLegend = text;
    this.legend.replaceChildren(...entries.map(({ label, colour, dash, form }) => {
      const entry = make("span", form ?? "", label);
      entry.style.setProperty("--colour", colour);
      if (dash) entry.style.setProperty("--dash", "dashed");
      return entry;
    }));
  }

  /** Whether its curves stay where only the playhead moves. */
  get isOverTime() {
    return this.view.kind === "chart" && !STILL.has(this.view.id) && !("silent" in this.picture);
  }

  moveTo(moment) {
    this.picture.playhead = moment;
    this.renderer.moveTo(moment);
  }
}

export class Cards {
  constructor(main, known, seek, resample) {
    this.cards = new Map(VIEWS.map((view) => [view.id, new Card(view, known, seek)]));
    main.append(...[...this.cards.values()].map((card) => card.element));
    const button = make("button", "resample", "another prompt");
    button.type = "button";
    button.addEventListener("click", resample);
    this.cards.get("algorithm").takeAway.before(button);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    this.known = known;
  }

  draw(...ids) {
    this.redraw([...this.cards.values()].filter((card) => !ids.length || ids.includes(card.view.id)));
  }

  /** All words come first: after each change of them the browser would lay the page out anew. */
  redraw(cards) {
    for (const card of cards) {
      const wasHidden = card.element.hidden;
      card.describe();
      // What is pointed at may come with the run.
      if (wasHidden && !card.element.hidden && card.view.id === this.pointed) this.scrollTo(card);
    }
    for (const card of cards) card.show();
  }

  /** Only the playhead has moved: charts over time keep their curves. */
  move() {
    const shown = [...this.cards.values()].filter((card) => !card.element.hidden);
    for (const card of shown) if (card.isOverTime) card.moveTo(this.known.moment);
    this.redraw(shown.filter((card) => !card.isOverTime && card.view.id !== "law"));
  }

  /** Mark a view and bring it on the screen; null to mark none. */
  point(id) {
    this.pointed = id;
    for (const [own, card] of this.cards) card.element.classList.toggle("shown", own === id);
    if (id) this.scrollTo(this.cards.get(id));
  }

  scrollTo(card) { card.element.scrollIntoView({ block: "nearest", behavior: "smooth" }); }
}
