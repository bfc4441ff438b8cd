/**
 * Shows many rows with their predictions: counted by label, as bars, and as a table of which one
 * page at a time is there, sorted and filtered.
 */

import { paintClass, readPalette } from "./canvas.js";
import { doubtOf } from "./compare.js";
import { byId, heading, make, table } from "./elements.js";
import { asShare, grouped, percent } from "./words.js";

const PAGE = 100;
const SHOWN = 300; // characters of a text; Open shows all
const BAD = "bad"; // the value that chooses bad rows; a label's begins with "="
const AGREES = [["", "all"], ["no", "disagrees, most first"], ["yes", "agrees"]];

/** The rows that are scored or bad, and fit a filter. */
function filtered(rows, { label, least, most, text, agrees }) {
  const wanted = text.toLowerCase();
  return rows.filter((row) => {
    if (!row.reason && row.label === undefined) return false;
    if (label === BAD ? !row.reason : label !== "" && label !== `=${row.label}`) return false;
    if (agrees.startsWith("=")) {
      if (agrees !== `=${row.expected}`) return false;
    } else if (agrees !== "" && (!row.expected || row.reason || (row.label === row.expected) !== (agrees === "yes"))) return false;
    if (least !== null && !(row.score >= least)) return false;
    if (most !== null && !(row.score <= most)) return false;
    return wanted === "" || row.text.toLowerCase().includes(wanted);
  });
}

const { compare } = new Intl.Collator("en");

/** Sorts rows by a key; equal ones keep the order of the source, those without a value are last. */
function sorted(rows, key, isDown) {
  return [...rows].sort((one, other) => {
    const [a, b] = [one[key], other[key]];
    if (a === undefined || b === undefined) return Number(a === undefined) - Number(b === undefined);
    const order = key === "text" ? compare(a, b) : Number(a > b) - Number(a < b);
    return (isDown ? -order : order) || one.row - other.row;
  });
}

export class Ledger {
  /** `onOpen` gets the row that the user wants to see above. */
  constructor(onOpen) {
    this.rows = [];
    this.labels = [];
    this.shown = []; // the rows of the page
    this.page = 0;
    this.columns = [];
    this.column = 0; // of the texts
    this.extra = []; // places of columns of the file that are shown
    this.compared = -1;
    this.key = "row";
    this.isDown = false;
    this.body = byId("rows").tBodies[0];
    this.heads = [...byId("rows").querySelectorAll("th button")];
    this.filters = byId("filters");
    this.filters.addEventListener("submit", (event) => event.preventDefault());
    this.filters.addEventListener("input", ({ target }) => {
      if (target === this.filters.elements.columns) this.#show();
      else if (target === this.filters.elements.agrees && target.value === "no") this.#sortBy("doubt", true);
      else this.#turn(0);
    });
    for (const head of this.heads) head.addEventListener("click", () => this.#sortBy(head.value));
    this.body.addEventListener("click", ({ target }) => {
      const row = this.shown[this.#openers().indexOf(target)];
      if (row) onOpen(row);
    });
    byId("unfiltered").addEventListener("click", () => {
      this.filters.reset();
      this.#sortBy("row", false);
    });
    byId("before").addEventListener("click", () => this.#turn(this.page - 1));
    byId("after").addEventListener("click", () => this.#turn(this.page + 1));
    byId("page").addEventListener("change", () => this.#turn(byId("page").valueAsNumber - 1 || 0));
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#repaint());
  }

  /** Begins with other rows, and the labels in the order of the classes. */
  begin(rows, labels, { columns, column, compared }, isCompared) {
    Object.assign(this, { rows, labels, columns, column, shown: [], page: 0 });
    this.compared = isCompared ? compared : -1;
    this.filters.reset();
    byId("agrees-field").hidden = !isCompared;
    byId("columns-field").hidden = columns.length < 2;
    const choices = [["", "all"], ...labels.map((label) => [`=${label}`, label]), [BAD, "bad rows"]];
    const options = (each) => each.map(([value, textContent]) => make("option", { value, textContent }));
    this.filters.elements.label.replaceChildren(...options(choices));
    const values = labels.map((label) => [`=${label}`, `${label} in the file`]);
    this.filters.elements.agrees.replaceChildren(...options([...AGREES, ...values]));
    this.#show();
    this.#sortBy("row", false);
  }

  update() {
    const { label, least, most, text, agrees } = this.filters.elements;
    const share = ({ value }) => (value === "" ? null : asShare(value));
    const filter = { label: label.value, least: share(least), most: share(most), text: text.value, agrees: agrees.value };
    for (const row of this.rows) row.doubt = doubtOf(row);
    this.found = sorted(filtered(this.rows, filter), this.key, this.isDown);
    const pages = Math.max(1, Math.ceil(this.found.length / PAGE));
    this.page = Math.min(Math.max(this.page, 0), pages - 1);
    const from = this.page * PAGE;
    const shown = this.found.slice(from, from + PAGE);
    this.#fill(shown);
    const to = from + shown.length;
    byId("range").textContent =
      to > 0 ? `Rows ${grouped(from + 1)} to ${grouped(to)} of ${grouped(this.found.length)}` : "No rows";
    const isAll = Object.values(filter).every((value) => value === "" || value === null);
    for (const id of ["unfiltered", "many-save-some"]) byId(id).hidden = isAll;
    byId("before").setAttribute("aria-disabled", this.page === 0);
    byId("after").setAttribute("aria-disabled", this.page === pages - 1);
    byId("page").max = pages;
    byId("page").value = this.page + 1;
    byId("pages").textContent = `of ${grouped(pages)}`;
  }

  /** A button that shows the rows which filters of these values find. */
  leader(textContent, values, title) {
    const button = make("button", { type: "button", className: "quiet", textContent, title });
    button.addEventListener("click", () => {
      this.filters.reset();
      for (const [name, value] of Object.entries(values)) this.filters.elements[name].value = value;
      this.#turn(0);
    });
    return button;
  }

  /** Focuses the button of a row, or the table if the row is not on its page. */
  focus(row) {
    const opener = this.#openers()[this.shown.indexOf(row)];
    opener?.closest("tr").classList.add("opened");
    (opener ?? byId("table-region")).focus();
  }

  /** Shows the columns of the file that are wanted: the one that is compared, or all. */
  #show() {
    const isAll = this.filters.elements.columns.checked;
    this.extra = [...this.columns.keys()].filter((at) => (isAll && at !== this.column) || at === this.compared);
    const line = byId("rows").tHead.rows[0];
    for (const cell of line.querySelectorAll(".extra")) cell.remove();
    const names = this.extra.map((at) => make("th", { scope: "col", className: "extra" }, this.columns[at]));
    line.lastElementChild.before(...names);
    this.#repaint();
  }

  #openers() {
    return [...this.body.rows].map((line) => line.querySelector("button"));
  }

  #turn(page) {
    this.page = page;
    this.update();
    byId("table-region").scrollTop = 0;
  }

  #sortBy(key, isDown = this.key === key && !this.isDown) {
    Object.assign(this, { key, isDown });
    for (const head of this.heads) {
      const cell = head.parentElement;
      if (head.value === key) cell.setAttribute("aria-sort", isDown ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    }
    this.#turn(0);
  }

  /** Puts in the rows of a page, where they are not there; the focus stays at its row. */
  #fill(rows) {
    if (rows.length === this.shown.length && rows.every((row, at) => row === this.shown[at])) return;
    const focused = this.#openers().indexOf(document.activeElement);
    const row = this.shown[focused];
    this.shown = rows;
    const palette = readPalette();
    this.body.replaceChildren(...rows.map((each) => this.#line(each, palette)));
    if (row) this.focus(row);
  }

  #repaint() {
    const { shown } = this;
    this.shown = [];
    this.#fill(shown);
  }

  #line(row, palette) {
    const { text, label, score, reason } = row;
    const cut = text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text;
    const written = make("td", { className: "text" }, make("span", { textContent: cut, dir: "auto" }));
    const verdict = make("td");
    if (reason) verdict.append(make("span", { className: "reason", textContent: `bad row: ${reason}` }));
    else {
      const name = make("span", { className: "name", textContent: label });
      paintClass(name, label, this.labels, score, palette);
      verdict.append(name);
    }
    const figure = make("td", { className: "figure", textContent: reason ? "" : percent(score) });
    if (!reason) figure.title = String(score);
    const open = make("button", { type: "button", className: "quiet", textContent: "Open" });
    open.setAttribute("aria-label", `Open row ${row.row}`);
    open.hidden = text.trim() === "";
    return make(
      "tr",
      {},
      make("td", { className: "figure", textContent: grouped(row.row), title: `line ${row.line}` }),
      written,
      verdict,
      figure,
      make("td", { textContent: row.truncated ? "yes" : "" }),
      ...this.extra.map((at) => make("td", { className: "extra" }, row.cells[at])),
      make("td", {}, open),
    );
  }
}

const BINS = 20;

/** How many of some shares from 0 to 1 fall in each of the bins; 1 falls in the last one. */
function histogram(shares, bins = BINS) {
  const counts = new Array(bins).fill(0);
  for (const share of shares) counts[Math.min(bins - 1, Math.floor(share * bins))] += 1;
  return counts;
}

/** How many rows have each label, how many are bad, and how many are left. */
function countRows(rows, labels) {
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
  constructor(ledger) {
    this.ledger = ledger;
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

  update() {
    const { counts, bad, left } = countRows(this.rows, this.labels);
    const scored = this.rows.length - bad - left;
    const of = (count) => (scored > 0 ? `${grouped(count)} (${percent(count / scored)})` : "0");
    const leader = (name, label) => this.ledger.leader(name, { label }, `Show the rows: ${name}`);
    const items = Object.entries(counts).map(([label, count]) => [leader(label, `=${label}`), of(count)]);
    if (bad > 0) items.push([leader("bad rows", BAD), grouped(bad)]);
    if (left > 0) items.push(["not scored", grouped(left)]);
    const parts = items.map(([name, count]) =>
      make("div", {}, make("dt", {}, name), make("dd", { className: "figure" }, count)),
    );
    const leaders = () => [...byId("counts").querySelectorAll("button")];
    const focused = leaders().indexOf(document.activeElement);
    byId("counts").replaceChildren(...parts);
    leaders()[focused]?.focus();
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

  #table(names, counts, what) {
    const rows = counts.map((count, at) => ({ name: names[at], cells: [grouped(count)] }));
    const top = make("tr", {}, heading("probability"), heading("sentences"));
    byId("spread-table").replaceChildren(table(what, [top], rows));
  }
}
