// What views over training time share: the axis, and columns of numbers.

/** What a view says before its run is there. */
export const WAITING = "Waiting for the run …";

/** Flow time, or steps where an optimiser has no flow time. */
export function timeAxis(known) {
  const isLog = known.state.spacing === "log";
  const first = known.points > 1 ? known.time[1] : known.end / 1000;
  return { label: known.state.method === "optimiser" ? "step" : "training time t/τ",
           low: isLog ? Math.max(first, 1e-9) : 0, high: Math.max(known.end, 1e-9),
           scale: isLog ? "log" : "linear" };
}

/** A column of numbers over all records. */
export function column(known, value) {
  const numbers = new Array(known.points);
  for (let at = 0; at < numbers.length; at++) numbers[at] = value(at);
  return numbers;
}

export function timeColumns(known) {
  const columns = { time: Array.from(known.time) };
  if (known.steps) columns.step = Array.from(known.steps);
  return columns;
}

/** The span of some numbers, with room about it; NaN does not count. What differs by rounding is flat. */
export function span(values, least = 0) {
  let low = Infinity, high = -Infinity;
  for (const value of values)
    if (Number.isFinite(value)) { low = Math.min(low, value); high = Math.max(high, value); }
  if (low > high) return [0, 1];
  const room = Math.max((high - low) * 0.08, Math.max(-low, high) * 0.05, least, 1e-12);
  return [low - room, high + room];
}
