// The state of the controls, and the setting that it stands for.

export const POINTS = 401;

export const DEFAULT = Object.freeze({
  model: "separate", heads: 5, rank: 1,
  spectrum: [0.4, 0.3, 0.2, 0.1], context_length: 31, inputs: "gaussian", label_noise: 0, share: 0,
  init_scale: 0.01, seeds: 6,
  method: "descent", learning_rate: 0.5, steps: 20000, until: 20000, optimiser: "adam",
  spacing: "linear",
});

// Fields that an address may hold and no control shows, with their part of a setting.
const WITHOUT_CONTROL = { blocks: "model", points: "record", rtol: "method", atol: "method",
                          solver: "method" };

const TASKS = ["in_context_regression", "task_pool"];

/** A repeated task needs all blocks, and Gaussian inputs without noise. */
export const isMixed = (state) => state.share !== 0;

/** The state with values that go together: all blocks fit into the smaller shape only. */
export function settled(state) {
  if (!isMixed(state)) return state;
  return { ...state, heads: Math.min(state.heads, 5), rank: 1,
           ...(state.spectrum.length > 4 ? { share: 0, others: {} } : {}) };
}

export function toSetting(state) {
  const mixed = isMixed(state);
  const model = { kind: state.model, heads: state.heads };
  if (state.model === "separate") model.rank = state.rank;
  if (mixed) model.blocks = "full";
  const task = { kind: "in_context_regression", spectrum: state.spectrum,
                 context_length: state.context_length };
  if (mixed) Object.assign(task, { kind: "task_pool", tasks: 1, share: state.share });
  else {
    task.label_noise = state.label_noise;
    if (state.inputs !== "gaussian") task.inputs = state.inputs;
  }
  const method = { kind: state.method };
  if (state.method === "flow") method.until = state.until;
  else Object.assign(method, { learning_rate: state.learning_rate, steps: state.steps });
  if (state.method === "optimiser") method.optimiser = state.optimiser;
  const setting = { model, task, method, init: { kind: "random", init_scale: state.init_scale },
                    record: { kind: "record", points: POINTS, spacing: state.spacing },
                    seeds: state.seeds };
  // The server refuses by name what it does not know.
  for (const [name, value] of Object.entries(state.others ?? {}))
    if (name === "task") task.kind = value;
    else (setting[WITHOUT_CONTROL[name]] ?? setting)[name] = value;
  return setting;
}

/** The number that a text is; any other text stays, for the server to refuse by its field. */
const numberOrText = (text) =>
  (text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text);
const numbers = (text) => text.replace(/,$/, "").split(",").map(numberOrText);

/** The state in the part of an address after its #; fields that are missing have their defaults. */
export function fromAddress(fragment) {
  const state = { ...structuredClone(DEFAULT), others: {} };
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  // A pool of tasks has defaults of its own.
  if (given.get("task") === "task_pool")
    Object.assign(state, { share: 1, others: { blocks: "reduced" } });
  for (const [name, text] of given) {
    // Whether a task is repeated is in its share.
    if (name === "task" && TASKS.includes(text)) continue;
    if (name === "spectrum" || (name === "seeds" && text.includes(","))) state[name] = numbers(text);
    else if (!Object.hasOwn(DEFAULT, name)) state.others[name] = numberOrText(text);
    else state[name] = typeof DEFAULT[name] === "number" ? numberOrText(text) : text;
  }
  return state;
}

export const PRESETS = {
  linear: (size) => Array.from({ length: size }, (_, d) => size - d),
  "power law": (size) => Array.from({ length: size }, (_, d) => 1 / (d + 1)),
  white: (size) => Array(size).fill(1),
  "one gap": (size) => Array.from({ length: size }, (_, d) => (d < size / 2 ? 4 : 1)),
};

/** A preset with trace one, to three digits. */
export function preset(name, size) {
  const shape = PRESETS[name](size);
  const trace = shape.reduce((a, b) => a + b, 0);
  return shape.map((value) => Number((value / trace).toPrecision(3)));
}
