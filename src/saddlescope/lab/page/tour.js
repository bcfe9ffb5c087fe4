// The guided tour: six stops that set the controls and say what to look for.

import { DEFAULT, preset } from "./settings.js";

const STOPS = [
  { title: "One abrupt drop", view: "loss",
    set: { model: "merged", heads: 5, spectrum: preset("white", 4), steps: 150, init_scale: 1e-4 },
    text: "Key and query are merged into one matrix per head. The loss rests on a plateau and then " +
      "drops once, to the best that linear attention can do: all eigenvectors are learned together. " +
      "Drag the initialisation scale: the plateau's length follows its logarithm." },
  { title: "The staircase", view: "loss", set: {},
    text: "Keys and queries are separate, of rank one. Each drop now learns one eigenvector, the " +
      "strongest first, with a plateau before each. The dashed levels come from theory alone, the " +
      "triangles from theory and the initial weights. Press play and watch the path in the graph of " +
      "saddles." },
  { title: "Why rank two skips steps", view: "values",
    set: { rank: 2, heads: 5, spectrum: preset("linear", 4), steps: 30000 },
    text: "With two key–query pairs, a head that has learned one eigenvector already has a large " +
      "value weight, so its second pair grows fast and every second plateau nearly vanishes. " +
      "Compare with rank 1, and count the heads that have grown." },
  { title: "Heads as particles", view: "particles", set: { seeds: 6 }, place: 0,
    text: "A dormant head is a ball on a hill of its own, with zero energy. Press play: one ball " +
      "after another rolls off, some after turning back once. The first to run away learns the " +
      "eigenvector; the other hills then flatten, since that drive is used up." },
  { title: "From rich to lazy", view: "loss", set: { init_scale: 2, spacing: "log", steps: 20000 },
    text: "From a large start there is hardly a plateau: the weights need not move far, and the loss " +
      "falls from the beginning. Drag the initialisation scale down, and the staircase comes back." },
  { title: "Memory against learning in context", view: "memory",
    set: { model: "merged", heads: 5, share: 0.4, spectrum: preset("white", 4), steps: 2500,
           learning_rate: 0.1, init_scale: 0.01 },
    text: "In four prompts out of ten the same task comes back, and all blocks are trained. The model " +
      "first memorises that task in its weights; the loss on fresh tasks falls later, when it learns " +
      "to learn in context. Change the share and see which wins." },
];

export class Tour {
  constructor(panel, lab, button) {
    this.panel = panel;
    this.lab = lab;
    this.stop = 0;
    button.addEventListener("click", () => (panel.hidden ? this.goTo(0) : this.close()));
    panel.addEventListener("keydown", (event) => { if (event.key === "Escape") this.close(); });
  }

  goTo(number) {
    this.stop = number;
    const { title, text, set, view, place } = STOPS[number];
    this.lab.change({ ...structuredClone(DEFAULT), ...structuredClone(set) },
                    { share: place === undefined ? 1 : place });
    // The open setting would lie between the words and the view that they are about.
    this.lab.foldSettingOnPhone();
    this.panel.innerHTML = "";
    const heading = document.createElement("h2");
    heading.textContent = title;
    heading.tabIndex = -1;
    const words = document.createElement("p");
    words.textContent = text;
    const steps = document.createElement("div");
    steps.className = "steps";
    const count = document.createElement("span");
    count.textContent = `Stop ${number + 1} of ${STOPS.length}`;
    steps.append(count);
    const add = (label, act, isOff) => {
      const button = document.createElement("button");
      Object.assign(button, { type: "button", textContent: label, disabled: isOff });
      button.addEventListener("click", act);
      steps.append(button);
    };
    add("Back", () => this.goTo(number - 1), number === 0);
    if (number + 1 < STOPS.length) add("Next", () => this.goTo(number + 1), false);
    add("Close", () => this.close(), false);
    this.panel.append(heading, words, steps);
    this.panel.hidden = false;
    heading.focus();
    this.lab.cards.point(view);
  }

  close() {
    this.panel.hidden = true;
    this.lab.cards.point(null);
  }
}
