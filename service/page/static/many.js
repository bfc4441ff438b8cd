/** Scores many texts, pasted or from a file: the fields, the run with its progress, and the table. */

import { Batches } from "./batches.js";
import { expect, meaningOf } from "./compare.js";
import { DELIMITERS, readFile, readPasted, readTable, rowsOf, setHeader, SourceError, writeRecord } from "./intake.js";
import { isLeft, Ledger, plural, WHOLE } from "./ledger.js";
import { byId, offer, ProblemAt } from "./parts.js";
import { html } from "./preact.js";
import { announce, change, describe, fail, settle, state } from "./store.js";
import { grouped } from "./words.js";

const PREVIEW = 4; // rows
const STEPS = 4; // times that the progress is announced
const SILENT = { text: "" };
const EMPTY = { run: null, rows: [], labels: [], ended: "", wait: "" };

state.many = {
  ...EMPTY, // the run, what it scores, and what it came to
  lines: "",
  file: null, // that was chosen
  sheet: null, // what it holds
  preview: [],
  isLooking: true, // at the first rows
  isDropping: false,
  note: SILENT,
  source: null, // of the rows
  compared: -1,
  meaning: null, // of the column that is compared
  versions: new Map(), // rows by model
  view: WHOLE,
  tick: 0, // grows with each answer: the rows themselves are filled in
  opened: null, // row
};

const set = (fields) => change("many", fields);

async function choose(file, encoding = "") {
  set({ ...EMPTY, file, sheet: null, note: SILENT });
  try {
    take(await readFile(file, encoding));
  } catch (error) {
    forget();
    complain(error);
    return;
  }
  set({ isLooking: true });
  announce(state.many.note.text);
  byId("many-go")?.focus();
}

function forget() {
  state.many.run?.abort();
  const isFocused = byId("many-chosen")?.contains(document.activeElement);
  set({ ...EMPTY, sheet: null, note: SILENT });
  if (isFocused) byId("many-lines").focus();
}

/** Takes a sheet as it is chosen now, says what it holds, and takes the table of another away. */
function take(sheet) {
  state.many.run?.abort();
  set({ ...EMPTY, sheet, preview: [] });
  try {
    const rows = rowsOf(sheet);
    const bad = rows.filter(({ reason }) => reason);
    const first = bad.slice(0, 3).map(({ line, reason }) => `Line ${grouped(line)}: ${reason}`);
    const more = bad.length > first.length ? ` And ${grouped(bad.length - first.length)} more.` : "";
    const why = bad.length > 0 ? `, ${grouped(bad.length)} of them bad. ${first.join(" ")}${more}` : ".";
    set({ preview: rows.slice(0, PREVIEW), note: { text: `${plural(rows.length, "row")}${why}` } });
  } catch (error) {
    complain(error);
  }
}

function complain(error) {
  if (!(error instanceof SourceError) && !(error instanceof DOMException)) throw error;
  const isOurs = error instanceof SourceError;
  const text = isOurs ? error.message : "The file cannot be read. Choose it again.";
  set({ note: { text, isError: true, isEncoding: isOurs && error.isEncoding } });
  announce(text);
}

function begin() {
  const { sheet, lines, note } = state.many;
  state.many.run?.abort();
  try {
    const read = sheet ?? readPasted(lines);
    const { columns, column, delimiter } = read;
    const rows = rowsOf(read);
    const source = {
      name: sheet ? sheet.name : "texts",
      columns: columns.length > 0 ? columns : ["text"],
      column,
      delimiter: delimiter || ",",
    };
    set({ ...EMPTY, rows, source, versions: new Map(), note: sheet ? note : SILENT });
  } catch (error) {
    complain(error);
    return;
  }
  go();
}

/** Scores the rows that are left. */
async function go() {
  const { rows } = state.many;
  const run = new AbortController();
  const isCurrent = () => state.many.run === run;
  settle();
  set({ run, ended: "", wait: "", isLooking: false });
  announce(`Scoring ${plural(rows.length, "row")}.`);
  const stepNow = () => Math.floor(STEPS * (1 - rows.filter(isLeft).length / rows.length));
  let step = stepNow();
  let ended = "Done";
  try {
    const model = await describe(run.signal);
    if (state.many.labels.length === 0) beginTable(model.labels);
    const batches = new Batches(model.limits, run.signal, {
      onAnswer(some, answered) {
        if (!isCurrent()) return;
        took(some, answered);
        if (stepNow() > step && stepNow() < STEPS) announce(progressOf(state.many));
        step = stepNow();
      },
      onWait: (seconds) => set({ wait: ` The service is busy: asking again in ${plural(seconds, "second")}.` }),
    });
    await batches.run(rows.filter(isLeft));
  } catch (problem) {
    if (!isCurrent()) return;
    ended = "Stopped";
    if (!run.signal.aborted) fail(problem, go, "many");
  }
  if (!isCurrent()) return;
  const isFocused = document.activeElement === byId("many-stop");
  set({ run: null, ended, wait: "" });
  if (isFocused && !byId("many-stop")) byId("many-go")?.focus();
  if (ended === "Done" || run.signal.aborted) announce(progressOf(state.many));
}

function beginTable(labels) {
  set({ labels, view: WHOLE });
  compare();
}

/** Compares with the column that is chosen now; what is scored stays. */
function compare() {
  const { rows, labels, sheet } = state.many;
  const compared = sheet?.compared ?? -1;
  const meaning = meaningOf(rows.map(({ cells }) => cells[compared] ?? ""), labels);
  expect(rows, meaning, compared);
  set({ compared, meaning, view: { ...WHOLE, spread: state.many.view.spread } });
}

function took(some, model) {
  const { labels, versions, tick } = state.many;
  if (model !== null) {
    const name = `${model.name} ${model.version}`;
    versions.set(name, (versions.get(name) ?? 0) + some.filter(({ reason }) => !reason).length);
    const other = some.find(({ label, reason }) => !reason && !labels.includes(label));
    // Another model has other classes: the table gets theirs too.
    if (other) beginTable([...new Set([...labels, ...Object.keys(other.probabilities)])]);
  }
  set({ tick: tick + 1, wait: "" });
}

function progressOf({ rows, ended, wait }) {
  const bad = rows.filter(({ reason }) => reason).length;
  const scored = rows.length - rows.filter(isLeft).length - bad;
  const done = `${ended && `${ended}: `}${grouped(scored)} of ${plural(rows.length, "row")} scored`;
  return `${done}${bad > 0 ? `, ${grouped(bad)} bad` : ""}.${wait}`;
}

/** The columns of the file, none of them with the name of one that is added. */
function renamed(columns, added) {
  const taken = new Set(added);
  return columns.map((column) => {
    let name = column;
    while (taken.has(name)) name = `input_${name}`;
    taken.add(name);
    return name;
  });
}

/** The rows with all their columns as CSV, and what the model says of each. */
function csvOf(rows, columns, labels, delimiter) {
  const shares = labels.map((label) => `probability_${label}`);
  const added = ["label", "score", ...shares, "token_count", "truncated", "model_version", "error"];
  const records = rows.map((row) => {
    const { cells, label, score, probabilities, tokens, truncated, version, reason } = row;
    const each = labels.map((name) => probabilities?.[name]);
    const own = [label, score, ...each, tokens, truncated, version, reason];
    return [...cells, ...own].map((cell) => cell ?? "");
  });
  return [[...renamed(columns, added), ...added], ...records].map((record) => writeRecord(record, delimiter));
}

function save(rows) {
  const { source: { name, columns, delimiter }, labels } = state.many;
  const file = `${name.replace(/\.[^.]*$/, "")}.scored.csv`;
  const mark = "\ufeff"; // without it, spreadsheets take UTF-8 for something else
  offer(new Blob([mark, ...csvOf(rows, columns, labels, delimiter)], { type: "text/csv" }), file);
  announce(`Saved ${plural(rows.length, "row")} as ${file}.`);
}

/** Takes a file that is dropped here; while one is dragged over the tab, it is outlined. */
function drag(event) {
  const { type, dataTransfer: { types, files } } = event;
  if (!types.includes("Files")) return;
  if (type !== "dragleave") event.preventDefault();
  set({ isDropping: ["dragenter", "dragover"].includes(type) });
  if (type === "drop" && files.length > 0) choose(files[0]);
}

const DROPS = { onDragEnter: drag, onDragOver: drag, onDragLeave: drag, onDrop: drag };

/** The tab; `onOpen` gets the row that the user wants to read as a text. */
export function Many({ many, onOpen }) {
  const { sheet, note, rows, labels, run, ended, view, isDropping } = many;
  const left = rows.filter(isLeft).length;
  const isBusy = run !== null || ended !== "";
  const submit = (event) => {
    event.preventDefault();
    begin();
  };
  return html`<section id="many-tab" aria-label="Many texts" class=${isDropping ? "dropping" : ""} ...${DROPS}>
    <form id="many-form" onSubmit=${submit}>
      <${Fields} lines=${many.lines} hidden=${sheet !== null} />
      ${sheet && html`<${Chosen} many=${many} />`}
      ${note.text && html`<p id="many-note" class=${note.isError ? "error" : ""}>${note.text}</p>`}
      ${note.isEncoding && html`<div><button type="button"
        onClick=${() => choose(many.file, "windows-1252")}>Read it as Windows-1252</button></div>`}
      <div class="row">
        <button class="primary" id="many-go">Score</button>
        ${(run || (isBusy && left > 0)) && html`<button type="button" id="many-stop"
          onClick=${run ? () => run.abort() : go}>${run ? "Stop" : "Go on"}</button>`}
        ${isBusy && html`<span id="many-bar" class="row">
          <progress aria-label="Rows that are done" max=${rows.length} value=${rows.length - left} />
          <span id="many-state">${progressOf(many)}</span></span>`}
      </div>
    </form>
    <${ProblemAt} place="many" />
    ${labels.length > 0 && html`<${Ledger} ...${many} set=${(fields) => set({ view: { ...view, ...fields } })}
      onSave=${save} onOpen=${(row) => {
        set({ opened: row });
        onOpen(row);
      }} />`}
  </section>`;
}

function pick({ target }) {
  if (target.files.length > 0) choose(target.files[0]);
  target.value = ""; // or the same file could not be chosen again
}

const Fields = ({ lines, hidden }) => html`
  <div id="many-typed" hidden=${hidden}>
    <label for="many-lines">One text a line</label>
    <textarea id="many-lines" rows="5" value=${lines} onInput=${({ target }) => set({ lines: target.value })}
      placeholder=${"The room was bright, and the staff kind.\nThe soup came cold."} />
  </div>
  <div id="many-file-field" class="row" hidden=${hidden}>
    <label for="many-file">Or a file</label>
    <input id="many-file" type="file" accept=".csv,.tsv,.tab,.json,.jsonl,.ndjson,.txt"
      onChange=${pick} />
    <span class="note">Choose it or drop it here: CSV, TSV, JSON Lines or plain lines, up to 10,000 rows.
      It goes to this service and nowhere else.</span>
  </div>`;

/** What is read of the chosen file, and how. */
function Chosen({ many: { sheet, preview, isLooking } }) {
  const { name, kind, columns, column, compared, delimiter, hasHeader, text } = sheet;
  const kindOf = (at) => (at === column ? "text" : at === compared ? "compared" : "");
  const tops = columns.length > 0 ? columns : ["text"];
  const options = columns.map((each, at) => html`<option value=${at}>${each}</option>`);
  const read = (hasNames) => {
    setHeader(sheet, hasNames);
    take({ ...sheet });
  };
  const compareWith = (at) => {
    set({ sheet: { ...sheet, compared: at } });
    if (state.many.labels.length > 0) compare();
  };
  return html`<div id="many-chosen" class="row">
    <strong>${name}</strong>
    ${columns.length > 1 && html`<label>Texts are in <select value=${column}
      onChange=${({ target }) => take({ ...sheet, column: Number(target.value) })}>${options}</select></label>`}
    ${["csv", "tsv"].includes(kind) && html`<label class="choice"><input type="checkbox" checked=${hasHeader}
      onChange=${({ target }) => read(target.checked)} /> The first row has names</label>`}
    ${delimiter && html`<label>Cells are divided by <select value=${delimiter}
      onChange=${({ target }) => take(readTable(name, text, target.value))}>
      ${Object.entries(DELIMITERS).map(([value, said]) => html`<option value=${value}>${said}</option>`)}</select></label>`}
    ${columns.length > 1 && html`<label>Compare with <select value=${compared}
      onChange=${({ target }) => compareWith(Number(target.value))}><option value="-1">nothing</option>${options}</select></label>`}
    <button type="button" class="quiet" onClick=${forget}>Remove the file</button>
    <details id="many-look" open=${isLooking} onToggle=${({ target }) => target.open !== isLooking && set({ isLooking: target.open })}>
      <summary>The first rows</summary>
      <div id="many-preview" class="table scroll" tabindex="0" role="region" aria-label="The first rows of the file"><table>
        <thead><tr><td />${tops.map((top, at) => html`<th scope="col" class=${kindOf(at)}>${top}</th>`)}</tr></thead>
        <tbody>${preview.map(({ row, cells }) => html`<tr><th scope="row">${grouped(row)}</th>
          ${cells.map((cell) => html`<td><span>${cell}</span></td>`)}</tr>`)}</tbody></table></div>
    </details>
  </div>`;
}
