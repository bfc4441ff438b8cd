/**
 * Scores many sentences, pasted or from a file: the section's fields, the run with its progress, and
 * the table that it fills and saves.
 */

import { useKey } from "./api.js";
import { Batches } from "./batches.js";
import { byId, make } from "./elements.js";
import { readFile, readPasted, rowsOf, setHeader, SourceError, writeRecord } from "./intake.js";
import { Ledger, Tally } from "./ledger.js";
import { offer } from "./save.js";
import { grouped } from "./words.js";

const STEPS = 4; // times that the progress is announced
const plural = (count, noun) => `${grouped(count)} ${noun}${count === 1 ? "" : "s"}`;
const isLeft = ({ label, reason }) => label === undefined && !reason;

/** The table as CSV, with the columns of headlight-score; a bad row has its reason in `error`. */
function tableOf(rows, labels) {
  const shares = labels.map((label) => `probability_${label}`);
  const header = ["row", "line", "text", "label", "score", ...shares, "token_count", "truncated"];
  const records = rows.map((row) => [
    row.row,
    row.line,
    row.text,
    row.label ?? "",
    row.score ?? "",
    ...labels.map((label) => row.probabilities?.[label] ?? ""),
    row.tokens ?? "",
    row.truncated ?? "",
    row.version ?? "",
    row.reason,
  ]);
  return [[...header, "model_version", "error"], ...records].map(writeRecord);
}

export class Many {
  /**
   * @param {object} told what the section needs of the page: `describe(signal)` returns the model's
   *   description, `announce(text)`, `onBegin()`, `onProblem(problem, retry)`; `onOpen(text)` returns
   *   whether the answer to the text is shown
   */
  constructor(told) {
    this.told = told;
    this.sheet = null; // of the chosen file
    this.rows = [];
    this.labels = [];
    this.run = null; // the controller of the run on its way
    this.tally = new Tally();
    this.ledger = new Ledger((row) => this.#open(row));
    this.#listen();
  }

  #listen() {
    const section = byId("many");
    const file = byId("many-file");
    byId("many-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#score();
    });
    file.addEventListener("change", () => file.files.length > 0 && this.#choose(file.files[0]));
    byId("many-lines-again").addEventListener("click", () => this.#forget());
    byId("many-column").addEventListener("change", ({ target }) => {
      this.sheet.column = target.selectedIndex;
      this.#describe();
    });
    byId("many-header").addEventListener("change", ({ target }) => {
      setHeader(this.sheet, target.checked);
      this.#describe();
    });
    byId("many-stop").addEventListener("click", () => this.run?.abort());
    byId("many-on").addEventListener("click", () => this.#go());
    byId("many-save").addEventListener("click", () => this.#save());
    byId("back").addEventListener("click", () => this.ledger.focus(this.opened));
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
      section.setAttribute("open", "");
      this.#choose(event.dataTransfer.files[0]);
    });
  }

  /** Reads a file and shows what is in it. */
  async #choose(file) {
    this.sheet = null;
    try {
      this.sheet = await readFile(file);
    } catch (error) {
      this.#forget();
      this.#fault(error);
      return;
    }
    byId("many-typed").hidden = true;
    byId("many-chosen").hidden = false;
    byId("many-file-field").hidden = true;
    byId("many-name").textContent = file.name;
    this.#describe();
    this.told.announce(byId("many-told").textContent);
    byId("many-go").focus();
  }

  /** Goes back to pasted lines. */
  #forget() {
    const isFocused = byId("many-chosen").contains(document.activeElement);
    this.sheet = null;
    byId("many-file").value = "";
    byId("many-typed").hidden = false;
    byId("many-file-field").hidden = false;
    byId("many-chosen").hidden = true;
    this.#tell("");
    if (isFocused) byId("many-lines").focus();
  }

  /** Offers the columns of the chosen file, and tells what it holds. */
  #describe() {
    const { kind, columns, column, hasHeader } = this.sheet;
    const select = byId("many-column");
    select.replaceChildren(...columns.map((name) => make("option", { textContent: name })));
    select.selectedIndex = column;
    byId("many-column-field").hidden = columns.length < 2;
    byId("many-header").checked = hasHeader;
    byId("many-header-field").hidden = !["csv", "tsv"].includes(kind);
    try {
      const rows = rowsOf(this.sheet);
      const bad = rows.filter(({ reason }) => reason);
      const first = bad.slice(0, 3).map(({ line, reason }) => `Line ${grouped(line)}: ${reason}`);
      const more = bad.length > first.length ? ` And ${grouped(bad.length - first.length)} more.` : "";
      const told = bad.length > 0 ? `, ${grouped(bad.length)} of them bad. ${first.join(" ")}${more}` : ".";
      this.#tell(`${plural(rows.length, "row")}${told}`);
    } catch (error) {
      this.#fault(error);
    }
  }

  #tell(text, isFault = false) {
    byId("many-told").textContent = text;
    byId("many-told").classList.toggle("fault", isFault);
  }

  /** Says why a source cannot be read. */
  #fault(error) {
    if (!(error instanceof SourceError) && !(error instanceof DOMException)) throw error;
    const text = error instanceof SourceError ? error.message : "The file cannot be read. Choose it again.";
    this.#tell(text, true);
    this.told.announce(text);
  }

  /** Begins a run with the rows of the source. */
  #score() {
    try {
      this.rows = rowsOf(this.sheet ?? readPasted(byId("many-lines").value));
    } catch (error) {
      this.#fault(error);
      return;
    }
    if (!this.sheet) this.#tell("");
    this.versions = new Map();
    this.labels = [];
    byId("scored").hidden = true;
    byId("many-versions").hidden = true;
    this.#go();
  }

  /** Scores the rows that are left. */
  async #go() {
    this.run?.abort();
    const run = new AbortController();
    this.run = run;
    this.told.onBegin();
    useKey(byId("key").value);
    this.#show(true);
    this.told.announce(`Scoring ${plural(this.rows.length, "row")}.`);
    const said = { step: Math.floor(STEPS * this.#share()) };
    let end = "Done";
    try {
      const model = await this.told.describe(run.signal);
      if (this.labels.length === 0) this.#begin(model.labels);
      const batches = new Batches(model.limits, run.signal, {
        onAnswer: (rows, answered) => this.run === run && this.#took(rows, answered, said),
        onWait: (seconds) => this.#progress(` The service is busy: asking again in ${plural(seconds, "second")}.`),
      });
      await batches.run(this.rows.filter(isLeft));
    } catch (problem) {
      if (this.run !== run) return;
      end = "Stopped";
      if (!run.signal.aborted) this.told.onProblem(problem, () => this.#go());
    }
    if (this.run !== run) return;
    this.run = null;
    this.#show(false);
    this.#progress("", `${end}: `);
    if (end === "Done" || run.signal.aborted) this.told.announce(byId("many-state").textContent);
  }

  #begin(labels) {
    this.labels = labels;
    byId("scored").hidden = false;
    this.tally.begin(this.rows, labels);
    this.ledger.begin(this.rows, labels);
  }

  /** Shows what an answer brought. */
  #took(rows, model, said) {
    if (model !== null) {
      const name = `${model.name} ${model.version}`;
      const count = rows.filter(({ reason }) => !reason).length;
      this.versions.set(name, (this.versions.get(name) ?? 0) + count);
      this.#tellVersions();
      const other = rows.find(({ label, reason }) => !reason && !this.labels.includes(label));
      if (other) {
        // Another model has other classes: the table gets theirs too.
        this.#begin([...new Set([...this.labels, ...Object.keys(other.probabilities)])]);
      }
    }
    this.tally.update();
    this.ledger.update();
    this.#progress("");
    const step = Math.floor(STEPS * this.#share());
    if (step > said.step && step < STEPS) this.told.announce(byId("many-state").textContent);
    said.step = step;
  }

  #tellVersions() {
    const told = [...this.versions].map(([name, count]) => `${plural(count, "row")} by ${name}`);
    const note = byId("many-versions");
    note.hidden = told.length < 2;
    note.textContent = `The model was replaced during the run: ${told.join(", ")}. Score again to have all rows of one model.`;
  }

  #share() {
    return 1 - this.rows.filter(isLeft).length / this.rows.length;
  }

  /** Says how far the run is. */
  #progress(more, begin = "") {
    const left = this.rows.filter(isLeft).length;
    const bad = this.rows.filter(({ reason }) => reason).length;
    const bar = byId("many-progress");
    bar.max = this.rows.length;
    bar.value = this.rows.length - left;
    const scored = this.rows.length - left - bad;
    const told = `${begin}${grouped(scored)} of ${plural(this.rows.length, "row")} scored`;
    byId("many-state").textContent = `${told}${bad > 0 ? `, ${grouped(bad)} bad` : ""}.${more}`;
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

  #save() {
    const done = this.rows.filter((row) => !isLeft(row));
    offer(new Blob(tableOf(done, this.labels), { type: "text/csv" }), "headlight-sentences.csv");
    this.told.announce(`Saved ${plural(done.length, "row")}.`);
  }

  /** Shows a row in the views above, and a way back to it. */
  async #open(row) {
    this.opened = row;
    byId("back").hidden = true;
    if (!(await this.told.onOpen(row.text))) return;
    byId("back").textContent = `Back to row ${grouped(row.row)} of the table`;
    byId("back").hidden = false;
  }
}
