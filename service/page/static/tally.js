/** Counts the verdicts of many rows by label, and draws how their probabilities are spread. */

import { attributes, byId, make } from "./elements.js";
import { grouped, percent } from "./words.js";

const BINS = 20;

/** How many of some shares from 0 to 1 fall in each of the bins; 1 falls in the last one. */
export function histogram(shares, bins = BINS) {
  const counts = new Array(bins).fill(0);
  for (const share of shares) counts[Math.min(bins - 1, Math.floor(share * bins))] += 1;
  return counts;
}

/** How many rows have each label, how many are bad, and how many are left. */
export function countRows(rows, labels) {
  const counts = Object.fromEntries(labels.map((label) => [label, 0]));
  let bad = 0;
  let left = 0;
  for (const { label, reason } of rows) {
    if (reason) bad += 1;
    else if (label === undefined) left += 1;
    else counts[label] = (counts[label] ?? 0) + 1;
  }
  return { counts, bad, left };
}

export class Tally {
  constructor() {
    this.select = byId("spread-label");
    this.select.addEventListener("change", () => this.#draw());
  }

  /** Begins with other rows, and the labels in the order of the classes. */
  begin(rows, labels) {
    this.rows = rows;
    this.labels = labels;
    this.select.replaceChildren(...labels.map((label) => make("option", { textContent: label })));
    this.select.selectedIndex = labels.length - 1;
    this.update();
  }

  /** Counts anew. */
  update() {
    const { counts, bad, left } = countRows(this.rows, this.labels);
    const scored = this.rows.length - bad - left;
    const of = (count) => (scored > 0 ? `${grouped(count)} (${percent(count / scored)})` : "0");
    const told = Object.entries(counts).map(([label, count]) => [label, of(count)]);
    if (bad > 0) told.push(["bad rows", grouped(bad)]);
    if (left > 0) told.push(["not scored", grouped(left)]);
    const items = told.map(([name, count]) =>
      make(
        "div",
        {},
        make("dt", { textContent: name }),
        make("dd", { className: "figure", textContent: count }),
      ),
    );
    byId("counts").replaceChildren(...items);
    this.#draw();
  }

  #draw() {
    const label = this.select.value;
    const shares = this.rows.flatMap(({ probabilities }) => probabilities?.[label] ?? []);
    const counts = histogram(shares);
    const most = Math.max(...counts, 1);
    const names = counts.map((_, at) => `${(100 * at) / BINS} to ${(100 * (at + 1)) / BINS} %`);
    const bars = counts.map((count, at) => {
      const bar = make("span", { title: `${names[at]}: ${grouped(count)}` });
      bar.style.height = `${(100 * count) / most}%`;
      bar.style.minHeight = count > 0 ? "2px" : "0"; // or a few would be none
      return bar;
    });
    const fullest = names[counts.indexOf(most)];
    const what = `Probability of ${label}, of ${grouped(shares.length)} sentences`;
    const said = shares.length > 0 ? `${what}. Most, ${grouped(most)}, have ${fullest}.` : what;
    const box = byId("spread");
    box.setAttribute("aria-label", said);
    box.replaceChildren(...bars);
    byId("spread-most").textContent = `highest bar: ${grouped(shares.length > 0 ? most : 0)}`;
    this.#table(names, counts, what);
  }

  /** The same in numbers, for those who cannot see a picture. */
  #table(names, counts, what) {
    const lines = counts.map((count, at) =>
      make(
        "tr",
        {},
        attributes(make("th", { textContent: names[at] }), { scope: "row" }),
        make("td", { textContent: grouped(count) }),
      ),
    );
    const top = ["probability", "sentences"].map((name) =>
      attributes(make("th", { textContent: name }), { scope: "col" }),
    );
    byId("spread-table").replaceChildren(
      make(
        "table",
        {},
        make("caption", { textContent: what }),
        make("thead", {}, make("tr", {}, ...top)),
        make("tbody", {}, ...lines),
      ),
    );
  }
}
