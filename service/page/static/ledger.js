/**
 * Shows many rows with their predictions: counted by label, as bars, beside the labels of the file,
 * and as a table of which one page at a time is there, sorted and filtered.
 */

import { classStyle, readPalette } from "./canvas.js";
import { doubtOf } from "./compare.js";
import { range } from "./parts.js";
import { html, useLayoutEffect, useMemo } from "./preact.js";
import { grouped, percent } from "./words.js";

const PAGE = 100;
const SHOWN = 300; // characters of a text; Open shows all
const BINS = 20;
const BAD = "bad"; // the value that chooses bad rows; a label's begins with "="
const AGREES = [["", "all"], ["no", "disagrees, most first"], ["yes", "agrees"]];
const HEADS = [["row", "Row"], ["text", "Text"], ["label", "Label"], ["score", "Score"]];
const UNFILTERED = { label: "", least: "", most: "", agrees: "", text: "", page: 0 };

/** What is shown of a table that has just begun. */
export const WHOLE = { ...UNFILTERED, columns: false, key: "row", isDown: false };

const asShare = (below) => Number(`${below}e-2`); // of 97.5 the number that 0.975 is

/** The rows that are scored or bad, and fit a filter. */
function filtered(rows, { label, least, most, text, agrees }) {
  const wanted = text.toLowerCase();
  return rows.filter((row) => {
    if (!row.reason && row.label === undefined) return false;
    if (label === BAD ? !row.reason : label !== "" && label !== `=${row.label}`) return false;
    if (agrees.startsWith("=")) {
      if (agrees !== `=${row.expected}`) return false;
    } else if (agrees !== "" && (!row.expected || row.reason || (row.label === row.expected) !== (agrees === "yes"))) return false;
    if (least !== "" && !(row.score >= asShare(least))) return false;
    if (most !== "" && !(row.score <= asShare(most))) return false;
    return wanted === "" || row.text.toLowerCase().includes(wanted);
  });
}

const { compare } = new Intl.Collator("en");

/** Sorts rows by a key; equal ones keep the order of the source, those without a value are last. */
function sorted(rows, key, isDown) {
  const valueOf = (row) => (key === "doubt" ? doubtOf(row) : row[key]);
  return [...rows].sort((one, other) => {
    const [a, b] = [valueOf(one), valueOf(other)];
    if (a === undefined || b === undefined) return Number(a === undefined) - Number(b === undefined);
    const order = key === "text" ? compare(a, b) : Number(a > b) - Number(a < b);
    return (isDown ? -order : order) || one.row - other.row;
  });
}

/**
 * All that a run leaves. `set` gets the fields of `view` that the user changes, `onOpen` a row, and
 * `onSave` the rows to save.
 */
export function Ledger({ rows, labels, source, meaning, compared, versions, view, tick, opened, set, onOpen, onSave }) {
  const { key, isDown } = view;
  const found = useMemo(() => sorted(filtered(rows, view), key, isDown), [rows, tick, view, compared]);
  const pages = Math.max(1, Math.ceil(found.length / PAGE));
  const page = Math.min(Math.max(view.page, 0), pages - 1);
  const shown = found.slice(page * PAGE, (page + 1) * PAGE);
  const turn = (to) => {
    set({ page: Math.min(Math.max(to, 0), pages - 1) });
    document.getElementById("table-region").scrollTop = 0;
  };
  const lead = (values) => set({ ...UNFILTERED, ...values });
  const [from, to] = [page * PAGE + 1, page * PAGE + shown.length];
  const isFiltered = Object.keys(UNFILTERED).some((name) => name !== "page" && view[name] !== "");
  return html`<div id="scored">
    ${versions.size > 1 && html`<p id="many-versions" class="error">The model was replaced during the
      run: ${[...versions].map(([name, count]) => `${plural(count, "row")} by ${name}`).join(", ")}. Score
      again to have all rows of one model.</p>`}
    <div class="summary">
      <${Counts} ...${{ rows, labels, tick, lead }} />
      <${Spread} ...${{ rows, labels, tick }} label=${view.spread ?? labels.at(-1)}
        onChoose=${(spread) => set({ spread })} />
      <${Agreement} ...${{ rows, labels, tick, meaning, lead }} column=${source.columns[compared]} />
    </div>
    <${Filters} ...${{ labels, view, set }} isCompared=${meaning !== null} isWide=${source.columns.length > 1} />
    <div class="row">
      <span id="range">${to >= from ? `Rows ${grouped(from)} to ${grouped(to)} of ${grouped(found.length)}` : "No rows"}</span>
      ${isFiltered && html`<button type="button" class="quiet"
        onClick=${() => lead({ key: "row", isDown: false })}>Show all</button>`}
      <button type="button" class="quiet" aria-disabled=${page === 0} onClick=${() => turn(page - 1)}>Previous</button>
      <button type="button" class="quiet" aria-disabled=${page === pages - 1} onClick=${() => turn(page + 1)}>Next</button>
      <label>Page <input type="number" min="1" max=${pages} value=${page + 1}
        onChange=${({ target }) => turn(target.valueAsNumber - 1 || 0)} /> of ${grouped(pages)}</label>
      <button type="button" class="quiet" onClick=${() => onSave(rows)}>Save as CSV</button>
      ${isFiltered && html`<button type="button" class="quiet" onClick=${() => onSave(found)}>Save these as CSV</button>`}
    </div>
    <${Table} ...${{ shown, labels, source, compared, view, set, opened, onOpen }} />
  </div>`;
}

export const plural = (count, noun) => `${grouped(count)} ${noun}${count === 1 ? "" : "s"}`;

function Filters({ labels, view, set, isCompared, isWide }) {
  const field = (name) => ({
    name,
    value: view[name],
    onInput: ({ target }) => {
      const isMost = name === "agrees" && target.value === "no";
      set({ [name]: target.value, page: 0, ...(isMost ? { key: "doubt", isDown: true } : {}) });
    },
  });
  const options = (choices) => choices.map(([value, text]) => html`<option value=${value}>${text}</option>`);
  const named = labels.map((label) => [`=${label}`, label]);
  const expected = labels.map((label) => [`=${label}`, `${label} in the file`]);
  return html`<form id="filters" class="row" aria-label="Which rows are shown" onSubmit=${(event) => event.preventDefault()}>
    <label>Label <select ...${field("label")}>${options([["", "all"], ...named, [BAD, "bad rows"]])}</select></label>
    <label>Score from <input type="number" min="0" max="100" step="any" ...${field("least")} /></label>
    <label>to <input type="number" min="0" max="100" step="any" ...${field("most")} /> %</label>
    ${isCompared && html`<label>Compared <select ...${field("agrees")}>${options([...AGREES, ...expected])}</select></label>`}
    ${isWide && html`<label class="choice"><input type="checkbox" checked=${view.columns}
      onChange=${({ target }) => set({ columns: target.checked })} /> All columns</label>`}
    <label>Text contains <input type="search" autocomplete="off" ...${field("text")} /></label>
  </form>`;
}

function Table({ shown, labels, source: { columns, column }, compared, view, set, opened, onOpen }) {
  // A row that moves would lose the focus.
  const { row: held } = /** @type {HTMLElement} */ (document.activeElement).dataset;
  useLayoutEffect(() => {
    if (held !== undefined) focusRow(held);
  });
  const { key, isDown } = view;
  const extra = [...columns.keys()].filter((at) => (view.columns && at !== column) || at === compared);
  const sort = (name) => set({ key: name, isDown: key === name && !isDown, page: 0 });
  const palette = readPalette();
  const head = ([name, text]) => html`
    <th scope="col" aria-sort=${name === key ? (isDown ? "descending" : "ascending") : null}>
      <button type="button" onClick=${() => sort(name)}>${text}</button></th>`;
  const line = (row) => {
    const { text, label, score, reason } = row;
    const style = reason ? null : classStyle(label, labels, score, palette);
    return html`<tr key=${row.row} class=${row === opened ? "opened" : ""}>
      <td class="figure" title="line ${row.line}">${grouped(row.row)}</td>
      <td class="text"><span dir="auto">${text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text}</span></td>
      <td>${reason ? html`<span class="reason">bad row: ${reason}</span>` : html`<span class="name" style=${style}>${label}</span>`}</td>
      <td class="figure" title=${reason ? null : score}>${reason ? "" : percent(score)}</td>
      <td>${row.truncated ? "yes" : ""}</td>
      ${extra.map((at) => html`<td class="extra">${row.cells[at]}</td>`)}
      <td>${text.trim() !== "" && html`<button type="button" class="quiet" data-row=${row.row}
        aria-label="Open row ${row.row}" onClick=${() => onOpen(row)}>Open</button>`}</td>
    </tr>`;
  };
  return html`<div id="table-region" class="scroll" tabindex="0" role="region" aria-label="Table of sentences">
    <table id="rows">
      <caption class="unseen">Texts and what the model says of them</caption>
      <thead><tr>${HEADS.map(head)}<th scope="col">Cut off</th>
        ${extra.map((at) => html`<th scope="col" class="extra">${columns[at]}</th>`)}<td /></tr></thead>
      <tbody>${shown.map(line)}</tbody>
    </table></div>`;
}

/** Focuses the button of a row, or the table if the row is not on its page. */
export function focusRow(number) {
  const button = document.querySelector(`#rows [data-row="${number}"]`);
  const element = /** @type {HTMLElement} */ (button ?? document.getElementById("table-region"));
  if (element !== document.activeElement) element?.focus();
}

/** How many rows have each label, how many are bad, and how many are left. */
function Counts({ rows, labels, tick, lead }) {
  const [counts, bad, left] = useMemo(() => {
    const found = Object.fromEntries(labels.map((label) => [label, 0]));
    for (const { label } of rows) if (label !== undefined) found[label] = (found[label] ?? 0) + 1;
    return [found, rows.filter(({ reason }) => reason).length, rows.filter(isLeft).length];
  }, [rows, labels, tick]);
  const scored = rows.length - bad - left;
  const of = (count) => (scored > 0 ? `${grouped(count)} (${percent(count / scored)})` : "0");
  const item = (name, count) => html`<div><dt>${name}</dt><dd class="figure">${count}</dd></div>`;
  const leader = (name, label) => html`<button type="button" class="quiet" title="Show the rows: ${name}"
    onClick=${() => lead({ label })}>${name}</button>`;
  return html`<dl id="counts">
    ${Object.entries(counts).map(([label, count]) => item(leader(label, `=${label}`), of(count)))}
    ${bad > 0 && item(leader("bad rows", BAD), grouped(bad))}
    ${left > 0 && item("not scored", grouped(left))}</dl>`;
}

export const isLeft = ({ label, reason }) => label === undefined && !reason;

/** The probabilities of a label as bars; a probability of 1 falls in the last one. */
function Spread({ rows, labels, tick, label, onChoose }) {
  const counts = useMemo(() => {
    const found = new Array(BINS).fill(0);
    for (const { probabilities } of rows) {
      const share = probabilities?.[label];
      if (share !== undefined) found[Math.min(BINS - 1, Math.floor(share * BINS))] += 1;
    }
    return found;
  }, [rows, label, tick]);
  const all = counts.reduce((sum, count) => sum + count, 0);
  const most = Math.max(...counts, 1);
  const names = range(BINS).map((at) => `${(100 * at) / BINS} to ${(100 * (at + 1)) / BINS} %`);
  const what = `Probability of ${label}, of ${grouped(all)} sentences`;
  const fullest = `. Most, ${grouped(most)}, have ${names[counts.indexOf(most)]}.`;
  // Of a few rows a bar would be none.
  const style = (count) => ({ height: `${(100 * count) / most}%`, minHeight: count > 0 ? "2px" : "0" });
  return html`<div class="spread">
    <label>Probability of <select value=${label} onChange=${({ target }) => onChoose(target.value)}>
      ${labels.map((each) => html`<option value=${each}>${each}</option>`)}</select></label>
    <div id="spread" role="img" aria-label=${all > 0 ? what + fullest : what}>
      ${counts.map((count, at) => html`<span title="${names[at]}: ${grouped(count)}" style=${style(count)} />`)}</div>
    <div class="axis note" aria-hidden="true"><span>0 %</span>
      <span>highest bar: ${grouped(all > 0 ? most : 0)}</span><span>100 %</span></div>
    <details class="table"><summary>The bars as a table</summary>
      <div id="spread-table" class="scroll" tabindex="0" role="region" aria-label="Table of the bars"><table>
        <caption>${what}</caption>
        <thead><tr><th scope="col">probability</th><th scope="col">sentences</th></tr></thead>
        <tbody>${counts.map((count, at) => html`<tr><th scope="row">${names[at]}</th><td>${grouped(count)}</td></tr>`)}</tbody>
      </table></div></details></div>`;
}

/** How many verdicts agree with the file, and a table of both, which leads to their rows. */
function Agreement({ rows, labels, tick, column, meaning, lead }) {
  const both = useMemo(() => rows.filter((row) => row.expected !== undefined && row.label !== undefined), [rows, tick, meaning]);
  if (column === undefined || (meaning !== null && both.length === 0)) return null;
  const box = (content) => html`<div id="agreement" class="table" tabindex="0" role="region"
    aria-label="Comparison with the file">${content}</div>`;
  if (meaning === null) {
    return box(html`<p>Nothing is compared: “${column}” holds neither ${labels.join(", ")} nor numbers of a scale.</p>`);
  }
  const same = both.filter(({ label, expected }) => label === expected).length;
  const cell = (expected, label) => html`<td><button type="button" class="quiet"
    title="Show the rows that are ${expected} in the file, and ${label} by the verdict"
    onClick=${() => lead({ label: `=${label}`, agrees: `=${expected}` })}>
    ${grouped(both.filter((row) => row.expected === expected && row.label === label).length)}</button></td>`;
  return box(html`
    <p>The verdict agrees with “${column}” in ${grouped(same)} of ${grouped(both.length)}
      ${" "}(${percent(same / both.length)}). ${meaning.note}</p>
    <table><thead><tr><th scope="col">${column} ↓  verdict →</th>
      ${labels.map((label) => html`<th scope="col">${label}</th>`)}</tr></thead>
      <tbody>${labels.map((expected) => html`
        <tr><th scope="row">${expected}</th>${labels.map((label) => cell(expected, label))}</tr>`)}</tbody></table>`);
}
