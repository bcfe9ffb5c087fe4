// To take away: the link, Python, the command, and the whole page as one file.

import { download } from "./drawing/files.js";
import { toText } from "./frames.js";

async function copy(text, say) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // A page in a frame may not reach the clipboard: what is selected still can be copied.
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  say("copied");
}

/** Escaped so that nothing in it can end the element that it stands in. */
const inScript = (value) => JSON.stringify(value).replaceAll("<", "\\u003c");

export function offerTakeAway(lab, say) {
  const menu = document.getElementById("take-away");
  const on = (id, act) => document.getElementById(id).addEventListener("click", () => {
    menu.open = false;
    act();
  });
  menu.addEventListener("focusout", (event) => {
    if (!menu.contains(event.relatedTarget)) menu.open = false;
  });
  on("copy-link", () => copy(lab.link, say));
  on("copy-python", () => copy(lab.known.prediction.python, say));
  on("copy-command", () => copy(lab.known.prediction.command, say));
  on("save-page", async () => {
    const shell = lab.isSaved ? document.documentElement.outerHTML
                              : await (await fetch("self-contained")).text();
    await lab.whole();
    const kept = { state: lab.state, place: lab.known.now, seed: lab.known.seed,
                   frames: [...lab.frames.values()].map(toText) };
    const page = shell.replace(/(<script id="kept"[^>]*>)[^<]*/, (_, tag) => tag + inScript(kept));
    download("saddlescope-lab.html", page, "text/html");
    say("saved");
  });
}
