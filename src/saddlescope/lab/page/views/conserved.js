// What gradient flow conserves (T14): flat lines under flow, a drift of order η under descent.

import { colour, own } from "../drawing/colours.js";
import { column, span, timeAxis, timeColumns, WAITING } from "./time.js";

export default {
  id: "conserved",
  title: "Conserved quantities",
  help: "Balances between keys, queries and values of each head, which gradient flow conserves",
  kind: "chart",

  note: (known) => ({ flow: "flat: gradient flow conserves them",
                      descent: "gradient descent drifts in proportion to η",
                      optimiser: "only gradient flow conserves them" })[known.state.method],

  describe(known) {
    const curves = balances(known);
    if (!curves.length) return { silent: WAITING };
    const [low, high] = span(curves.flatMap((curve) => curve.y));
    return { x: timeAxis(known), y: { label: "balance", low, high, scale: "linear" },
             lines: curves.map((curve) => ({ x: known.time, width: 1.5, ...curve })),
             playhead: known.moment, legend: legend(known) };
  },

  table(known) {
    const columns = timeColumns(known);
    for (const curve of balances(known)) columns[curve.label] = curve.y;
    return columns;
  },
};

/** With all blocks their own weights belong to the balances. */
function legend(known) {
  const isFull = known.has("nu");
  const labels = known.has("key_value_balance")
    ? (isFull ? ["Σ‖k, κ‖² − ‖v, ν‖²", "‖k, κ‖² − ‖q‖²"] : ["Σ‖k‖² − v²", "‖k‖² − ‖q‖²"])
    : [isFull ? "diagonal of v vᵀ + ν νᵀ − ⟨U, U⟩ − u uᵀ" : "diagonal of v vᵀ − ⟨U, U⟩"];
  return labels.map((label, at) => ({ label, colour: own("faint"), dash: at > 0 }));
}

function balances(known) {
  const curves = [], { seed, heads } = known;
  if (known.has("key_value_balance")) {
    const values = known.array("key_value_balance"), queries = known.array("key_query_balance");
    for (let head = 0; head < heads; head++) {
      curves.push({ label: `key-value balance of head ${head + 1}`, colour: colour(head),
                    y: column(known, (at) => values.at(seed, at, head)) });
      for (let pair = 0; pair < queries.shape[3]; pair++)
        curves.push({ label: `key-query balance of head ${head + 1}, pair ${pair + 1}`,
                      colour: colour(head), dash: [4, 3], alpha: 0.7,
                      y: column(known, (at) => queries.at(seed, at, head, pair)) });
    }
  } else if (known.has("value_balance")) {
    const balance = known.array("value_balance");
    for (let head = 0; head < heads; head++)
      curves.push({ label: `balance of head ${head + 1}`, colour: colour(head),
                    y: column(known, (at) => balance.at(seed, at, head, head)) });
  }
  return curves;
}
