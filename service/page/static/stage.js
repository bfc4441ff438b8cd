/**
 * Draws a panel for each sentence: on one scale, and pointing at the same token if both sentences
 * have it.
 */

import { byId } from "./elements.js";
import { readPalette } from "./palette.js";
import { Panel } from "./panel.js";
import { aligned } from "./words.js";

export class Stage {
  /**
   * @param {object} told what the page wants to hear: `onChoose(weights, row, column)`,
   *   `onRead(fields)`, `onProblem(problem, retry)`, `announce(text)`
   */
  constructor(told) {
    this.told = told;
    this.panels = [0, 1].map(
      (at) =>
        new Panel({
          ...told,
          onChoose: (row, column) => told.onChoose(this.results[at], row, column),
          onPoint: (chosen, stays) => this.#point(at, chosen, stays),
        }),
    );
  }

  /** Draws answers, and notes on the root element how many milliseconds that took. */
  show({ questions, results }, view) {
    const begun = performance.now();
    const palette = readPalette();
    const tokens = results.map((weights) => weights.tokens);
    const isTwo = results.length === 2;
    this.results = results;
    this.alignment = isTwo ? [aligned(...tokens), aligned(tokens[1], tokens[0])] : [];
    const elements = results.map((_, at) => this.panels[at].element);
    // What is put in anew loses the focus.
    if (elements.length !== byId("panels").childElementCount) {
      byId("panels").replaceChildren(...elements);
    }
    byId("panels").classList.toggle("two", isTwo);
    results.forEach((weights, at) => {
      const title = isTwo ? ["First sentence", "Second sentence"][at] : "Prediction";
      this.panels[at].show(title, questions[at], weights, view, palette, this.#changed(at));
    });
    this.choose(view);
    const { dataset } = document.documentElement;
    dataset.drawMilliseconds = (performance.now() - begun).toFixed(1);
    delete dataset.paintMilliseconds;
    requestAnimationFrame(() => {
      setTimeout(() => {
        dataset.paintMilliseconds = (performance.now() - begun).toFixed(1);
      });
    });
  }

  /** Draws the chosen head of each sentence. */
  choose(view) {
    const heads = this.results.map((weights) => ({
      place: weights.find(view.layer, view.head),
      shown: weights.shown(view.special),
    }));
    const largest = heads.map(({ place, shown }, at) =>
      this.results[at].largest(place.row, place.column, shown),
    );
    heads.forEach(({ place }, at) => this.panels[at].choose(place, Math.max(...largest), view));
  }

  /** Marks the heads of each sentence by their importance; null for no marks. */
  mark(marks) {
    this.results.forEach((_, at) => this.panels[at].grid.mark(marks?.[at] ?? null));
  }

  /** Positions whose token differs in the other sentence. */
  #changed(at) {
    const others = this.results[1 - at]?.tokens;
    const isLike = (to, from) =>
      to !== null && others[to].text === this.results[at].tokens[from].text;
    const way = this.alignment[at] ?? [];
    return new Set(way.flatMap((to, from) => (isLike(to, from) ? [] : [from])));
  }

  /** Shows what belongs to a token, also in the other sentence if it has that token. */
  #point(from, chosen, stays) {
    const like = (position) => (position === null ? null : this.alignment[from][position]);
    this.results.forEach((_, at) => {
      const there = at === from ? chosen : { query: like(chosen.query), key: like(chosen.key) };
      this.panels[at].point(there, stays);
    });
    if (stays && chosen.query !== null && chosen.query === chosen.key) {
      this.told.announce(this.panels[from].spoken(chosen.query));
    }
  }
}
