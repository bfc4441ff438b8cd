/** Puts numbers into words: figures, and the answer itself. */

/** How a token is chosen here: by a mouse or a finger. */
export const POINT = window.matchMedia("(pointer: coarse)").matches ? "Tap" : "Point at";

/** A count, and a share. */
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

/** How a verdict moves between two predictions. */
export function outcomeOf(was, { label, probabilities }) {
  const [from, to] = [was.probabilities[was.label], probabilities[was.label]].map(percent);
  const moved = `${was.label} ${from} → ${to}`;
  if (label === was.label) return `${moved}. The verdict holds.`;
  return `${moved}. The verdict turns to ${label}, ${percent(probabilities[label])}.`;
}
