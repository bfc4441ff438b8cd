/** Puts numbers into words: names of places, patterns of heads, figures, and the answer itself. */

const EVEN = 2; // weights are even if the largest is under this many times the even share
const MOST = 0.45; // the share of tokens that makes a pattern

/** How a token is chosen here: by a mouse or a finger. */
export const POINT = window.matchMedia("(pointer: coarse)").matches ? "Tap" : "Point at";

/** A weight in short and in full, a count, and a share. */
export const short = (weight) => weight.toFixed(4);
export const full = (weight) => weight.toFixed(8);
export const grouped = (count) => count.toLocaleString("en");
export const percent = (share) => `${(100 * share).toFixed(1)} %`;

/** A share in whole percent; what is not certain is not called so. */
export function plain(share) {
  if (share > 0.99) return "over 99 %";
  return share < 0.01 ? "under 1 %" : `${Math.round(100 * share)} %`;
}

const ENOUGH = 50; // texts of a record that a sentence may speak of

/** How often verdicts of about this score are right, by the model's record; empty without one. */
export function reliability(thresholds, score) {
  const steps = thresholds?.by_threshold ?? [];
  const above = steps.findIndex(({ threshold }) => threshold > score);
  const rights = steps.map(({ rows, accuracy }) => Math.round(rows * (accuracy ?? 0)));
  const end = above < 0 ? steps.length : above;
  const [over, right] = [steps[end]?.rows ?? 0, rights[end] ?? 0];
  for (let at = end - 1; at >= 0; at -= 1) {
    const rows = steps[at].rows - over;
    if (rows < ENOUGH) continue;
    const share = (rights[at] - right) / rows;
    const tens = Math.round(10 * share);
    const often = tens < 10 ? `${tens} of 10` : `${Math.min(99, Math.round(100 * share))} of 100`;
    return `About ${often} such verdicts are right on the texts it was tested with.`;
  }
  return "";
}

const RIGHT_TO_LEFT = /[\u0590-\u08ff\u200f\ufb1d-\ufdff\ufe70-\ufeff\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/**
 * Quotes a token within a sentence of the page. U+2068 and U+2069 isolate it: otherwise a word
 * written from right to left would pull the figure after it to its other side.
 */
export const quoted = ({ text }) =>
  RIGHT_TO_LEFT.test(text) ? `“\u2068${text}\u2069”` : `“${text}”`;

export function gives(tokens, query, key, weight) {
  const to = query === key ? "itself" : quoted(tokens[key]);
  return `${quoted(tokens[query])} gives ${to} ${short(weight)}`;
}

/** What a place of the grid shows, such as "Layer 2, head 5". */
export function placeName({ layers, heads, oneRow, oneColumn }, row, column) {
  const all = (noun, numbers) => (numbers.length === 1 ? `${noun} 0` : `${noun}s 0 to ${numbers.length - 1}`);
  if (oneRow) return `Rollout through ${all("layer", layers)}, ${all("head", heads)}`;
  return `Layer ${row}, ${oneColumn ? `mean of ${all("head", heads)}` : `head ${column}`}`;
}

function kindOf(weights, query, key) {
  if (weights.tokens[key].special) return weights.tokens[key].text;
  if (key === query) return "itself";
  if (key === query - 1) return "before";
  if (key === query + 1) return "after";
  return /^[\p{P}\p{S}]+$/u.test(weights.tokens[key].text) ? "punctuation" : "other";
}

/** What most of the shown tokens look at most. */
export function pattern(weights, row, column, shown) {
  const { keys, weights: largest } = weights.strongest(row, column);
  const { size } = weights;
  const counts = new Map();
  let even = 0;
  for (const query of shown) {
    if (largest[query] * size < EVEN) even += 1;
    const kind = kindOf(weights, query, keys[query]);
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
  }
  counts.delete("other");
  const [kind, count] = [...counts].sort((a, b) => b[1] - a[1])[0] ?? ["mixed", 0];
  if (size > 4 && even > shown.length / 2) return { kind: "even", count: even, of: shown.length };
  return { kind: count / shown.length >= MOST ? kind : "mixed", count, of: shown.length };
}

export function patternText({ kind, count, of }, level) {
  const unit = level === "word" ? "word" : "token";
  const places = { itself: "at themselves", before: `at the ${unit} before them`, after: `at the ${unit} after them` };
  if (kind === "even") return `Spreads its weight almost evenly, for ${count} of ${of} ${unit}s.`;
  if (kind === "mixed") return `No one pattern: its ${unit}s look in different directions.`;
  return `${count} of ${of} ${unit}s look most ${places[kind] ?? `at ${kind}`}.`;
}

/** How a verdict moves between two predictions. */
export function outcomeOf(was, { label, probabilities }) {
  const [from, to] = [was.probabilities[was.label], probabilities[was.label]].map(percent);
  const moved = `${was.label} ${from} → ${to}`;
  if (label === was.label) return `${moved}. The verdict holds.`;
  return `${moved}. The verdict turns to ${label}, ${percent(probabilities[label])}.`;
}
