/** Reads the labels or ratings of a column of the file, to compare them with the verdicts. */

import { range } from "./parts.js";

const SIGNS = { "-": "negative", "+": "positive" };
const SHORTEST = 3; // letters of a label that stand for it, such as pos
export const USUAL = ["negative", "neutral", "positive"];
// The first scale that holds the values counts; the first two must hold every value.
/** @type {[number, number][]} */
const SCALES = [[0, 1], [-1, 1], [1, 5], [0, 4], [0, 5], [1, 10], [0, 10], [0, 100]];
const STRICT = 2;
const MOST_OUTSIDE = 0.02; // share of the ratings that may be something else
const CODES = [88, 97, 98, 99, 999]; // what surveys write for no answer
const GLYPHS = /^(?=.)([★⭐🌟*]*)(½?)([☆✩]*)$/u;
const NUMBER =
  /^(?:rated |rating:? ?)?([+-]?\d+(?:[.,]\d+)?) ?(?:(?:\/|out of|of|von|aus|sur|de|su) ?(\d{1,3}))? ?(stars?|stern\p{L}*|étoiles?|estrel\p{L}*|stell[ae]|points?|punkte?n?|[★⭐]|%)?$/u;
// Names of columns that hold ratings, and of those whose small numbers are something else.
const RATED = /star|stern|rating|score|bewert|wertung|étoile|estrel|stell[ae]|punt/;
const COUNTED = /qty|quant|anzahl|menge|count|number|month|monat|week|day|age\b|size|(^|[ _])(id|nr|no)\b/;

const folded = (value) => value.replaceAll("\ufe0f", "").trim().toLowerCase();

/** The number of a folded value, and the end of its scale if it names one; null if it is no rating. */
function ratingOf(value) {
  const [, filled, half, empty] = GLYPHS.exec(value) ?? [];
  if (filled !== undefined) {
    const [ones, others] = [[...filled].length, [...empty].length];
    return { number: ones + (half ? 0.5 : 0), of: others > 0 ? ones + half.length + others : null, unit: "★" };
  }
  const [, number, of, unit] = NUMBER.exec(value) ?? [];
  if (number === undefined) return null;
  return { number: Number(number.replace(",", ".")), of: of ? Number(of) : unit === "%" ? 100 : null, unit };
}

/** The label of a word, by a function; it may be shortened. */
function namesOf(labels) {
  const names = new Map(labels.map((label) => [folded(label), label]));
  return (word) => {
    const value = SIGNS[word] ?? word;
    const fitting = value.length < SHORTEST ? [] : [...names.keys()].filter((name) => name.startsWith(value));
    return names.get(value) ?? (fitting.length === 1 ? names.get(fitting[0]) : null) ?? null;
  };
}

/**
 * How the values of a column are read as labels of a model: `labelOf(value)` is null where it is
 * none, and `note` says how numbers are read. Null if none can be read.
 */
export function meaningOf(values, labels, column = "") {
  const all = values.map(folded);
  const named = namesOf(labels);
  const ratings = all.map(ratingOf).filter((rating) => rating !== null);
  const words = all.filter(named).length;
  if (words > 0 && words >= ratings.length) return { labelOf: (value) => named(folded(value)), note: "" };
  const numbers = ratings.map(({ number }) => number);
  const most = Math.max(...new Set(numbers));
  const places = labels.map((_, at) => at);
  if (most === places.length - 1 && numbers.includes(0) && numbers.every((number) => places.includes(number))) {
    const note = `It is read as numbers of the classes: ${labels.map((label, at) => `${at} as ${label}`).join(", ")}.`;
    return { labelOf: (value) => labels[ratingOf(folded(value))?.number] ?? null, note };
  }
  const scale = scaleOf(ratings, column);
  if (!scale || !named("negative") || !named("positive")) return null;
  return { labelOf: (value) => rated(value, scale, named), note: noteOf(scale, named) };
}

/**
 * The scale that ratings name, or the first one that holds them.
 * @returns {[number, number] | undefined}
 */
function scaleOf(ratings, column) {
  const named = ratings.map(({ of }) => of).filter((of) => of !== null).sort((one, other) => one - other);
  if (named.length > 0) {
    const of = named[Math.floor(named.length / 2)];
    return [of === 100 || ratings.some(({ number }) => number < 1) ? 0 : 1, of];
  }
  // Stars that are all 1 are the worst ones, and no classes.
  const scales = RATED.test(folded(column)) && ratings.every(({ number }) => number >= 1) ? SCALES.slice(STRICT) : SCALES;
  const holding = (some) => scales.find((scale) => {
    const outside = some.filter(({ number }) => number < scale[0] || number > scale[1]).length;
    return outside <= (SCALES.indexOf(scale) < STRICT ? 0 : MOST_OUTSIDE * some.length);
  });
  const coded = holding(ratings.filter(({ number }) => !CODES.includes(number)));
  return ratings.length === 0 ? undefined : coded?.[1] <= 10 ? coded : holding(ratings);
}

/** The label of a rating: the middle of its scale is neutral. */
function rated(value, [from, to], named) {
  const { number, of } = ratingOf(folded(value)) ?? {};
  if (number === undefined || number < from || number > to || (of !== null && of !== to)) return null;
  const above = number - (from + to) / 2;
  if (Math.abs(above) < (to - from) / 8) return named("neutral");
  return named(above < 0 ? "negative" : "positive");
}

/** Says which numbers of a scale are read as which label. */
function noteOf(scale, named) {
  const numbers = range(scale[1] - scale[0] + 1).map((step) => scale[0] + step);
  const labels = numbers.map((number) => rated(String(number), scale, named) ?? "not compared");
  const parts = [...new Set(labels)].map((label) => {
    const ends = new Set([labels.indexOf(label), labels.lastIndexOf(label)].map((at) => numbers[at]));
    return `${[...ends].join(" to ")} as ${label}`;
  });
  return `It is read as a scale: ${parts.join(", ")}.`;
}

/** Whether a column holds ratings or labels, by what is in it; plain numbers must look like stars. */
export function looksRated(name, values) {
  const filled = values.map(folded).filter((value) => value !== "");
  const named = namesOf(USUAL);
  const ratings = filled.map(ratingOf).filter((rating) => rating !== null);
  const words = filled.filter(named).length;
  if (new Set(filled).size < 2 || 2 * (ratings.length + words) <= filled.length) return false;
  if (words > ratings.length) return true;
  const plain = ratings.filter(({ of, unit }) => of === null && unit === undefined).map(({ number }) => number);
  if (plain.length < ratings.length / 2 || RATED.test(folded(name))) return scaleOf(ratings, name) !== undefined;
  const isOfStars = plain.includes(1) && plain.includes(5) && plain.every((number) => number >= 1 && number <= 5);
  return isOfStars && !COUNTED.test(folded(name));
}
