/**
 * Scores many texts, pasted or from a file: the section's fields, the run with its progress,
 * and the table that it fills and saves.
 */

import { useKey, usedLabels } from "./api.js";
import { Batches } from "./batches.js";
import { expect, meaningOf, showAgreement } from "./compare.js";
import { byId, heading, make, options, table } from "./elements.js";
import { DELIMITERS, readFile, readPasted, readTable, rowsOf, setHeader, SourceError, writeRecord } from "./intake.js";
import { Ledger, Tally } from "./ledger.js";
import { offer } from "./save.js";
import { grouped } from "./words.js";

const PREVIEW = 4; // rows
const STEPS = 4; // times that the progress is announced
const plural = (count, noun) => `${grouped(count)} ${noun}${count === 1 ? "" : "s"}`;
const isLeft = ({ label, reason }) => label === undefined && !reason;

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

export class Many {
  /**
   * `describe(signal)` returns the model's description, `onOpen(text)` whether the answer to the
   * text is shown; the others are `announce(text)`, `onBegin()` and `onProblem(problem, retry)`.
   */
  constructor(events) {
    this.events = events;
    this.sheet = null; // of the chosen file
    this.rows = [];
    this.source = { name: "", columns: ["text"], column: 0, compared: -1, delimiter: "," }; // of the rows
    this.meaning = null; // of the column that is compared
    this.labels = [];
    this.run = null; // the controller of the run on its way
    this.ledger = new Ledger((row) => this.#open(row));
    this.tally = new Tally(this.ledger);
    this.#listen();
  }

  #listen() {
    const section = byId("many-tab");
    const file = byId("many-file");
    byId("many-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#score();
    });
    file.addEventListener("change", () => file.files.length > 0 && this.#choose(file.files[0]));
    byId("many-encoding").addEventListener("click", () => this.#choose(this.file, "windows-1252"));
    byId("many-lines-again").addEventListener("click", () => this.#forget());
    byId("many-column").addEventListener("change", ({ target }) => {
      this.#clear();
      this.sheet.column = target.selectedIndex;
      this.#describe();
    });
    byId("many-delimiter").addEventListener("change", ({ target }) => {
      this.#clear();
      const { name, text } = this.sheet;
      this.sheet = readTable(name, text, target.value);
      this.#describe();
    });
    byId("many-compared").addEventListener("change", ({ target }) => {
      this.sheet.compared = Number(target.value);
      this.#describe();
      this.#compare();
    });
    byId("many-header").addEventListener("change", ({ target }) => {
      this.#clear();
      setHeader(this.sheet, target.checked);
      this.#describe();
    });
    byId("many-stop").addEventListener("click", () => this.run?.abort());
    byId("many-on").addEventListener("click", () => this.#go());
    byId("many-save").addEventListener("click", () => this.#save(this.rows));
    byId("many-save-some").addEventListener("click", () => this.#save(this.ledger.found));
    byId("back").addEventListener("click", () => {
      this.events.onBack();
      this.ledger.focus(this.opened);
    });
    for (const name of ["dragenter", "dragover"]) {
      section.addEventListener(name, (event) => {
        if (!event.dataTransfer.types.includes("Files")) return;
        event.preventDefault();
        section.classList.add("dropping");
      });
    }
    for (const name of ["dragleave", "drop"]) {
      section.addEventListener(name, () => section.classList.remove("dropping"));
    }
    section.addEventListener("drop", (event) => {
      if (event.dataTransfer.files.length === 0) return;
      event.preventDefault();
      this.#choose(event.dataTransfer.files[0]);
    });
  }

  async #choose(file, encoding = "") {
    this.file = file;
    this.#note("");
    this.#clear();
    this.sheet = null;
    try {
      this.sheet = await readFile(file, encoding);
    } catch (error) {
      this.#forget();
      this.#showError(error);
      return;
    }
    this.#offer(true);
    byId("many-look").open = true;
    byId("many-name").textContent = file.name;
    this.#describe();
    this.events.announce(byId("many-note").textContent);
    byId("many-go").focus();
  }

  #forget() {
    const isFocused = byId("many-chosen").contains(document.activeElement);
    this.#clear();
    this.sheet = null;
    byId("many-file").value = "";
    this.#offer(false);
    this.#note("");
    if (isFocused) byId("many-lines").focus();
  }

  /** Ends the run and takes its table away, which is not of what is chosen now. */
  #clear() {
    this.run?.abort();
    this.run = null;
    this.rows = [];
    byId("many-state").textContent = "";
    for (const id of ["scored", "many-bar", "many-stop", "many-on"]) byId(id).hidden = true;
  }

  /** Offers what can be done with a file, or to type lines or choose one. */
  #offer(hasFile) {
    byId("many-typed").hidden = hasFile;
    byId("many-file-field").hidden = hasFile;
    byId("many-chosen").hidden = !hasFile;
  }

  /** Offers the columns of the chosen file, and says what it holds. */
  #describe() {
    const { kind, columns, column, compared, delimiter, hasHeader } = this.sheet;
    const select = byId("many-column");
    select.replaceChildren(...columns.map((name) => make("option", { textContent: name })));
    select.selectedIndex = column;
    byId("many-column-field").hidden = columns.length < 2;
    const none = make("option", { value: "-1", textContent: "nothing" });
    byId("many-compared").replaceChildren(none, ...options(columns));
    byId("many-compared").value = String(compared);
    byId("many-compared-field").hidden = columns.length < 2;
    byId("many-delimiter-field").hidden = delimiter === "";
    const marks = Object.entries(DELIMITERS).map(([value, textContent]) => make("option", { value, textContent }));
    byId("many-delimiter").replaceChildren(...marks);
    byId("many-delimiter").value = delimiter;
    byId("many-header").checked = hasHeader;
    byId("many-header-field").hidden = !["csv", "tsv"].includes(kind);
    try {
      const rows = rowsOf(this.sheet);
      this.#preview(rows);
      const bad = rows.filter(({ reason }) => reason);
      const first = bad.slice(0, 3).map(({ line, reason }) => `Line ${grouped(line)}: ${reason}`);
      const more = bad.length > first.length ? ` And ${grouped(bad.length - first.length)} more.` : "";
      const why = `, ${grouped(bad.length)} of them bad. ${first.join(" ")}${more}`;
      this.#note(`${plural(rows.length, "row")}${bad.length > 0 ? why : "."}`);
    } catch (error) {
      this.#showError(error);
    }
  }

  /** Shows the first rows, with what is taken for what. */
  #preview(rows) {
    const { columns, column, compared } = this.sheet;
    const kindOf = (at) => (at === column ? "text" : at === compared ? "compared" : "");
    const tops = (columns.length > 0 ? columns : ["text"]).map((name, at) => heading(name, "col", { className: kindOf(at) }));
    const lines = rows.slice(0, PREVIEW).map(({ row, cells }) => ({
      name: grouped(row),
      cells: cells.map((text, at) => make("span", { className: kindOf(at) }, text)),
    }));
    byId("many-preview").replaceChildren(table(null, [make("tr", {}, make("td"), ...tops)], lines));
  }

  #note(text, isError = false, isEncoding = false) {
    byId("many-encoding").hidden = !isEncoding;
    byId("many-note").textContent = text;
    byId("many-note").classList.toggle("error", isError);
  }

  #showError(error) {
    if (!(error instanceof SourceError) && !(error instanceof DOMException)) throw error;
    const text = error instanceof SourceError ? error.message : "The file cannot be read. Choose it again.";
    this.#note(text, true, error instanceof SourceError && error.isEncoding);
    this.events.announce(text);
  }

  #score() {
    try {
      const sheet = this.sheet ?? readPasted(byId("many-lines").value);
      this.rows = rowsOf(sheet);
      const { columns, column, delimiter } = sheet;
      this.source = { name: this.sheet ? sheet.name : "texts", columns, column, compared: -1, delimiter: delimiter || "," };
      if (columns.length === 0) this.source.columns = ["text"];
    } catch (error) {
      this.#showError(error);
      return;
    }
    if (!this.sheet) this.#note("");
    this.versions = new Map();
    this.labels = [];
    this.asked = usedLabels();
    byId("scored").hidden = true;
    byId("many-versions").hidden = true;
    this.#go();
  }

  async #go() {
    this.run?.abort();
    const run = new AbortController();
    this.run = run;
    this.events.onBegin();
    useKey(byId("key").value);
    this.#show(true);
    byId("many-look").open = false;
    this.events.announce(`Scoring ${plural(this.rows.length, "row")}.`);
    const said = { step: Math.floor(STEPS * this.#share()) };
    let end = "Done";
    try {
      const model = await this.events.describe(run.signal);
      if (this.labels.length === 0) this.#begin(this.asked ?? model.labels);
      const batches = new Batches(model.limits, this.asked, run.signal, {
        onAnswer: (rows, answered) => this.run === run && this.#took(rows, answered, said),
        onWait: (seconds) => this.#progress(` The service is busy: asking again in ${plural(seconds, "second")}.`),
      });
      await batches.run(this.rows.filter(isLeft));
    } catch (problem) {
      if (this.run !== run) return;
      end = "Stopped";
      if (!run.signal.aborted) this.events.onProblem(problem, () => this.#go());
    }
    if (this.run !== run) return;
    this.run = null;
    this.#show(false);
    this.#progress("", `${end}: `);
    if (end === "Done" || run.signal.aborted) this.events.announce(byId("many-state").textContent);
  }

  #begin(labels) {
    this.labels = labels;
    byId("scored").hidden = false;
    this.tally.begin(this.rows, labels);
    this.#compare();
  }

  /** Compares with the column that is chosen now; what is scored stays. */
  #compare() {
    if (this.rows.length === 0) return;
    const { columns } = this.source;
    const compared = this.sheet?.compared ?? -1;
    this.source.compared = compared;
    this.meaning = meaningOf(this.rows.map(({ cells }) => cells[compared] ?? ""), this.labels);
    expect(this.rows, this.meaning, compared);
    this.ledger.begin(this.rows, this.labels, this.source, this.meaning !== null);
    showAgreement(this.rows, this.labels, columns[compared], this.meaning, this.ledger);
  }

  #took(rows, model, said) {
    if (model !== null) {
      const name = `${model.name} ${model.version}`;
      const count = rows.filter(({ reason }) => !reason).length;
      this.versions.set(name, (this.versions.get(name) ?? 0) + count);
      this.#noteVersions();
      const other = rows.find(({ label, reason }) => !reason && !this.labels.includes(label));
      if (other) {
        // Another model has other classes: the table gets theirs too.
        this.#begin([...new Set([...this.labels, ...Object.keys(other.probabilities)])]);
      }
    }
    this.tally.update();
    const { columns, compared } = this.source;
    showAgreement(this.rows, this.labels, columns[compared], this.meaning, this.ledger);
    this.ledger.update();
    this.#progress("");
    const step = Math.floor(STEPS * this.#share());
    if (step > said.step && step < STEPS) this.events.announce(byId("many-state").textContent);
    said.step = step;
  }

  #noteVersions() {
    const parts = [...this.versions].map(([name, count]) => `${plural(count, "row")} by ${name}`);
    const note = byId("many-versions");
    note.hidden = parts.length < 2;
    note.textContent = `The model was replaced during the run: ${parts.join(", ")}. Score again to have all rows of one model.`;
  }

  #share() {
    return 1 - this.rows.filter(isLeft).length / this.rows.length;
  }

  #progress(more, begin = "") {
    const left = this.rows.filter(isLeft).length;
    const bad = this.rows.filter(({ reason }) => reason).length;
    const bar = byId("many-progress");
    bar.max = this.rows.length;
    bar.value = this.rows.length - left;
    const scored = this.rows.length - left - bad;
    const done = `${begin}${grouped(scored)} of ${plural(this.rows.length, "row")} scored`;
    byId("many-state").textContent = `${done}${bad > 0 ? `, ${grouped(bad)} bad` : ""}.${more}`;
  }

  /** Shows the controls of a run, or of what it left. */
  #show(isRunning) {
    const isFocused = [byId("many-stop"), byId("many-on")].includes(document.activeElement);
    byId("many-stop").hidden = !isRunning;
    byId("many-bar").hidden = false;
    byId("many-on").hidden = isRunning || !this.rows.some(isLeft);
    if (isRunning) this.#progress("");
    if (!isFocused) return;
    const next = [byId("many-stop"), byId("many-on"), byId("many-go")].find(({ hidden }) => !hidden);
    next.focus();
  }

  #save(rows) {
    const { name, columns, delimiter } = this.source;
    const file = `${name.replace(/\.[^.]*$/, "")}.scored.csv`;
    const mark = "\ufeff"; // without it, spreadsheets take UTF-8 for something else
    offer(new Blob([mark, ...csvOf(rows, columns, this.labels, delimiter)], { type: "text/csv" }), file);
    this.events.announce(`Saved ${plural(rows.length, "row")} as ${file}.`);
  }

  /** Shows a row in the views above, and a way back to it. */
  async #open(row) {
    this.opened = row;
    byId("back").hidden = true;
    if (!(await this.events.onOpen(row.text))) return;
    byId("back").textContent = `Back to row ${grouped(row.row)} of the table`;
    byId("back").hidden = false;
  }
}
