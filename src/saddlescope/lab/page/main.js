// The page: controls ask, frames answer, views draw. A saved page has its frames inside.

import { Cards } from "./cards.js";
import { Connection } from "./connection.js";
import { Controls } from "./controls.js";
import { decode, fromText } from "./frames.js";
import { Playhead } from "./playhead.js";
import { Known } from "./run.js";
import { fromAddress, isMixed, settled, toSetting } from "./settings.js";
import { offerTakeAway } from "./takeaway.js";
import { Tour } from "./tour.js";

// A request that takes longer than this is overtaken by the next; others are let to answer.
const PATIENCE = 250;

class Lab {
  constructor(kept) {
    this.isSaved = kept !== null;
    this.state = kept?.state ?? fromAddress(location.hash);
    this.known = new Known();
    this.known.state = this.state;
    this.frames = new Map();
    this.status = document.getElementById("status");
    this.seedChoice = document.getElementById("seed");
    this.promptSeed = 0;
    // The number of the run that is drawn to its end, and who waits for all of its seeds.
    this.drawn = null;
    this.waiting = [];
    this.playhead = new Playhead(this.known, () => this.cards.move());
    this.cards = new Cards(document.getElementById("views"), this.known,
                           (time) => this.playhead.seek(time), () => this.resample());
    this.seedChoice.addEventListener("change", () => this.showChosenSeed());
    offerTakeAway(this, (words) => this.say(words));
    if (this.isSaved) this.openKept(kept);
    else this.connect();
  }

  get link() {
    return `${location.origin}${location.pathname}#${this.known.prediction?.address ?? ""}`;
  }

  connect() {
    this.connection = new Connection((frame, data) => this.receive(frame, data),
                                     (isOpen) => { if (!isOpen) this.say("the lab has gone; trying again", true); });
    this.tour = new Tour(document.getElementById("tour"), this, document.getElementById("open-tour"));
    addEventListener("hashchange", () => {
      if (location.hash.slice(1) === this.known.prediction?.address) return;
      this.change(fromAddress(location.hash));
    });
    if (matchMedia("(max-width: 820px)").matches) document.getElementById("setting").open = false;
  }

  openKept(kept) {
    for (const id of ["open-tour"]) document.getElementById(id).hidden = true;
    for (const text of kept.frames) {
      const data = fromText(text);
      this.receive(decode(data), data);
    }
    this.known.seedIndex = kept.seed;
    this.seedChoice.selectedIndex = kept.seed;
    this.cards.draw();
    this.playhead.goTo(kept.place);
    document.querySelector(".resample").hidden = true;
    this.say("a saved run: the playhead moves, the setting rests");
  }

  /** Other values of some controls; `share` is where the playhead goes. */
  change(changes, { share = null } = {}) {
    this.state = settled({ ...this.state, ...changes });
    this.controls.show(this.state);
    if (share !== null) this.playhead.share = share;
    this.isDirty = true;
    this.pump();
  }

  pump() {
    if (!this.isDirty) return;
    clearTimeout(this.timer);
    const waited = performance.now() - (this.askedAt ?? -Infinity);
    if (this.isBusy && waited < PATIENCE) {
      this.timer = setTimeout(() => this.pump(), PATIENCE - waited);
      return;
    }
    this.isDirty = false;
    this.setBusy(true);
    this.askedAt = performance.now();
    this.asked = this.state;
    this.connection.ask("run", toSetting(this.state), { shown: this.known.seedIndex });
    const prompts = JSON.stringify([this.state.spectrum, this.state.context_length, this.state.inputs,
                                    this.state.label_noise]);
    if (prompts !== this.askedPrompts && !isMixed(this.state)) {
      this.askedPrompts = prompts;
      this.askPrompts();
    }
  }

  setBusy(isBusy) {
    this.isBusy = isBusy;
    document.getElementById("views").setAttribute("aria-busy", String(isBusy));
  }

  askPrompts() {
    this.connection.ask("prompts", toSetting(this.state), { seed: this.promptSeed });
  }

  resample() {
    this.promptSeed += 1;
    this.askPrompts();
  }

  receive(frame, data) {
    // Another seed has been chosen since: the frame of all of them comes right after.
    if (frame.kind === "run" && frame.shown !== null &&
        frame.shown !== Math.min(this.known.seedIndex, frame.seeds.length - 1)) return;
    if (frame.kind !== "waiting" && frame.kind !== "refused") {
      this.frames.set(frame.kind, data);
      this.known.take(frame);
    }
    this[`on_${frame.kind}`](frame);
  }

  on_hello(frame) {
    if (!this.controls) {
      this.controls = new Controls(document.getElementById("controls"), frame.limits,
                                   (changes) => this.change(changes));
      if (this.isSaved) this.controls.freeze();
    }
    if (this.isSaved) this.controls.show(this.state);
    else this.change({});
  }

  on_prediction(frame) {
    this.known.state = this.asked ?? this.state;
    this.controls.showLimit(this.state.method === "descent" ? frame.stable_learning_rate : null);
    if (!this.isSaved) history.replaceState(null, "", `${location.search}#${frame.address}`);
    this.cards.draw("loss");
    if (this.askedAt) this.timing("prediction");
  }

  on_run(frame) {
    this.answerWaiting();
    if (frame.share === 1) {
      if (frame.number === this.drawn) {
        // The other seeds of what is drawn already.
        if (this.seedChoice.selectedIndex !== this.known.seed) this.showChosenSeed();
        return;
      }
      this.drawn = frame.number;
      this.setBusy(false);
    }
    this.offerSeeds(frame.seeds);
    this.playhead.refresh(frame.share === 1);
    this.cards.draw();
    if (this.askedAt) this.timing(frame.share === 1 ? "run" : "part");
    this.say(this.about(frame));
    this.pump();
  }

  on_law() {
    this.cards.draw("law");
    this.answerWaiting();
  }

  on_prompts() { this.cards.draw("algorithm"); }

  on_waiting(frame) { this.say(`${frame.reason} …`); }

  on_refused(frame) {
    if (frame.asked === "run") this.setBusy(false);
    this.say(frame.reason, true);
    this.pump();
  }

  showChosenSeed() {
    // Where there is one seed alone the others are on their way, and it is shown with them.
    if (!this.known.isWhole) return;
    this.known.seedIndex = this.seedChoice.selectedIndex;
    this.cards.draw();
  }

  /** Resolves when there is more of the run than the seed that is shown, and its law. */
  whole() {
    return new Promise((ready) => {
      this.waiting.push(ready);
      this.answerWaiting();
    });
  }

  answerWaiting() {
    if (this.known.isWhole && !this.known.isLawAwaited)
      for (const ready of this.waiting.splice(0)) ready();
  }

  /** How long an answer took from the change to the drawing, for whoever measures it. */
  timing(what) {
    const begin = this.askedAt;
    requestAnimationFrame(() => {
      performance.measure(`lab ${what}`, { start: begin, end: performance.now() });
    });
  }

  about(frame) {
    if (frame.share < 1) return `${Math.round(100 * frame.share)} % of the run …`;
    const told = frame.messages.find(Boolean);
    if (told) return told;
    if (frame.is_cut) return "stopped after a minute: this is what there is of it";
    const seconds = this.askedAt ? ` in ${Math.round(performance.now() - this.askedAt)} ms` : "";
    return `${frame.seeds.length} run${frame.seeds.length === 1 ? "" : "s"}${seconds}`;
  }

  offerSeeds(seeds) {
    const text = seeds.join();
    if (text === this.shownSeeds) return;
    this.shownSeeds = text;
    this.seedChoice.replaceChildren(...seeds.map((seed) => new Option(String(seed))));
    this.seedChoice.selectedIndex = this.known.seed;
  }

  say(words, isRefused = false) {
    this.status.textContent = words;
    this.status.title = words;
    this.status.classList.toggle("refused", isRefused);
  }
}

const kept = JSON.parse(document.getElementById("kept").textContent);
// Tests and benchmarks read it.
globalThis.lab = new Lab(kept);
