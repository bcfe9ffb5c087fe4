// The connection to the server: JSON requests go out, frames come in, the latest request counts.

import { decode } from "./frames.js";

const RETRY = 1500;
// The server closes a connection that sends more.
const LONGEST = 32768;

export class Connection {
  /** `receive` takes frames; `lost` is called, with the server's reason, when there is no connection. */
  constructor(receive, lost) {
    this.receive = receive;
    this.lost = lost;
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
      for (const text of this.waiting.values()) this.socket.send(text);
      this.waiting.clear();
    };
    this.socket.onmessage = (event) => {
      const frame = decode(event.data);
      const asked = frame.kind === "prompts" || frame.asked === "prompts" ? "prompts" : "run";
      if (frame.kind === "hello" || frame.number === this.latest[asked])
        this.receive(frame, event.data);
    };
    this.socket.onclose = ({ reason }) => {
      this.lost(reason);
      setTimeout(() => this.open(), RETRY);
    };
  }

  ask(what, setting, more = {}) {
    this.latest[what] = ++this.number;
    const text = JSON.stringify({ ask: what, number: this.number, setting, ...more });
    if (text.length > LONGEST) {
      this.receive({ kind: "refused", asked: what, reason: "the setting is too long" });
      return;
    }
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(text);
    else this.waiting.set(what, text);
  }
}
