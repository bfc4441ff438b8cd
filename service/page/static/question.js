/**
 * Makes the question for a sentence and a view, and the view that an answer begins with.
 *
 * Words of all modules: a `view` is what the user wants to see (FIELDS in link.js has its fields);
 * a `question` is one sentence with all that its answer depends on; `weights` hold the answer; a
 * `place` is a row and a column of the grid; `shown` are the token positions that are drawn; a
 * `head` is a place with its weights, what is shown, and `largest`, the end of its scale; `chosen`
 * is {query, key}, the positions that the user points at, or null.
 */

import { range } from "./elements.js";
import { pattern } from "./words.js";

export const isSame = (one, other) => JSON.stringify(one) === JSON.stringify(other);

/** A view without layers and heads that the model lacks; a link may come from another model. */
export function fitted(view, model) {
  const some = (numbers, count) => {
    const there = (numbers ?? []).filter((number) => number < count);
    return there.length === 0 || there.length === count ? null : there;
  };
  const one = (number, count) => (number !== null && number < count ? number : null);
  return {
    ...view,
    layer: one(view.layer, model.num_layers),
    head: one(view.head, model.num_heads),
    layers: some(view.layers, model.num_layers),
    heads: some(view.heads, model.num_heads),
  };
}

/** The fields of a view that differ from another's. */
export function difference(view, other) {
  const entries = Object.entries(view);
  return Object.fromEntries(entries.filter(([name, value]) => !isSame(value, other[name])));
}

/**
 * The question for one sentence. `windows` says how many the text is read in; a view of a later one
 * shows the last. `changes` are fields of a request that say what the text is read with, and their
 * `name`.
 */
export function questionOf(sentence, view, model, windows, changes) {
  return {
    sentence,
    reduce: view.reduce,
    level: view.level,
    layers: view.layers ?? range(model.num_layers),
    heads: view.heads ?? range(model.num_heads),
    special: view.special,
    changes,
    model,
    windows,
    window: Math.min(view.window, windows - 1),
  };
}

/**
 * The view with a head to begin with if it names none: the one that matters most, of those that do
 * not merely look at neighbours, themselves, special tokens or everywhere; or if it is not known
 * how much they matter, the one with the plainest pattern.
 * @param {?number[][]} importance of each place, [row][column]
 */
export function withHead(view, weights, importance) {
  if ((view.layer !== null && view.head !== null) || weights.oneColumn) return view;
  const shown = weights.shown(view.special);
  const worth = ({ row, column }) => {
    const { kind, count } = pattern(weights, row, column, shown);
    if (importance) return [kind === "mixed" ? 1 : 0, importance[row][column]];
    return [["before", "after"].includes(kind) ? count : 0, 0];
  };
  const places = weights.places().map((place) => ({ ...place, worth: worth(place) }));
  const order = (one, other) => other.worth[0] - one.worth[0] || other.worth[1] - one.worth[1];
  const [{ row, column }] = places.sort(order);
  return {
    ...view,
    layer: view.layer ?? weights.layers[row],
    head: view.head ?? weights.heads[column],
  };
}
