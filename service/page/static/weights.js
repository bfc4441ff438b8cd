/**
 * Asks for the weights of a sentence, and reads them. Rows are layers, columns are heads.
 *
 * The maps of a text with many tokens are downsampled. Those that are looked at are there whole too.
 *
 * Words of all modules: a `view` is what the user wants to see (FIELDS in store.js has its fields); a
 * `question` is one sentence with all that its answer depends on; `weights` hold the answer; a `place`
 * is a row and a column of the grid; `shown` are the token positions that are drawn; a `head` is a
 * place with its weights, what is shown, and `largest`, the end of its scale; `chosen` is {query,
 * key}, the positions that the user points at, or null.
 */

import { post, Problem, requireModel } from "./api.js";
import { quoted, range } from "./parts.js";

const SIDE = 48; // of a downsampled map; a text with no more tokens is there whole
const LEAST_SIDE = 8; // that the service takes
const MOST_KEPT = 24; // whole maps of a long text: one of 512 tokens takes 2 MB

export class Weights {
  constructor(answer, { num_layers: layers, num_heads: heads }) {
    this.tokens = answer.tokens;
    this.prediction = answer.prediction;
    this.size = answer.tokens.length;
    this.rows = layers;
    this.columns = heads;
    this.maps = sized(answer.attention, layers).flatMap((maps) =>
      sized(maps, heads).map((rows) => Float64Array.from(rows.flat())),
    );
    this.side = answer.attention[0][0].length;
    this.isWhole = this.side === this.size; // whether the downsampled maps are the maps themselves
    this.strongest = answer.strongest; // [layer][head][query]: the key that a query looks at most
    this.largest = answer.strongest_weights; // and how much that is
    this.kept = new Map();
  }

  #at(row, column) {
    return row * this.columns + column;
  }

  /**
   * The cells of a small map of a place, row by row. A downsampled one has the rows and columns that
   * are shown; of a whole map those are taken here.
   */
  cells(row, column, shown) {
    if (!this.isWhole || shown.length === this.side) return this.maps[this.#at(row, column)];
    return shownCells({ weights: this, row, column, shown });
  }

  has({ row, column }) {
    return this.isWhole || this.kept.has(this.#at(row, column));
  }

  /** Keeps a whole map, and drops the one that was kept first if there are many. */
  keep({ row, column }, map) {
    this.kept.set(this.#at(row, column), sized(map, this.size ** 2));
    if (this.kept.size > MOST_KEPT) this.kept.delete(this.kept.keys().next().value);
  }

  /** The weights of one place that is there whole, [size * size], row by row of queries. */
  map(row, column) {
    const at = this.#at(row, column);
    return this.isWhole ? this.maps[at] : this.kept.get(at);
  }

  places() {
    return range(this.rows).flatMap((row) => range(this.columns).map((column) => ({ row, column })));
  }

  /** The pattern of each place, between the tokens that are shown. */
  patterns(shown) {
    return this.places().map(({ row, column }) => pattern(this, row, column, shown));
  }

  /** The positions to draw: all, or all but the special tokens. */
  shown(withSpecial) {
    const positions = [...this.tokens.keys()];
    const words = positions.filter((position) => !this.tokens[position].special);
    return withSpecial || words.length === 0 ? positions : words;
  }
}

/** The fields of a request, without those that have the service's default. */
export const fieldsOf = ({ sentence, level }) => (level === "token" ? { sentence } : { sentence, level });

/** The fields of a request for one place of the grid. */
export const placeFields = (question, { row, column }) => ({ ...fieldsOf(question), layer: [row], head: [column] });

/** Asks for the weights of a sentence; an answer of another model is a Problem. */
export async function askWeights(question, signal) {
  const plain = () => askDownsampled(question, { special: false }, signal);
  // A word has a token or more: of a downsampled map the page cannot leave tokens out itself.
  if (!question.special && question.sentence.trim().split(/\s+/).length > SIDE) return plain();
  const weights = await askDownsampled(question, {}, signal);
  return question.special || weights.isWhole ? weights : plain();
}

async function askDownsampled(question, more, signal) {
  const { num_layers: layers, num_heads: heads, limits } = question.model;
  const fitting = Math.floor(Math.sqrt(limits.max_attention_weights / (layers * heads)));
  const side = Math.max(Math.min(SIDE, fitting), LEAST_SIDE);
  const answer = await post("/attention", { ...fieldsOf(question), thumbnail: side, ...more }, signal);
  requireModel(answer, question.model);
  return new Weights(answer, question.model);
}

/** Asks for the whole map of a place. */
export async function askMap(question, weights, place, signal) {
  const answer = await post("/attention", placeFields(question, place), signal);
  requireModel(answer, question.model);
  weights.keep(place, Float64Array.from(answer.attention[0][0].flat()));
}

export const NOTHING = Object.freeze({ query: null, key: null });
export const isNothing = ({ query, key }) => query === null && key === null;

/** The largest of some numbers that are not negative. */
export function largestOf(numbers) {
  let largest = 0;
  for (const number of numbers) if (number > largest) largest = number;
  return largest;
}

const EVEN_SHARES = 6; // that a small map's scale has at least: on a shorter one an even head would look strong

/** The end of the scale of a small map of some tokens, from its largest weight. */
export const scaleEnd = (largest, size) => Math.min(1, Math.max(largest, EVEN_SHARES / size));

/** Reads the weight of a head from one position to another. */
export function reader({ weights, row, column }) {
  const map = weights.map(row, column);
  return (query, key) => map[query * weights.size + key];
}

/** The weights of a head between the tokens that are shown, row by row. */
export function shownCells(head) {
  const weightOf = reader(head);
  return head.shown.flatMap((query) => head.shown.map((key) => weightOf(query, key)));
}

/** Checks the length of a list: with another one, numbers would land in wrong places. */
function sized(list, count) {
  if (list.length === count) return list;
  throw new Problem("unknown", `The answer has ${list.length} where ${count} were asked for.`);
}

/** A weight in short and in full. */
export const short = (weight) => weight.toFixed(4);
export const full = (weight) => weight.toFixed(8);

export function gives(tokens, query, key, weight) {
  const to = query === key ? "itself" : quoted(tokens[key]);
  return `${quoted(tokens[query])} gives ${to} ${short(weight)}`;
}

export const placeName = ({ row, column }) => `Layer ${row}, head ${column}`;

const EVEN = 2; // weights are even if the largest is under this many times the even share
const MOST = 0.45; // the share of tokens that makes a pattern
const PLAIN = ["before", "after", "itself", "punctuation"];

function kindOf({ tokens }, query, key) {
  if (tokens[key].special) return tokens[key].text;
  if (key === query) return "itself";
  if (key === query - 1) return "before";
  if (key === query + 1) return "after";
  return /^[\p{P}\p{S}]+$/u.test(tokens[key].text) ? "punctuation" : quoted(tokens[key]);
}

/**
 * What most of the shown tokens of a place look at most, with the sum of these weights, its strength.
 * The kind of one word that they look at begins with its quotation mark.
 */
function pattern(weights, row, column, shown) {
  const [keys, largest] = [weights.strongest[row][column], weights.largest[row][column]];
  const { size } = weights;
  const found = new Map();
  let even = 0;
  for (const query of shown) {
    if (largest[query] * size < EVEN) even += 1;
    const kind = kindOf(weights, query, keys[query]);
    const { count, strength } = found.get(kind) ?? { count: 0, strength: 0 };
    found.set(kind, { kind, count: count + 1, strength: strength + largest[query] });
  }
  const of = shown.length;
  if (size > 4 && even > of / 2) return { row, column, kind: "even", count: even, of, strength: 0 };
  const [most] = [...found.values()].sort((a, b) => b.count - a.count);
  const clear = most.count / of >= MOST ? most : { kind: "mixed", count: 0, strength: 0 };
  return { row, column, of, ...clear };
}

export function patternText({ kind, count, of }, level) {
  const unit = level === "word" ? "word" : "token";
  if (kind === "even") return `Spreads its weight almost evenly, for ${count} of ${of} ${unit}s.`;
  if (kind === "mixed") return `No one pattern: its ${unit}s look in different directions.`;
  const places = { itself: "themselves", before: `the ${unit} before them`, after: `the ${unit} after them` };
  return `${count} of ${of} ${unit}s look most at ${places[kind] ?? kind}.`;
}

/** Groups of patterns by kind: single words first, the clearest pattern of each group first. */
export function groupsOf(patterns) {
  const order = (kind) => (kind.startsWith("“") ? 0 : PLAIN.indexOf(kind) + 1 || PLAIN.length + 1);
  const clear = patterns.filter(({ strength }) => strength > 0);
  const kinds = [...new Set(clear.sort((a, b) => b.strength - a.strength).map(({ kind }) => kind))];
  return kinds.sort((a, b) => order(a) - order(b))
    .map((kind) => ({ kind, heads: clear.filter((each) => each.kind === kind) }));
}
