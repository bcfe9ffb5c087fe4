// Which algorithm the model now runs in context: on 256 prompts, and on one that is shown.

import { brief } from "../drawing/chart.js";
import { diverging, own } from "../drawing/colours.js";
import { DIVERGED } from "./maps.js";
import { WAITING } from "./time.js";

const WORDS = { least_squares: "least squares", ridge: "ridge", bayes_optimal: "Bayes-optimal",
                preconditioned_step: "one preconditioned step" };
// Algorithms whose distances differ by a smaller share compute the same.
const SAME = 1e-9;
const MOST_EXAMPLES = 48;

export default {
  id: "algorithm",
  title: "Algorithm in context",
  help: "How far the model's answers are from those of known algorithms, and its answer to one prompt",
  kind: "sheet", width: "full",

  isShown: (known) => known.state.share === 0,
  isAwaited: (known) => arePromptsOfAnother(known),

  note(known) {
    if (!known.prompts || !known.has("effective_map")) return "";
    return `nearest now: ${words(known.prompts.names[nearest(known.distances())])}`;
  },

  describe(known) {
    if (!known.prompts || !known.has("effective_map")) return { silent: WAITING };
    if (arePromptsOfAnother(known))
      return { silent: "Waiting for prompts of this dimension …" };
    if (!known.distances().every(Number.isFinite))
      return { silent: DIVERGED };
    return { draw: (pen, width, height) => draw(pen, known, width, height) };
  },

  table(known) {
    const { answers } = known.prompts.arrays, distances = known.distances();
    return { algorithm: known.prompts.names, "mean square distance": distances,
             "answer to the prompt": known.prompts.names.map((_, row) => answers.at(row, 0)),
             "answer of the model": [known.answers()[0]],
             target: [known.prompts.arrays.target.data[0]] };
  },
};

/** Whether the prompts are of another dimension than the run. */
const arePromptsOfAnother = ({ prompts, dimension }) =>
  Boolean(prompts && dimension) && prompts.arrays.summary.shape[1] !== dimension;

function words(name) {
  if (name in WORDS) return WORDS[name];
  const count = name.replace("principal_components_", "");
  return `${count} principal component${count === "1" ? "" : "s"}`;
}

function nearest(distances) {
  const least = Math.min(...distances);
  return distances.findIndex((one) => one <= least * (1 + SAME) + 1e-20);
}

function draw(pen, known, width, height) {
  const distances = known.distances();
  // Algorithms that compute the same share a bar: least squares and all components, say.
  const rows = distances.map((value, at) => ({ value, at })).filter(({ value, at }) =>
    distances.findIndex((one) => Math.abs(one - value) <= SAME * value) === at);
  if (width < 460) {
    const above = Math.min(height * 0.55, rows.length * 20 + 22);
    drawDistances(pen, known, distances, rows, width, above);
    drawPrompt(pen, known, 0, above + 14, width, height - above - 14);
  } else {
    const left = Math.round(width * 0.54);
    drawDistances(pen, known, distances, rows, left, height);
    drawPrompt(pen, known, left + 24, 0, width - left - 24, height);
  }
}

function drawDistances(pen, known, distances, rows, width, height) {
  const ink = own("ink"), faint = own("faint"), best = nearest(distances);
  const label = Math.min(186, width * 0.5), step = Math.min((height - 20) / rows.length, 24);
  const low = -5, length = (value) => (width - label - 56) *
    Math.min(Math.max((Math.log10(Math.max(value, 1e-12)) - low) / (0.6 - low), 0.012), 1);
  rows.forEach(({ value, at }, row) => {
    const y = 4 + (row + 0.5) * step, isBest = at === best;
    pen.text(label - 6, y, words(known.prompts.names[at]),
             { colour: isBest ? ink : faint, size: Math.min(11, step * 0.72), align: "right",
               weight: isBest ? 650 : 400 });
    pen.rectangle(label, y - step * 0.32, length(value), step * 0.64,
                  { fill: isBest ? own("accent") : own("line") });
    pen.text(label + length(value) + 5, y, brief(value),
             { colour: isBest ? ink : faint, size: Math.min(10, step * 0.7) });
  });
  pen.text(Math.min(label, width - 190), 14 + rows.length * step, "mean squared difference (log scale)",
           { colour: faint, size: 10 });
}

function drawPrompt(pen, known, x, y, width, height) {
  const ink = own("ink"), faint = own("faint"), accent = own("accent");
  const { x: inputs, y: labels, target, answers } = known.prompts.arrays;
  const [tokens, size] = inputs.shape, shown = Math.min(tokens - 1, MOST_EXAMPLES);
  const cell = Math.min((width - 34) / (shown + 2), (height - 100) / (size + 1), 14);
  let largest = 0;
  for (let at = 0; at < shown; at++)
    for (let row = 0; row < size; row++) largest = Math.max(largest, Math.abs(inputs.at(at, row)));
  const top = y + 18, begin = x + 18, count = tokens - 1;
  const examples = shown < count ? `the first ${shown} of ${count} examples`
                                 : `${count} example${count === 1 ? "" : "s"}`;
  pen.text(x, y + 8, `one prompt: ${examples}, then the query`, { colour: faint, size: 10 });
  const column = (index, from, label) => {
    for (let row = 0; row < size; row++)
      pen.rectangle(begin + index * cell, top + row * cell, cell - 0.5, cell - 0.5,
                    { fill: diverging(inputs.at(from, row) / largest) });
    if (label !== null)
      pen.rectangle(begin + index * cell, top + (size + 0.35) * cell, cell - 0.5, cell - 0.5,
                    { fill: diverging(label / largest) });
  };
  for (let at = 0; at < shown; at++) column(at, at, labels.data[at]);
  column(shown + 1, tokens - 1, null);
  pen.text(begin - 5, top + (size * cell) / 2, "x", { colour: faint, align: "right" });
  pen.text(begin - 5, top + (size + 0.85) * cell, "y", { colour: faint, align: "right" });
  pen.text(begin + (shown + 1.5) * cell, top + (size + 0.85) * cell, "?",
           { colour: ink, align: "center", weight: 700 });
  const below = top + (size + 1.35) * cell, line = below + 48;
  pen.text(x, below + 12, "answers: a tick for each algorithm", { colour: faint, size: 10 });
  const answer = known.answers()[0], goal = target.data[0];
  const given = known.prompts.names.map((_, row) => answers.at(row, 0));
  const reach = Math.max(Math.abs(goal), ...given.map(Math.abs), 1e-9) * 1.25;
  const X = (value) => x + width / 2 + (Math.min(Math.max(value / reach, -1), 1) * (width - 36)) / 2;
  const named = (value, above, text, look) =>
    pen.text(Math.min(Math.max(X(value), x + 36), x + width - 36), line + above, text,
             { size: 10, align: "center", ...look });
  pen.line([[x + 8, line], [x + width - 8, line]], { colour: own("line"), width: 1 });
  for (const one of given)
    pen.line([[X(one), line - 4], [X(one), line + 4]], { colour: faint, width: 1.2 });
  pen.line([[X(goal), line - 11], [X(goal), line + 11]], { colour: ink, width: 2 });
  pen.circle(X(answer), line, 6, { fill: accent });
  named(goal, -18, `truth ${brief(goal)}`, { colour: ink });
  named(answer, 18, `model ${brief(answer)}`, { colour: accent, weight: 600 });
}
