// Which algorithm the model runs in context now: on one prompt that is shown, and on 256 of them.

import { diverging, own } from "../drawing/colours.js";

const WORDS = { least_squares: "least squares", ridge: "ridge", bayes_optimal: "Bayes-optimal",
                preconditioned_step: "one preconditioned step" };
// Distances that differ by less than this share are those of algorithms that compute the same.
const SAME = 1e-9;

export default {
  id: "algorithm",
  title: "Algorithm in context",
  help: "Distance of the model's answers to those of known algorithms, and its answer to one prompt",
  kind: "sheet", wide: true,

  isShown: (known) => known.state.share === 0,
  isAwaited: (known) => arePromptsOfAnother(known),

  note(known) {
    if (!known.prompts || !known.has("effective_map")) return "";
    return `now nearest: ${words(known.prompts.names[nearest(known.distances())])}`;
  },

  describe(known) {
    if (!known.prompts || !known.has("effective_map")) return { silent: "It comes with the run." };
    if (arePromptsOfAnother(known))
      return { silent: "Prompts of this dimension are on their way." };
    if (!known.distances().every(Number.isFinite))
      return { silent: "The seed has diverged: it answers nothing here." };
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

const words = (name) => WORDS[name] ??
  `${name.replace("principal_components_", "")} principal components`;

function nearest(distances) {
  const least = Math.min(...distances);
  return distances.findIndex((one) => one <= least * (1 + SAME) + 1e-20);
}

function draw(pen, known, width, height) {
  const narrow = width < 460;
  const half = narrow ? width : Math.round(width * 0.56);
  drawDistances(pen, known, half, narrow ? height * 0.62 : height);
  const x = narrow ? 0 : half + 18, y = narrow ? height * 0.64 : 0;
  drawPrompt(pen, known, x, y, width - x, height - y);
}

function drawDistances(pen, known, width, height) {
  const ink = own("ink"), faint = own("faint"), accent = own("accent");
  const distances = known.distances(), best = nearest(distances);
  // The same answers need one bar: least squares and all components, say.
  const rows = distances.map((value, at) => ({ value, at })).filter(({ value, at }) =>
    distances.findIndex((one) => Math.abs(one - value) <= SAME * value) === at);
  const label = Math.min(156, width * 0.48), step = Math.min((height - 16) / rows.length, 24);
  const low = -5, place = (value) =>
    Math.min(Math.max((Math.log10(Math.max(value, 1e-12)) - low) / (0.6 - low), 0.012), 1);
  rows.forEach(({ value, at }, row) => {
    const y = 4 + (row + 0.5) * step, isBest = at === best;
    pen.text(label - 6, y, words(known.prompts.names[at]),
             { colour: isBest ? ink : faint, size: Math.min(11, step * 0.72), align: "right",
               weight: isBest ? 650 : 400 });
    pen.rectangle(label, y - step * 0.32, (width - label - 50) * place(value), step * 0.64,
                  { fill: isBest ? accent : own("line") });
    pen.text(label + (width - label - 50) * place(value) + 5, y, value.toExponential(1),
             { colour: isBest ? ink : faint, size: Math.min(10, step * 0.7) });
  });
  pen.text(label, height - 5, "mean square distance, logarithmic", { colour: faint, size: 10 });
}

function drawPrompt(pen, known, x, y, width, height) {
  const ink = own("ink"), faint = own("faint"), accent = own("accent");
  const { x: inputs, y: labels, target, answers } = known.prompts.arrays;
  const [tokens, size] = inputs.shape, shown = Math.min(tokens - 1, 48);
  const cell = Math.min((width - 34) / (shown + 2), (height - 92) / (size + 1), 14);
  let largest = 0;
  for (let at = 0; at < shown; at++)
    for (let row = 0; row < size; row++) largest = Math.max(largest, Math.abs(inputs.at(at, row)));
  const top = y + 16, begin = x + 18;
  pen.text(x, y + 6, "one prompt: context, and the query on the right", { colour: faint, size: 10 });
  const column = (place, from, label) => {
    for (let row = 0; row < size; row++)
      pen.rectangle(begin + place * cell, top + row * cell, cell - 0.5, cell - 0.5,
                    { fill: diverging(inputs.at(from, row) / largest) });
    if (label !== null)
      pen.rectangle(begin + place * cell, top + (size + 0.35) * cell, cell - 0.5, cell - 0.5,
                    { fill: diverging(label / largest) });
  };
  for (let at = 0; at < shown; at++) column(at, at, labels.data[at]);
  column(shown + 1, tokens - 1, null);
  pen.text(begin - 5, top + (size * cell) / 2, "x", { colour: faint, align: "right" });
  pen.text(begin - 5, top + (size + 0.85) * cell, "y", { colour: faint, align: "right" });
  pen.text(begin + (shown + 1.5) * cell, top + (size + 0.85) * cell, "?",
           { colour: ink, align: "center", weight: 700 });
  const line = Math.min(top + (size + 1.35) * cell + 44, y + height - 26);
  const own_ = known.answers()[0], goal = target.data[0];
  const reach = Math.max(Math.abs(goal), ...known.prompts.names.map((_, row) =>
    Math.abs(answers.at(row, 0))), 1e-9) * 1.25;
  const X = (value) => x + width / 2 + (Math.min(Math.max(value / reach, -1), 1) * (width - 36)) / 2;
  pen.line([[x + 8, line], [x + width - 8, line]], { colour: own("line"), width: 1 });
  known.prompts.names.forEach((_, row) =>
    pen.line([[X(answers.at(row, 0)), line - 4], [X(answers.at(row, 0)), line + 4]],
             { colour: faint, width: 1.2 }));
  pen.line([[X(goal), line - 11], [X(goal), line + 11]], { colour: ink, width: 2 });
  pen.circle(X(own_), line, 6, { fill: accent });
  const isLeft = own_ < goal;
  pen.text(X(goal), line - 18, `true ${goal.toFixed(2)}`, { colour: ink, size: 10, align: "center" });
  pen.text(X(own_), line + 18, `model ${own_.toFixed(2)}`,
           { colour: accent, size: 10, weight: 600, align: isLeft ? "center" : "center" });
}
