/** Makes the question for a sentence and a view, and the view that an answer begins with. */

import { plainest, telling } from "./words.js";

const all = (count) => Array.from({ length: count }, (_, number) => number);

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
  const isOther = ([name, value]) => JSON.stringify(value) !== JSON.stringify(other[name]);
  return Object.fromEntries(Object.entries(view).filter(isOther));
}

/**
 * The question for one sentence.
 * @param {number} windows how many the text is read in, 1 if it is not; a view of a later one
 *   shows the last
 * @param {?object} changes fields of a request that say what the text is read with, and its `name`
 */
export function questionOf(sentence, view, model, windows, changes = null) {
  return {
    sentence,
    reduce: view.reduce,
    level: view.level,
    layers: view.layers ?? all(model.num_layers),
    heads: view.heads ?? all(model.num_heads),
    special: view.special,
    changes,
    model,
    windows,
    window: Math.min(view.window, windows - 1),
  };
}

/**
 * The view with a head to begin with if it names none: one that matters and tells something, or if
 * it is not known how much they matter the one with the plainest pattern.
 * @param {?number[][]} importance of each place, [row][column]
 */
export function withHead(view, weights, importance) {
  if ((view.layer !== null && view.head !== null) || weights.oneColumn) return view;
  const shown = weights.shown(view.special);
  const { row, column } = importance
    ? telling(weights, shown, importance)
    : plainest(weights, shown);
  return {
    ...view,
    layer: view.layer ?? weights.layers[row],
    head: view.head ?? weights.heads[column],
  };
}
