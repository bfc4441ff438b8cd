/**
 * Joins the parts of an answer of /attention to one block of numbers with names. Rows are layers,
 * columns are heads; an axis that the service reduced has one place.
 */

import { Problem } from "./api.js";

export class Weights {
  /**
   * @param {object} answer one of the parts; all have the same tokens and prediction
   * @param {number[]} layers numbers of the layers that went in; likewise `heads`
   * @param {boolean[]} reduced whether the axis of layers, and that of heads, has one place
   */
  constructor(answer, layers, heads, [oneRow, oneColumn]) {
    this.tokens = answer.tokens;
    this.prediction = answer.prediction;
    this.document = null; // what is told of the whole text, once it is known
    this.model = answer.model;
    this.size = answer.tokens.length;
    this.layers = layers;
    this.heads = heads;
    this.oneRow = oneRow;
    this.oneColumn = oneColumn;
    this.rows = oneRow ? 1 : layers.length;
    this.columns = oneColumn ? 1 : heads.length;
    this.numbers = new Float64Array(this.rows * this.columns * this.size ** 2);
  }

  /**
   * Puts an answer's `attention` where it belongs.
   * @param {number[]} layers start and end of its layers among all; likewise `heads`
   */
  place(attention, layers, heads) {
    const rows = sized(attention, this.oneRow ? 1 : layers[1] - layers[0]);
    rows.forEach((ofLayer, row) => {
      const columns = sized(ofLayer, this.oneColumn ? 1 : heads[1] - heads[0]);
      columns.forEach((ofHead, column) => {
        const map = this.map(layers[0] + row, heads[0] + column);
        sized(ofHead, this.size).forEach((weights, query) => {
          map.set(sized(weights, this.size), query * this.size);
        });
      });
    });
  }

  /** The weights of one place, [size * size], row by row of queries. */
  map(row, column) {
    const area = this.size ** 2;
    const start = (row * this.columns + column) * area;
    return this.numbers.subarray(start, start + area);
  }

  /** The place of a layer and a head; the first place if they are missing. */
  find(layer, head) {
    const row = this.oneRow ? 0 : this.layers.indexOf(layer);
    const column = this.oneColumn ? 0 : this.heads.indexOf(head);
    return { row: Math.max(row, 0), column: Math.max(column, 0) };
  }

  /** The positions to draw: all, or all but the special tokens. */
  shown(withSpecial) {
    const positions = [...this.tokens.keys()];
    const words = positions.filter((position) => !this.tokens[position].special);
    return withSpecial || words.length === 0 ? positions : words;
  }

  /** The largest weight of a place among the positions that are drawn. */
  largest(row, column, shown) {
    const map = this.map(row, column);
    let largest = 0;
    for (const query of shown) {
      for (const key of shown) largest = Math.max(largest, map[query * this.size + key]);
    }
    return largest;
  }
}

/** Checks the length of a list: with another one, numbers would land in wrong places. */
function sized(list, count) {
  if (list.length === count) return list;
  throw new Problem("unknown", `The answer has ${list.length} where ${count} were asked for.`);
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
