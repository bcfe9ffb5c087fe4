// Save and share: the link, Python, the command, and the whole page as one file.

import { download } from "./drawing/files.js";
import { toText } from "./frames.js";
import { closeWhenLeft } from "./menus.js";

async function copy(text, say) {
  if (!text) { say("there is nothing to copy yet"); return; }
  let isCopied = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // A page in a frame may not write to the clipboard, but it can copy a selection.
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    isCopied = document.execCommand("copy");
    area.remove();
  }
  say(isCopied ? "copied to the clipboard" : "the browser did not allow copying", !isCopied);
}

/** JSON in which nothing can end the script element around it. */
const inScript = (value) => JSON.stringify(value).replaceAll("<", "\\u003c");

/** `shell` is the page without a run in it, or what resolves to it. */
export function offerTakeAway(lab, shell, say) {
  const menu = document.getElementById("take-away");
  const on = (id, act) => document.getElementById(id).addEventListener("click", () => {
    menu.open = false;
    act();
  });
  closeWhenLeft(menu);
  on("copy-link", () => copy(lab.link, say));
  on("copy-python", () => copy(lab.known.prediction?.python, say));
  on("copy-command", () => copy(lab.known.prediction?.command, say));
  on("save-page", async () => {
    let empty;
    try {
      empty = await shell();
    } catch {
      say("the page is not saved: the lab does not answer", true);
      return;
    }
    if (lab.isBusy) say("the page is saved when the run is complete …");
    await lab.whole();
    const kept = { state: lab.known.state, place: lab.known.now, seed: lab.known.seed,
                   frames: [...lab.frames.values()].map(toText) };
    const page = empty.replace(/(<script id="kept"[^>]*>)[^<]*/, (_, tag) => tag + inScript(kept));
    download("saddlescope-lab.html", page, "text/html");
    say("saved");
  });
}
