/** Scores the texts of a file, or pasted ones: what is read of it, the run with its progress, and the table. */

import { askAll } from "./batches.js";
import { meaningOf } from "./compare.js";
import * as intake from "./intake.js";
import { DISAGREEING, isLeft, Ledger, plural, WHOLE } from "./ledger.js";
import { byId, Choice, grouped, Latest, offer, ProblemAt } from "./parts.js";
import { html } from "./preact.js";
import { announce, change, describe, fail, settle, state } from "./store.js";

export { focusRow } from "./ledger.js";

const PREVIEW = 4; // rows
const STEPS = 4; // times that the progress is announced
const SILENT = { text: "" };
const EMPTY = { run: null, rows: [], labels: [], meaning: null, ended: "", wait: "", isKept: false };

state.many = {
  ...EMPTY, // the run, its rows, what they came to, how a column is compared, and whether all is downloaded
  lines: "",
  sheet: null, // the file, or the lines that are scored
  isChanging: false, // how the file is read
  isDropping: false,
  note: SILENT,
  view: WHOLE,
  tick: 0, // grows with each answer: the rows themselves are filled in
  opened: null, // row
};

const reading = new Latest(); // a file that was chosen later, or removed, is not taken any more
const set = (fields) => change("many", fields);

const isFile = (sheet) => sheet !== null && sheet.kind !== "pasted";
const isAtRisk = ({ rows, isKept }) => !isKept && rows.some(({ label }) => label !== undefined);

/** Asks before verdicts that are not downloaded are dropped; returns whether they may be. */
function mayGo() {
  const isFree = !isAtRisk(state.many) || window.confirm("The verdicts are not downloaded. Go on without them?");
  if (!isFree) set({}); // the control shows again what it showed before
  return isFree;
}

async function choose(file) {
  if (!mayGo()) return;
  forget();
  const signal = reading.begin();
  set({ note: { text: `Reading ${file.name} …` } });
  try {
    const sheet = await intake.readFile(file);
    if (signal.aborted) return;
    take(sheet);
    announce(state.many.note.text);
    if (state.many.rows.length > 0) byId("many-go")?.focus();
    else set({ sheet: null });
  } catch (error) {
    if (!signal.aborted) complain(error);
  }
}

function forget() {
  reading.stop();
  state.many.run?.abort();
  set({ ...EMPTY, sheet: null, note: SILENT, isChanging: false });
}

function remove() {
  if (!mayGo()) return;
  forget();
  byId("many-lines").focus();
}

/** Takes a sheet, says what it holds, and drops the table of the one before. */
function take(sheet) {
  reading.stop();
  state.many.run?.abort();
  set({ ...EMPTY, sheet });
  try {
    const rows = intake.rowsOf(sheet);
    const bad = rows.filter(({ reason }) => reason);
    const first = bad.slice(0, 3).map(({ row, line, reason }) => `Row ${grouped(row)} (line ${grouped(line)}): ${reason}`);
    const more = bad.length > first.length ? ` And ${grouped(bad.length - first.length)} more.` : "";
    const why = bad.length > 0 ? `, ${grouped(bad.length)} of them unreadable. ${first.join(" ")}${more}` : ".";
    const how = sheet.isOld ? " It is not UTF-8, and is read as Windows-1252." : "";
    set({ rows, note: isFile(sheet) ? { text: `${plural(rows.length, "row")}${why}${how}` } : SILENT });
  } catch (error) {
    complain(error);
  }
}

function complain(error) {
  if (!(error instanceof intake.SourceError) && !(error instanceof DOMException)) throw error;
  const text = error instanceof DOMException ? "The file cannot be read. Choose it again." : error.message;
  set({ note: { text, isError: true } });
  announce(text);
}

function begin() {
  if (!mayGo()) return;
  const { sheet, lines } = state.many;
  take(isFile(sheet) ? sheet : intake.readPasted(lines));
  if (state.many.rows.length > 0) go();
}

/** Scores the rows that are left. */
async function go() {
  const { rows } = state.many;
  const run = new AbortController();
  const isCurrent = () => state.many.run === run;
  settle();
  set({ run, ended: "", wait: "", isChanging: false });
  announce(`Scoring ${plural(rows.length, "row")}.`);
  const stepNow = () => Math.floor(STEPS * (1 - rows.filter(isLeft).length / rows.length));
  let step = stepNow();
  let ended = "Done";
  try {
    const model = await describe(run.signal);
    if (state.many.labels.length === 0) beginTable(model.labels);
    await askAll(rows.filter(isLeft), model.limits, run.signal, {
      onAnswer(some) {
        if (!isCurrent()) return;
        const { labels, tick } = state.many;
        const other = some.find(({ label, reason }) => !reason && !labels.includes(label));
        // Another model has other classes: the table gets theirs too.
        if (other) beginTable([...new Set([...labels, ...Object.keys(other.probabilities)])]);
        set({ tick: tick + 1, wait: "", isKept: false });
        if (stepNow() > step && stepNow() < STEPS) announce(progressOf(state.many));
        step = stepNow();
      },
      onWait: (why) => set({ wait: ` ${why}` }),
    });
  } catch (problem) {
    if (!isCurrent()) return;
    ended = "Stopped";
    if (!run.signal.aborted) fail(problem, go, "many");
  }
  if (!isCurrent()) return;
  set({ run: null, ended, wait: "" });
  if (ended === "Done" || run.signal.aborted) announce(progressOf(state.many));
}

/** Begins a table of labels, with the comparison that is chosen now; what is scored stays. */
function beginTable(labels) {
  const { rows, view, sheet: { columns, compared } } = state.many;
  const meaning = meaningOf(rows.map(({ cells }) => cells[compared] ?? ""), labels, columns[compared]);
  for (const row of rows) row.expected = meaning?.labelOf(row.cells[compared] ?? "") ?? undefined;
  set({ labels, meaning, view: { ...WHOLE, by: view.by, ...(meaning ? DISAGREEING : {}) } });
}

function progressOf({ rows, ended, wait }) {
  const bad = rows.filter(({ reason }) => reason).length;
  const scored = rows.length - rows.filter(isLeft).length - bad;
  const done = `${ended && `${ended}: `}${grouped(scored)} of ${plural(rows.length, "row")} scored`;
  return `${done}${bad > 0 ? `, ${grouped(bad)} unreadable` : ""}.${wait}`;
}

/** Saves rows with all columns of the file as CSV, and what the model says of each. */
function save(some) {
  const { rows, labels, sheet: { name, kind, columns, delimiter } } = state.many;
  const shares = labels.map((label) => `probability_${label}`);
  const added = ["label", "score", ...shares, "token_count", "truncated", "warnings", "model_version", "error"];
  const names = [...added]; // a column of the file with such a name is renamed
  for (const column of columns) names.push(names.includes(column) ? `input_${column}` : column);
  const records = some.map(({ cells, label, score, probabilities, tokens, truncated, warnings, model, reason }) => {
    const each = labels.map((own) => probabilities?.[own]);
    return [...cells, label, score, ...each, tokens, truncated, warnings?.join(" "), model?.version, reason];
  });
  const all = [[...names.slice(added.length), ...added], ...records];
  const lines = all.map((record) => intake.writeRecord(record.map((cell) => cell ?? ""), delimiter || ","));
  const file = `${kind === "pasted" ? "texts" : name.replace(/\.[^.]*$/, "")}${some === rows ? "" : ".some"}.scored.csv`;
  const mark = "\ufeff"; // without it, spreadsheets take UTF-8 for something else
  offer(new Blob([mark, ...lines], { type: "text/csv" }), file);
  if (some === rows) set({ isKept: true });
  announce(`Saved ${plural(some.length, "row")} as ${file}.`);
}

/** Takes a file that is dropped on the page; while one is dragged over it, the tab is outlined. */
function drag(event) {
  const { type, dataTransfer } = event;
  if (!byId("many-tab") || !dataTransfer?.types.includes("Files")) return;
  if (type !== "dragleave") event.preventDefault();
  set({ isDropping: ["dragenter", "dragover"].includes(type) });
  if (type === "drop" && dataTransfer.files.length > 0) choose(dataTransfer.files[0]);
}

for (const type of ["dragenter", "dragover", "dragleave", "drop"]) window.addEventListener(type, drag);
window.addEventListener("beforeunload", (event) => isAtRisk(state.many) && event.preventDefault());

/** The one button: what it does now, and its name. */
function actionOf({ rows, lines, sheet, run, ended }) {
  if (run) return { name: "Stop", act: () => run.abort() };
  if (ended === "" || (!isFile(sheet) && lines !== sheet.text)) return { name: "Score", act: begin };
  return rows.some(isLeft) ? { name: "Go on", act: go } : { name: "Download CSV", act: () => save(rows) };
}

/** The tab; `onOpen` gets the row that the user wants to read as a text. */
export function Many({ many, onOpen }) {
  const { sheet, note, rows, labels, run, ended, view, isDropping } = many;
  const left = rows.filter(isLeft).length;
  const { act, name } = actionOf(many);
  return html`<section id="many-tab" aria-label="Many texts" class=${isDropping ? "dropping" : ""}>
    <form id="many-form" onSubmit=${(event) => event.preventDefault()}>
      <${Fields} lines=${many.lines} hidden=${isFile(sheet)} />
      ${isFile(sheet) && html`<${Chosen} many=${many} />`}
      ${note.text && html`<p id="many-note" class=${note.isError ? "error" : ""}>${note.text}</p>`}
      <div class="row">
        <button type="button" class="primary" id="many-go"
          onClick=${({ detail }) => detail < 2 && act()}>${name}</button>
        ${(run || ended) && html`<span id="many-bar" class="row">
          <progress aria-label="Rows that are done" max=${rows.length} value=${rows.length - left} />
          <span id="many-state">${progressOf(many)}</span></span>`}
        ${name !== "Download CSV" && labels.length > 0 && html`<button type="button" class="quiet"
          onClick=${() => save(rows)}>Download CSV</button>`}
      </div>
    </form>
    <${ProblemAt} place="many" />
    ${labels.length > 0 && html`<${Ledger} ...${many} set=${(fields) => set({ view: { ...view, ...fields } })}
      onSave=${save} onAgain=${begin} onOpen=${(row) => {
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
  <div id="many-file-field" hidden=${hidden}>
    <label for="many-file">Choose a file, or drop it anywhere here</label>
    <input id="many-file" type="file" accept=".csv,.tsv,.tab,.json,.jsonl,.ndjson,.txt,.xlsx" onChange=${pick} />
    <p class="note">CSV, TSV, JSON Lines or plain lines, up to 10,000 rows. It goes to this service and nowhere
      else. Each row gets a verdict; a column of stars or labels is compared with them.</p>
  </div>
  <div id="many-typed" hidden=${hidden}>
    <label for="many-lines">Or paste texts, one a line</label>
    <textarea id="many-lines" rows="5" value=${lines} onInput=${({ target }) => set({ lines: target.value })}
      placeholder=${"The room was bright, and the staff kind.\nThe soup came cold."} />
  </div>`;

/** What is read of the chosen file, and how. */
function Chosen({ many: { sheet, isChanging, rows, labels } }) {
  const { name, kind, columns, column, compared, delimiter, hasHeader, isSure, text } = sheet;
  const isTable = ["csv", "tsv"].includes(kind);
  const kindOf = (at) => (at === column ? " (text)" : at === compared ? " (compared)" : "");
  const retake = (fields) => mayGo() && take({ ...sheet, ...fields });
  const compareWith = (at) => {
    set({ sheet: { ...sheet, compared: at, isOfStars: false } });
    if (labels.length > 0) beginTable(labels);
  };
  const choice = (label, value, choices, onChoose) => html`<${Choice} ...${{ label, value, choices, onChoose }} />`;
  const named = [...columns.entries()];
  const dividers = Object.entries({ [delimiter]: delimiter, ...intake.DELIMITERS });
  return html`<div id="many-chosen">
    <div class="row"><strong>${name}</strong>
      <span id="many-guess">Texts: <strong>${kind === "lines" ? "each line" : columns[column]}</strong>.${" "}
        ${columns.length > 1 && html`${sheet.isOfStars ? "Stars" : "Compared with"}: <strong>${columns[compared] ?? "nothing"}</strong>.`}</span>
      <button type="button" class="quiet" aria-expanded=${isChanging} aria-controls="many-how"
        onClick=${() => set({ isChanging: !isChanging })}>Change</button>
      <button type="button" class="quiet" onClick=${remove}>Remove the file</button></div>
    ${isTable && sheet.records.length > 0 && (isChanging || !(isSure && hasHeader)) && html`<p id="many-header">${hasHeader
      ? "The first line is read as the names of the columns. "
      : "The first line is read as a row, not as names of columns. "}
      <button type="button" class="quiet" onClick=${() => mayGo() && take(intake.withHeader(sheet, !hasHeader))}>${hasHeader ? "It is a row" : "It has the names"}</button></p>`}
    <div id="many-how" class="row" hidden=${!isChanging}>
      ${columns.length > 1 && choice("Texts are in", column, named, (at) => retake({ column: Number(at) }))}
      ${columns.length > 1 && choice("Compare with", compared, [[-1, "nothing"], ...named], (at) => compareWith(Number(at)))}
      ${delimiter && choice("Cells are divided by", delimiter, dividers, (each) => retake(intake.readTable(name, text, each)))}
    </div>
    ${(isChanging || labels.length === 0) && html`<div id="many-preview" class="table scroll" tabindex="0" role="region"
      aria-label="The first rows of the file"><table>
      <thead><tr><td />${columns.map((top, at) => html`<th scope="col">${top}${kindOf(at)}</th>`)}</tr></thead>
      <tbody>${rows.slice(0, PREVIEW).map(({ row, cells }) => html`<tr><th scope="row">${grouped(row)}</th>
        ${cells.map((cell) => html`<td><span>${cell}</span></td>`)}</tr>`)}</tbody></table></div>`}
  </div>`;
}
