/**
 * Draws a panel for each sentence: on one scale, and pointing at the same token if both sentences
 * have it.
 */

import { readPalette } from "./canvas.js";
import { aligned, showDifference } from "./difference.js";
import { byId } from "./elements.js";
import { Panel } from "./panel.js";
import { largestOf, scaleEnd } from "./weights.js";
import { drawnPlaces } from "./picture.js";
import { placeName } from "./words.js";

const TITLES = ["First sentence", "Second sentence"];

export class Stage {
  constructor(events) {
    this.events = events;
    this.panels = [0, 1].map(
      (at) =>
        new Panel({
          ...events,
          onChoose: (row, column) => events.onChoose(this.results[at], row, column),
          onPoint: (chosen, stays) => this.#point(at, chosen, stays),
        }),
    );
    this.results = [];
  }

  /** Draws answers, and notes on the root element how many milliseconds that took. */
  show({ questions, results }, view) {
    const begun = performance.now();
    const palette = readPalette();
    const tokens = results.map((weights) => weights.tokens);
    const isTwo = results.length === 2;
    this.results = results;
    this.alignment = isTwo ? bothWays(aligned(tokens[0], tokens[1]), tokens[1].length) : [];
    this.palette = palette;
    const elements = results.map((_, at) => this.panels[at].element);
    // What is put in again loses the focus.
    if (elements.length !== byId("panels").childElementCount) {
      byId("panels").replaceChildren(...elements);
    }
    byId("panels").classList.toggle("two", isTwo);
    const shown = results.map((weights) => weights.shown(view.special));
    this.size = Math.min(...results.map(({ size }) => size));
    const scaleOf = (row, column) => {
      const all = results.map((weights, at) => largestOf(weights.cells(row, column, shown[at])));
      return scaleEnd(Math.max(...all), this.size);
    };
    results.forEach((weights, at) => {
      const { changes } = questions[at];
      const titles = questions[1]?.changes ? ["As it is", changes?.name] : TITLES;
      const title = isTwo ? titles[at] : "Prediction";
      this.panels[at].show(title, questions[at], weights, view, palette, this.#changed(at), scaleOf);
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

  choose(view) {
    const heads = this.results.map((weights) => {
      const place = weights.find(view.layer, view.head);
      return { place, shown: weights.shown(view.special), drawn: drawnPlaces(view, weights, place) };
    });
    const largest = heads.flatMap(({ shown, drawn }, at) =>
      drawn.map(({ row, column }) => this.results[at].largest(row, column, shown)),
    );
    heads.forEach(({ place, drawn }, at) =>
      this.panels[at].choose(place, scaleEnd(Math.max(...largest), this.size), view, drawn),
    );
    byId("difference").hidden = heads.length === 1;
    if (heads.length > 1) {
      const sides = heads.map(({ place, shown }, at) => ({ weights: this.results[at], ...place, shown }));
      const { row, column } = heads[0].place;
      const name = placeName(this.results[0], row, column, view.reduce);
      showDifference(sides, this.alignment[0], name, this.palette);
    }
  }

  /** Marks the heads of each sentence by their importance; null for no marks. */
  mark(marks) {
    const largest = Math.max(...(marks ?? []).flat(2), 0);
    this.results.forEach((_, at) => this.panels[at].grid.mark(marks?.[at] ?? null, largest));
  }

  /** Positions whose token differs in the other sentence. */
  #changed(at) {
    const others = this.results[1 - at]?.tokens;
    const isLike = (to, from) =>
      to !== null && others[to].text === this.results[at].tokens[from].text;
    const way = this.alignment[at] ?? [];
    return new Set(way.flatMap((to, from) => (isLike(to, from) ? [] : [from])));
  }

  get overview() {
    return this.panels[0].part(".overview");
  }

  get trials() {
    return this.results.map((_, at) => this.panels[at].trials.trial);
  }

  restore(trials) {
    this.results.forEach((_, at) => this.panels[at].trials.restore(trials?.[at] ?? null));
  }

  /** Shows what belongs to a token, also in the other sentence if it has that token. */
  #point(from, chosen, stays) {
    const like = (position) => (position === null ? null : this.alignment[from][position]);
    this.results.forEach((_, at) => {
      const there = at === from ? chosen : { query: like(chosen.query), key: like(chosen.key) };
      this.panels[at].point(there, stays);
    });
    if (stays && chosen.query !== null && chosen.query === chosen.key) {
      this.events.announce(this.panels[from].spoken(chosen.query));
    }
  }
}

/** An alignment, and the same from the second text to the first. */
function bothWays(alignment, count) {
  const back = new Array(count).fill(null);
  alignment.forEach((to, from) => {
    if (to !== null) back[to] = from;
  });
  return [alignment, back];
}
