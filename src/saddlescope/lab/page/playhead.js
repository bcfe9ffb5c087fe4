// The playhead: one moment of training time for all views, dragged or played.

const SECONDS = 8;

export class Playhead {
  constructor(known, moved) {
    this.known = known;
    this.moved = moved;
    this.share = 1;
    this.slider = document.getElementById("playhead");
    this.button = document.getElementById("play");
    this.moment = document.getElementById("moment");
    this.slider.addEventListener("input", () => { this.pause(); this.goTo(Number(this.slider.value)); });
    this.button.addEventListener("click", () => this.toggle());
    document.addEventListener("keydown", (event) => {
      // A slider has no use for the space bar: after the playhead was dragged it plays, too.
      const others = "input:not([type=range]), select, button, summary";
      if (event.key !== " " || event.target.closest(others)) return;
      event.preventDefault();
      this.toggle();
    });
  }

  /** A new run, or more of one: the playhead leads a run that grows, and then returns to its share. */
  refresh(isWhole) {
    const { known } = this, last = Math.max(known.points - 1, 0);
    this.slider.max = Math.max(last, 1);
    known.place = Math.round((isWhole ? this.share : 1) * last);
    this.show();
  }

  goTo(place) {
    this.known.place = Math.max(0, Math.min(Math.round(place), this.known.points - 1));
    this.share = this.known.place / Math.max(this.known.points - 1, 1);
    this.show();
    this.moved();
  }

  /** The record nearest to a time. */
  seek(time) {
    this.pause();
    const { time: times } = this.known;
    let low = 0, high = times.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (times[middle] > time) high = middle;
      else low = middle;
    }
    this.goTo(time - times[low] < times[high] - time ? low : high);
  }

  show() {
    const { known } = this;
    this.slider.value = known.now;
    const step = known.steps ? `, step ${known.steps[known.now]}` : "";
    const time = known.points ? Number(known.moment.toPrecision(5)) : 0;
    this.moment.textContent = known.state.method === "optimiser" ? `step ${time}` : `t = ${time}${step}`;
    this.slider.setAttribute("aria-valuetext", this.moment.textContent);
  }

  toggle() {
    if (this.playing) { this.pause(); return; }
    const { known } = this;
    let place = known.now >= known.points - 1 ? 0 : known.now, before = null;
    this.playing = true;
    this.label("❚❚", "Pause");
    const advance = (now) => {
      if (!this.playing) return;
      place += before === null ? 0 : ((now - before) / 1000) * (known.points / SECONDS);
      before = now;
      this.goTo(place);
      if (place >= known.points - 1) this.pause();
      else requestAnimationFrame(advance);
    };
    requestAnimationFrame(advance);
  }

  pause() {
    this.playing = false;
    this.label("▶\uFE0E", "Play");
  }

  label(sign, words) {
    this.button.textContent = sign;
    this.button.setAttribute("aria-label", words);
  }
}
