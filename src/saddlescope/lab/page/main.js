// The page: controls ask, frames answer, views draw. A saved page holds its frames.

import { Cards } from "./cards.js";
import { Connection } from "./connection.js";
import { Controls } from "./controls.js";
import { decode, fromText } from "./frames.js";
import { Playhead } from "./playhead.js";
import { Known } from "./run.js";
import { fromAddress, isMixed, settled, toSetting } from "./settings.js";
import { offerTakeAway } from "./takeaway.js";
import { Tour } from "./tour.js";

// A request that takes longer than this is overtaken by the next; any other may finish.
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
    // The number of the run that is drawn to its end, and who waits for all that belongs to it.
    this.drawn = null;
    this.waiting = [];
    this.arePromptsAwaited = false;
    this.playhead = new Playhead(this.known, () => this.cards.move());
    this.cards = new Cards(document.getElementById("views"), this.known,
                           (time) => this.playhead.seek(time), () => this.resample());
    this.seedChoice.addEventListener("change", () => this.showChosenSeed());
    const shell = this.isSaved ? () => kept.shell : async () => (await fetch("self-contained")).text();
    offerTakeAway(this, shell, (words, isRefused) => this.say(words, isRefused));
    this.watchSizes();
    this.foldSettingOnPhone();
    if (this.isSaved) this.openKept(kept);
    else this.connect();
  }

  get link() {
    return `${location.origin}${location.pathname}#${this.known.prediction?.address ?? ""}`;
  }

  connect() {
    this.connection = new Connection(
      (frame, data) => this.receive(frame, data),
      (reason) => this.say(`${reason || "the lab does not answer"}; trying again …`, true));
    this.tour = new Tour(document.getElementById("tour"), this, document.getElementById("open-tour"));
    addEventListener("hashchange", () => {
      if (location.hash.slice(1) === this.known.prediction?.address) return;
      this.change(fromAddress(location.hash));
    });
  }

  openKept(kept) {
    for (const id of ["open-tour", "copy-link"]) document.getElementById(id).hidden = true;
    for (const text of kept.frames) {
      const data = fromText(text);
      this.receive(decode(data), data);
    }
    this.known.seedIndex = kept.seed;
    this.seedChoice.selectedIndex = kept.seed;
    this.cards.draw();
    this.playhead.goTo(kept.place);
    document.querySelector(".resample").hidden = true;
    this.say("a saved run: the playhead moves, the setting is fixed");
  }

  foldSettingOnPhone() {
    if (matchMedia("(max-width: 820px)").matches) document.getElementById("setting").open = false;
  }

  /** Heights that the style sheet needs: what is scrolled to must not lie under what stays. */
  watchSizes() {
    const root = document.documentElement;
    const watch = new ResizeObserver((entries) => {
      for (const { target } of entries)
        root.style.setProperty(`--${target.id || target.localName}-height`, `${target.offsetHeight}px`);
    });
    for (const name of ["header", "footer", "#tour"]) watch.observe(document.querySelector(name));
  }

  /** New values of some controls; `share` is where the playhead goes. */
  change(changes, { share = null } = {}) {
    // What has no control stays until the method or the task are of another kind.
    const others = "method" in changes || "share" in changes ? {} : this.state.others;
    const wanted = { ...this.state, others, ...changes };
    this.state = settled(wanted);
    this.adjusted = ["heads", "rank", "share"].filter((name) => wanted[name] !== this.state[name]);
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
    this.isDirty = this.isRefused = false;
    this.ask(this.state);
  }

  ask(state) {
    this.setBusy(true);
    this.askedAt = performance.now();
    this.asked = state;
    this.connection.ask("run", toSetting(state), { shown: this.known.seedIndex });
    const prompts = JSON.stringify([state.spectrum, state.context_length, state.inputs,
                                    state.label_noise]);
    if (prompts !== this.askedPrompts && !isMixed(state)) {
      this.askedPrompts = prompts;
      this.askPrompts(state);
    }
  }

  setBusy(isBusy) {
    this.isBusy = isBusy;
    document.getElementById("views").setAttribute("aria-busy", String(isBusy));
  }

  askPrompts(state) {
    this.arePromptsAwaited = true;
    this.connection.ask("prompts", toSetting(state), { seed: this.promptSeed });
  }

  resample() {
    this.promptSeed += 1;
    this.askPrompts(this.state);
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
                                   (changes) => this.change(changes),
                                   (reason) => this.say(reason, true));
      if (this.isSaved) this.controls.freeze();
    }
    if (this.isSaved) { this.controls.show(this.state); return; }
    // What a connection that was lost still owed is asked for again.
    this.askedPrompts = null;
    this.change({});
  }

  on_prediction(frame) {
    this.known.state = this.asked ?? this.state;
    this.controls.showLimit(this.state.method === "descent" ? frame.stable_learning_rate : null);
    if (!this.isSaved) history.replaceState(null, "", `${location.search}#${frame.address}`);
    this.cards.draw("loss");
    if (this.askedAt) this.timing("prediction");
  }

  on_run(frame) {
    if (frame.share === 1) {
      if (frame.number === this.drawn) {
        // The other seeds of what is drawn already.
        if (this.seedChoice.selectedIndex !== this.known.seed) this.showChosenSeed();
        this.answerWaiting();
        return;
      }
      this.drawn = frame.number;
      this.setBusy(false);
    }
    this.offerSeeds(frame.seeds);
    this.playhead.refresh(frame.share === 1);
    this.cards.draw();
    if (this.askedAt) this.timing(frame.share === 1 ? "run" : "part");
    if (!this.isRefused) this.say(this.about(frame));
    this.pump();
    this.answerWaiting();
  }

  on_law() {
    this.cards.draw("law");
    this.answerWaiting();
  }

  on_prompts() {
    this.arePromptsAwaited = false;
    this.cards.draw("algorithm");
    this.answerWaiting();
  }

  on_waiting(frame) { if (!this.isRefused) this.say(`${frame.reason} …`); }

  on_refused(frame) {
    if (frame.asked === "run") this.setBusy(false);
    else this.arePromptsAwaited = false;
    this.say(frame.reason, true);
    // A request cancels the one before it, also if it is refused: that one is asked for again.
    if (frame.asked === "run" && !this.isDirty && this.known.isIncomplete &&
        frame.number !== this.known.prediction.number) {
      this.isRefused = true;
      this.ask(this.known.state);
    }
    this.answerWaiting();
    this.pump();
  }

  showChosenSeed() {
    // While only one seed is here the others are on their way, and the choice is shown with them.
    if (!this.known.isWhole) return;
    this.known.seedIndex = this.seedChoice.selectedIndex;
    this.cards.draw();
  }

  /** Resolves when everything that was asked for is here: all seeds, their law, the prompts. */
  whole() {
    return new Promise((ready) => {
      this.waiting.push(ready);
      this.answerWaiting();
    });
  }

  answerWaiting() {
    if (this.known.isWhole && !this.known.isLawAwaited && !this.isBusy && !this.isDirty &&
        !this.arePromptsAwaited)
      for (const ready of this.waiting.splice(0)) ready();
  }

  /** Measures the time from the change to the drawing. */
  timing(what) {
    const begin = this.askedAt;
    requestAnimationFrame(() => {
      performance.measure(`lab ${what}`, { start: begin, end: performance.now() });
    });
  }

  about(frame) {
    if (frame.share < 1) return `running: ${Math.round(100 * frame.share)} % …`;
    const told = frame.messages.filter(Boolean), all = frame.seeds.length;
    if (told.length) return `${told.length} of ${all} seed${all === 1 ? "" : "s"}: ${told[0]}`;
    if (frame.is_cut) return "stopped after a minute; shown as far as it came";
    const seconds = this.askedAt ? ` in ${Math.round(performance.now() - this.askedAt)} ms` : "";
    const fitted = this.adjusted?.map((name) => `${name} = ${this.state[name]}`).join(", ");
    return `${all} run${all === 1 ? "" : "s"}${seconds}` +
      (fitted ? `; set to ${fitted}, since a fixed task takes at most D = 4, H = 5 and R = 1` : "");
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
// Before anything is added to it: a saved page can be saved again.
if (kept) kept.shell = document.documentElement.outerHTML;
// Tests and benchmarks read it.
globalThis.lab = new Lab(kept);
