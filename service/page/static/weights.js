/**
 * Asks for the weights of a sentence, and reads them. Rows are layers, columns are heads; an axis that
 * the service reduced has one place.
 *
 * The maps of a text with many tokens are downsampled. Those that are looked at are there whole too.
 *
 * Words of all modules: a `view` is what the user wants to see (FIELDS in link.js has its fields); a
 * `question` is one sentence with all that its answer depends on; `weights` hold the answer; a `place`
 * is a row and a column of the grid; `shown` are the token positions that are drawn; a `head` is a
 * place with its weights, what is shown, and `largest`, the end of its scale; `chosen` is {query,
 * key}, the positions that the user points at, or null.
 */

import { post, Problem, requireModel } from "./api.js";
import { range } from "./parts.js";

const SIDE = 48; // of a downsampled map; a text with no more tokens is there whole
const LEAST_SIDE = 8; // that the service takes
const MOST_KEPT = 24; // whole maps of a long text: one of 512 tokens takes 2 MB

export class Weights {
  constructor(answer, { reduce, model, windows, window }) {
    this.tokens = answer.tokens;
    this.prediction = answer.prediction;
    this.model = answer.model;
    this.windows = windows;
    this.window = window;
    this.size = answer.tokens.length;
    this.layers = range(model.num_layers);
    this.heads = range(model.num_heads);
    this.oneRow = reduce === "rollout";
    this.oneColumn = reduce !== "none";
    this.rows = this.oneRow ? 1 : this.layers.length;
    this.columns = this.oneColumn ? 1 : this.heads.length;
    this.maps = sized(answer.attention, this.rows).flatMap((maps) =>
      sized(maps, this.columns).map((rows) => Float64Array.from(rows.flat())),
    );
    this.side = answer.attention[0][0].length;
    this.isWhole = this.side === this.size; // whether the downsampled maps are the maps themselves
    this.keys = answer.strongest.flat();
    this.largestOfKeys = answer.strongest_weights.flat();
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

  /** For each query of a place the key that it looks at most, and how much that is. */
  strongest(row, column) {
    const at = this.#at(row, column);
    return { keys: this.keys[at], weights: this.largestOfKeys[at] };
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

  /** The place that a view shows large; the first place if it names none. */
  find({ layer, head }) {
    return { row: this.oneRow ? 0 : (layer ?? 0), column: this.oneColumn ? 0 : (head ?? 0) };
  }

  /** The positions to draw: all, or all but the special tokens. */
  shown(withSpecial) {
    const positions = [...this.tokens.keys()];
    const words = positions.filter((position) => !this.tokens[position].special);
    return withSpecial || words.length === 0 ? positions : words;
  }
}

/** The fields of a request, without those that have the service's default. */
export function fieldsOf({ sentence, reduce, level, windows, window }) {
  return {
    sentence,
    ...(reduce === "none" ? {} : { reduce }),
    ...(level === "token" ? {} : { level }),
    ...(windows > 1 ? { truncation: "window", window } : {}),
  };
}

/** The fields of a request for one place of the grid. */
export function placeFields(question, { oneRow, oneColumn }, { row, column }) {
  return { ...fieldsOf(question), ...(oneRow ? {} : { layer: [row] }), ...(oneColumn ? {} : { head: [column] }) };
}

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
  return new Weights(answer, question);
}

/** Asks for the whole map of a place. */
export async function askMap(question, weights, place, signal) {
  const answer = await post("/attention", placeFields(question, weights, place), signal);
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

const EVEN_SHARES = 6; // that a scale has at least: on a shorter one an even head would look strong

/** The end of the scale for the weights between some tokens, of which one is the largest. */
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

/** All pairs of some queries and some keys: [query, key]. */
export function* pairsOf(queries, keys) {
  for (const query of queries) for (const key of keys) yield [query, key];
}

/** The largest weights with their places, [place, weight], in descending order. */
export function ranked(places, weightOf, count) {
  const best = [];
  for (const place of places) {
    const weight = weightOf(place);
    if (best.length === count && weight <= best[count - 1][1]) continue;
    const at = best.findIndex((other) => weight > other[1]);
    best.splice(at < 0 ? best.length : at, 0, [place, weight]);
    best.length = Math.min(best.length, count);
  }
  return best;
}
