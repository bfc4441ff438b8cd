/** Reads the labels or ratings of a column of the file, to compare them with the verdicts. */

import { range } from "./parts.js";

const SHORT = { neg: "negative", neu: "neutral", pos: "positive", "-": "negative", "+": "positive" };
// Where several hold all values, the first one counts.
/** @type {[number, number][]} */
const SCALES = [[0, 1], [-1, 1], [1, 5], [0, 4], [0, 5], [1, 10], [0, 10], [0, 100]];
const MOST_VALUES = 101;

const folded = (value) => value.trim().toLowerCase();

/**
 * How the values of a column are read as labels of a model: `labelOf(value)` is null where it is
 * none, and `note` says how. Null if they are no labels at all.
 */
export function meaningOf(values, labels) {
  const found = [...new Set(values.map(folded))].filter((value) => value !== "");
  if (found.length === 0 || found.length > MOST_VALUES) return null;
  const names = new Map(labels.map((label) => [folded(label), label]));
  const named = (value) => names.get(SHORT[value] ?? value) ?? names.get(value) ?? null;
  if (found.some(named)) return { labelOf: (value) => named(folded(value)), note: "" };
  const numbers = found.map(Number);
  const scale = SCALES.find(([from, to]) => numbers.every((number) => number >= from && number <= to));
  if (!scale || !names.has("negative") || !names.has("positive")) return null;
  return { labelOf: (value) => rated(value, scale, names), note: noteOf(scale, names) };
}

/** The label of a rating: the middle of its scale is neutral. */
function rated(value, [from, to], names) {
  if (value.trim() === "") return null;
  const above = Number(value) - (from + to) / 2;
  if (Math.abs(above) < (to - from) / 8) return names.get("neutral") ?? null;
  return names.get(above < 0 ? "negative" : "positive");
}

/** Says which numbers of a scale are read as which label. */
function noteOf(scale, names) {
  const numbers = range(scale[1] - scale[0] + 1).map((step) => scale[0] + step);
  const labels = numbers.map((number) => rated(String(number), scale, names) ?? "not compared");
  const parts = [...new Set(labels)].map((label) => {
    const ends = new Set([labels.indexOf(label), labels.lastIndexOf(label)].map((at) => numbers[at]));
    return `${[...ends].join(" to ")} as ${label}`;
  });
  return `It is read as a scale: ${parts.join(", ")}.`;
}

/** Gives each row the label that the file has for it; undefined where it has none. */
export function expect(rows, meaning, column) {
  for (const row of rows) row.expected = meaning?.labelOf(row.cells[column] ?? "") ?? undefined;
}

/** How far a verdict is from the label of the file; undefined where nothing is compared. */
export function doubtOf({ label, expected, probabilities }) {
  if (label === undefined || expected === undefined) return undefined;
  return probabilities[label] - (probabilities[expected] ?? 0);
}
