// The server's end: requests go out as JSON, frames come in, and only the latest request counts.

import { decode } from "./frames.js";

const RETRY = 1500;

export class Connection {
  constructor(receive, changed) {
    this.receive = receive;
    this.changed = changed;
    this.number = 0;
    this.latest = {};
    this.waiting = new Map();
    this.open();
  }

  open() {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    this.socket = new WebSocket(`${scheme}//${location.host}/talk${location.search}`);
    this.socket.binaryType = "arraybuffer";
    this.socket.onopen = () => {
      this.changed(true);
      for (const text of this.waiting.values()) this.socket.send(text);
      this.waiting.clear();
    };
    this.socket.onmessage = (event) => {
      const frame = decode(event.data);
      const asked = frame.kind === "prompts" || frame.asked === "prompts" ? "prompts" : "run";
      if (frame.kind === "hello" || frame.number === this.latest[asked])
        this.receive(frame, event.data);
    };
    this.socket.onclose = () => {
      this.changed(false);
      setTimeout(() => this.open(), RETRY);
    };
  }

  ask(what, setting, more = {}) {
    this.latest[what] = ++this.number;
    const text = JSON.stringify({ ask: what, number: this.number, setting, ...more });
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(text);
    else this.waiting.set(what, text);
    return this.number;
  }
}
