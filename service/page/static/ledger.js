/**
 * Shows many rows with their predictions: counts by label, a comparison with the labels of the file, bars
 * by another column, and a table that sorts and filters, one page at a time.
 */

import { Choice, classStyle, grouped, percent } from "./parts.js";
import { html, useLayoutEffect, useMemo } from "./preact.js";

const PAGE = 100;
const SHOWN = 300; // characters of a text; Open shows all
const [NAMED, CUT] = [3, 20]; // lines that are not compared, and characters of their values
const MOST_GROUPS = 60; // of a column whose bars can be shown
const [BAD, WARNED] = ["bad", "warned"]; // filters of rows; the filter of a label begins with "="
const AGREES = [["", "all"], ["no", "disagrees"], ["yes", "agrees"], ["none", "not compared"]];
const HEADS = [["row", "Row"], ["text", "Text"], ["label", "Label"], ["score", "Score"]];
const FOREIGN = "This does not look like English, which the model learned from: it may well be wrong here.";
const UNFILTERED = { label: "", agrees: "", group: "", text: "", page: 0 };

/** What is shown of a table that has just begun. */
export const WHOLE = { ...UNFILTERED, by: -1, columns: false, key: "row", isDown: false };

/** Those whose verdict is farthest from the label of the file come first. */
export const DISAGREEING = { key: "doubt", isDown: true };

const blank = ({ cells }, column) => cells[column].trim() === "";

/** The rows that are scored or bad, and fit a filter. */
function filtered(rows, { label, text, agrees, group }, nameOf) {
  const wanted = text.toLowerCase();
  const fits = {
    "": () => true,
    no: ({ expected, label: own }) => expected !== undefined && own !== expected,
    yes: ({ expected, label: own }) => expected !== undefined && own === expected,
    none: ({ expected }) => expected === undefined,
  }[agrees] ?? (({ expected }) => agrees === `=${expected}`);
  return rows.filter((row) => {
    const isBad = Boolean(row.reason);
    if (isLeft(row) || (agrees !== "" && (isBad || !fits(row)))) return false;
    if (label === WARNED ? !row.warnings?.length : label === BAD ? !isBad : label !== "" && label !== `=${row.label}`) return false;
    if (group !== "" && (isBad || group !== `=${nameOf(row)}`)) return false;
    return wanted === "" || row.text.toLowerCase().includes(wanted);
  });
}

const { compare } = new Intl.Collator("en", { numeric: true });

/** How far a verdict is from the label of the file; undefined where nothing is compared. */
const doubtOf = ({ label, expected, probabilities }) =>
  label && expected && probabilities[label] - (probabilities[expected] ?? 0);

/** Sorts rows by a key; equal ones keep the order of the source, those without a value and bad ones are last. */
function sorted(rows, key, isDown) {
  const valueOf = (row) => (row.reason ? undefined : key === "doubt" ? doubtOf(row) : row[key]);
  return [...rows].sort((one, other) => {
    const [a, b] = [valueOf(one), valueOf(other)];
    if (a === undefined || b === undefined) return Number(a === undefined) - Number(b === undefined) || one.row - other.row;
    const order = key === "text" ? compare(a, b) : Number(a > b) - Number(a < b);
    return (isDown ? -order : order) || one.row - other.row;
  });
}

/** The month of a date such as 2024-03-17 or 17.03.2024. */
function monthOf(value) {
  const [, year, month] = /^(\d{4})-(\d\d)\b/.exec(value) ?? [];
  const [, ofDay, ofYear] = /^\d\d?\.(\d\d?)\.(\d{4})\b/.exec(value) ?? [];
  return year ? `${year}-${month}` : ofYear && `${ofYear}-${ofDay.padStart(2, "0")}`;
}

/** Groups rows by a column, or by the months of its dates; null if they are one or too many. */
export function groupsOf(rows, column) {
  const good = rows.filter(({ reason }) => !reason);
  const isDated = good.every((row) => blank(row, column) || monthOf(row.cells[column].trim()));
  const nameOf = ({ cells }) => (isDated && monthOf(cells[column].trim())) || cells[column].trim();
  const counts = tally(good, nameOf);
  if (counts.size < 2 || counts.size > Math.min(MOST_GROUPS, good.length / 2)) return null;
  const isOrdered = [...counts.keys()].every((name) => name === "" || /\d/.test(name));
  const names = [...counts.keys()].sort((one, other) =>
    (isOrdered ? 0 : counts.get(other) - counts.get(one)) || compare(one, other));
  return { column, nameOf, names };
}

/**
 * All that a run leaves. `set` gets the fields of `view` that the user changes, `onOpen` a row, and
 * `onSave` the rows to save.
 */
export function Ledger({ rows, labels, sheet, meaning, view, tick, opened, set, onOpen, onSave, onAgain }) {
  const { key, isDown } = view;
  const { columns, column, compared } = sheet;
  const choices = useMemo(
    () => [...columns.keys()].filter((at) => at !== column).map((at) => groupsOf(rows, at)).filter(Boolean),
    [rows],
  );
  const by = choices.find((each) => each.column === view.by) ?? choices.find((each) => each.column !== compared) ?? null;
  const found = useMemo(() => sorted(filtered(rows, view, by?.nameOf), key, isDown), [rows, tick, view, compared]);
  const versions = useMemo(() => [...tally(rows, ({ model }) => model && `${model.name} ${model.version}`)], [rows, tick]);
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
    ${versions.length > 1 && html`<p id="many-versions" class="error">The model was replaced during the
      run: ${versions.map(([name, count]) => `${plural(count, "row")} by ${name}`).join(", ")}. ${" "}
      <button type="button" class="quiet" onClick=${onAgain}>Score again</button> to have all rows of one model.</p>`}
    <div class="summary">
      <${Counts} ...${{ rows, labels, tick, lead }} />
      <${Agreement} ...${{ rows, labels, tick, meaning, compared, lead }} name=${columns[compared]} />
      ${by && html`<${Groups} ...${{ rows, labels, tick, columns, choices, by, lead }}
        onChoose=${(at) => set({ by: at, group: "" })} />`}
    </div>
    <${Filters} ...${{ labels, view, set }} isCompared=${meaning !== null} isWide=${columns.length > 1} />
    <div class="row">
      <span id="range">${to >= from ? `Rows ${grouped(from)} to ${grouped(to)} of ${grouped(found.length)}` : "No rows"}${
        view.group && `, of “${view.group.slice(1)}”`}${key === "doubt" && !isFiltered && ", where the verdict disagrees first"}</span>
      ${isFiltered && html`<button type="button" class="quiet"
        onClick=${() => lead({ key: "row", isDown: false })}>Show all</button>`}
      <button type="button" class="quiet" aria-disabled=${page === 0} onClick=${() => turn(page - 1)}>Previous</button>
      <button type="button" class="quiet" aria-disabled=${page === pages - 1} onClick=${() => turn(page + 1)}>Next</button>
      <label>Page <input type="number" min="1" max=${pages} value=${page + 1}
        onChange=${({ target }) => turn(target.valueAsNumber - 1 || 0)} /> of ${grouped(pages)}</label>
      ${isFiltered && html`<button type="button" class="quiet" onClick=${() => onSave(found)}>Download these</button>`}
    </div>
    <${Table} ...${{ shown, labels, sheet, view, set, opened, onOpen }} />
  </div>`;
}

export const plural = (count, noun) => `${grouped(count)} ${noun}${count === 1 ? "" : "s"}`;

function Filters({ labels, view, set, isCompared, isWide }) {
  const filter = (name) => (value) => set({ [name]: value, page: 0 });
  const named = labels.map((label) => [`=${label}`, label]);
  const expected = labels.map((label) => [`=${label}`, `${label} in the file`]);
  return html`<form id="filters" class="row" aria-label="Which rows are shown" onSubmit=${(event) => event.preventDefault()}>
    <${Choice} label="Label" name="label" value=${view.label} onChoose=${filter("label")}
      choices=${[["", "all"], ...named, [WARNED, "not English"], [BAD, "unreadable rows"]]} />
    ${isCompared && html`<${Choice} label="Compared" name="agrees" value=${view.agrees} onChoose=${filter("agrees")}
      choices=${[...AGREES, ...expected]} />`}
    ${isWide && html`<label class="choice"><input type="checkbox" checked=${view.columns}
      onChange=${({ target }) => set({ columns: target.checked })} /> All columns</label>`}
    <label>Text contains <input type="search" name="text" autocomplete="off" value=${view.text}
      onInput=${({ target }) => filter("text")(target.value)} /></label>
  </form>`;
}

function Table({ shown, labels, sheet: { columns, column, compared }, view, set, opened, onOpen }) {
  // A row that moves would lose the focus.
  const { row: held } = /** @type {HTMLElement} */ (document.activeElement).dataset;
  useLayoutEffect(() => {
    if (held !== undefined) focusRow(held);
  });
  const { key, isDown } = view;
  const extra = [...columns.keys()].filter((at) => (view.columns && at !== column) || at === compared);
  const sort = (name) => set({ key: name, isDown: key === name ? !isDown : name === "doubt", page: 0 });
  const head = ([name, text, kind]) => html`
    <th scope="col" class=${kind} aria-sort=${name === key ? (isDown ? "descending" : "ascending") : null}>
      <button type="button" onClick=${() => sort(name)}>${text}</button></th>`;
  const line = (row) => {
    const { text, label, score, reason } = row;
    const style = reason ? null : classStyle(label, labels, score);
    return html`<tr key=${row.row} class=${row === opened ? "opened" : ""}>
      <td class="figure" title="line ${row.line}">${grouped(row.row)}</td>
      <td class="text"><span dir="auto">${text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text}</span></td>
      <td>${reason ? html`<span class="reason">unreadable: ${reason}</span>` : html`<span class="name" style=${style}>${label}</span>`}</td>
      <td class="figure" title=${reason ? null : score}>${reason ? "" : percent(score)}</td>
      <td class="marks">${row.truncated && html`<span>cut off</span>`}
        ${row.warnings?.length > 0 && html`<span class="foreign" title=${FOREIGN}>not English</span>`}</td>
      ${extra.map((at) => html`<td class="extra">${row.cells[at]}</td>`)}
      <td>${text.trim() !== "" && html`<button type="button" class="quiet" data-row=${row.row}
        aria-label="Open row ${row.row}" onClick=${() => onOpen(row)}>Open</button>`}</td>
    </tr>`;
  };
  return html`<div id="table-region" class="scroll" tabindex="0" role="region" aria-label="Table of sentences">
    <table id="rows">
      <caption class="unseen">Texts and what the model says of them</caption>
      <thead><tr>${HEADS.map(head)}<th scope="col">Marks</th>
        ${extra.map((at) => (at === compared ? head(["doubt", columns[at], "extra"]) : html`<th scope="col" class="extra">${columns[at]}</th>`))}<td /></tr></thead>
      <tbody>${shown.map(line)}</tbody>
    </table></div>`;
}

/** Focuses the button of a row, or the table if the row is not on its page. */
export function focusRow(number) {
  const button = document.querySelector(`#rows [data-row="${number}"]`);
  const element = /** @type {HTMLElement} */ (button ?? document.getElementById("table-region"));
  if (element !== document.activeElement) element?.focus();
}

const shareOf = (count, all) => `${grouped(count)} (${percent(count / all)})`;

/** Counts of the labels as one bar in their colours. */
function Stack({ counts, labels }) {
  const some = [...counts].filter(([, count]) => count > 0);
  const all = some.reduce((sum, [, count]) => sum + count, 0);
  const named = ([label, count]) => `${label} ${shareOf(count, all)}`;
  return html`<div class="stack" role="img" aria-label=${some.map(named).join(", ") || "none"}>
    ${some.map(([label, count]) => html`<span title=${named([label, count])}
      style=${{ ...classStyle(label, labels, 1), flexGrow: String(count) }}>
      ${count > all / 8 && `${Math.round((100 * count) / all)} %`}</span>`)}</div>`;
}

/** How many rows have each value, besides those that are named; a value may be undefined. */
function tally(rows, valueOf, names = []) {
  const counts = new Map(names.map((name) => [name, 0]));
  for (const value of rows.map(valueOf)) if (value !== undefined) counts.set(value, (counts.get(value) ?? 0) + 1);
  return counts;
}

const byLabel = (rows, labels) => tally(rows, ({ label }) => label, labels);

/** How many rows have each label, how many are marked or bad, and how many are left. */
function Counts({ rows, labels, tick, lead }) {
  const [counts, warned, bad, left] = useMemo(() => {
    const isWarned = ({ warnings }) => warnings?.length > 0;
    return [byLabel(rows, labels), ...[isWarned, ({ reason }) => reason, isLeft].map((is) => rows.filter(is).length)];
  }, [rows, labels, tick]);
  const scored = rows.length - bad - left;
  const item = (name, count) => html`<div><dt>${name}</dt><dd class="figure">${count}</dd></div>`;
  const leader = (name, label, style = null) => html`<button type="button" class="quiet" title="Show the rows: ${name}"
    style=${style} onClick=${() => lead({ label })}>${name}</button>`;
  return html`<div><${Stack} ...${{ counts, labels }} /><dl id="counts">
    ${[...counts].map(([label, count]) =>
      item(leader(label, `=${label}`, classStyle(label, labels, 1)), scored > 0 ? shareOf(count, scored) : "0"))}
    ${warned > 0 && item(leader("not English", WARNED), grouped(warned))}
    ${left > 0 && item("not scored", grouped(left))}
    ${bad > 0 && item(leader("unreadable rows", BAD), grouped(bad))}</dl>
    <p class="note">Shares of ${plural(scored, "scored row")}.</p></div>`;
}

export const isLeft = ({ label, reason }) => label === undefined && !reason;

/** A bar for each value of a column, or for each month, which leads to its rows. */
function Groups({ rows, labels, tick, columns, choices, by, lead, onChoose }) {
  const counts = useMemo(() => {
    const found = new Map(by.names.map((name) => [name, []]));
    for (const row of rows) if (row.label !== undefined) found.get(by.nameOf(row)).push(row);
    return [...found].map(([name, some]) => [name, some.length, byLabel(some, labels)]);
  }, [rows, labels, tick, by]);
  return html`<div class="by"><${Choice} label="By" value=${by.column} onChoose=${(at) => onChoose(Number(at))}
      choices=${choices.map(({ column }) => [column, columns[column]])} />
    <div id="groups" class="scroll" tabindex="0" role="region" aria-label="Verdicts by ${columns[by.column]}"><table>
      <tbody>${counts.map(([name, count, each]) => html`<tr>
        <th scope="row"><button type="button" class="quiet" onClick=${() => lead({ group: `=${name}` })}>${name || "(empty)"}</button></th>
        <td><${Stack} counts=${each} labels=${labels} /></td><td class="figure">${grouped(count)}</td></tr>`)}</tbody></table></div></div>`;
}

/** How many verdicts agree with the file, and a table of both, which leads to their rows. */
function Agreement({ rows, labels, tick, name, compared, meaning, lead }) {
  const [both, none, unread] = useMemo(() => {
    const other = rows.filter(({ expected, reason }) => compared >= 0 && expected === undefined && !reason);
    return [
      rows.filter(({ expected, label }) => expected !== undefined && label !== undefined),
      other.filter((row) => blank(row, compared)),
      other.filter((row) => !blank(row, compared)),
    ];
  }, [rows, tick, meaning, compared]);
  if (name === undefined || (meaning !== null && both.length === 0)) return null;
  const box = (content) => html`<div id="agreement" class="table" tabindex="0" role="region"
    aria-label="Comparison with the file">${content}</div>`;
  if (meaning === null) {
    return box(html`<p>Nothing is compared: “${name}” holds neither ${labels.join(", ")} nor numbers of a scale.</p>`);
  }
  const same = both.filter(({ label, expected }) => label === expected).length;
  const cell = (expected, label) => html`<td><button type="button" class="quiet"
    title="Show the rows that are ${expected} in the file, and ${label} by the verdict"
    onClick=${() => lead({ label: `=${label}`, agrees: `=${expected}` })}>
    ${grouped(both.filter((row) => row.expected === expected && row.label === label).length)}</button></td>`;
  const lines = unread.slice(0, NAMED).map(({ row, cells }) => `row ${grouped(row)} (“${cells[compared].slice(0, CUT)}”)`);
  if (unread.length > NAMED) lines.push(`${grouped(unread.length - NAMED)} more`);
  if (none.length > 0) lines.push(`${plural(none.length, "row")} without a value`);
  return box(html`
    <p>The verdict agrees with “${name}” in ${grouped(same)} of ${grouped(both.length)}
      ${" "}(${percent(same / both.length)}). ${meaning.note}</p>
    ${lines.length > 0 && html`<p id="unread">Not compared: ${lines.join(", ")}.
      ${" "}<button type="button" class="quiet" onClick=${() => lead({ agrees: "none" })}>Show them</button></p>`}
    <table><thead><tr><th scope="col">${name} ↓  verdict →</th>
      ${labels.map((label) => html`<th scope="col">${label}</th>`)}</tr></thead>
      <tbody>${labels.map((expected) => html`
        <tr><th scope="row">${expected}</th>${labels.map((label) => cell(expected, label))}</tr>`)}</tbody></table>`);
}
