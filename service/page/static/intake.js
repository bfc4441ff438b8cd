/**
 * Reads sentences from pasted lines and from files: CSV, TSV, JSON Lines, and plain lines. A row
 * that cannot be read stays among the rows, with the reason. Also writes CSV.
 */

import { grouped } from "./words.js";

const MOST_ROWS = 10_000;
const MOST_BYTES = 50_000_000;

const KINDS = { csv: "csv", tsv: "tsv", tab: "tsv", json: "json", jsonl: "json", ndjson: "json", txt: "lines" };
// Usual names of the column of texts, and of one that has labels or ratings.
const TEXTS = ["text", "sentence", "review", "review_text", "content", "comment", "message", "body", "tweet"];
const LABELS = ["label", "sentiment", "class", "category", "stars", "rating", "polarity"];
// The line of Excel that names the delimiter, and the beginning of an array of objects.
const SEPARATOR = /^"?sep=([^"\r\n])"?[ \t]*(?=[\r\n])/i;
const ARRAY = /^\s*\[\s*(?:[{\]]|$)/;
export const DELIMITERS = { ",": "comma", ";": "semicolon", "\t": "tab", "|": "bar" };

/** Says why nothing of a source can be read, and whether another encoding may help. */
export class SourceError extends Error {
  constructor(message, isEncoding = false) {
    super(message);
    this.isEncoding = isEncoding;
  }
}

// A source whose text column can still be chosen is { name, kind, records of {line, cells or value,
// reason}, columns' names (none where there is nothing to choose), column of the texts, column that is
// compared or -1, delimiter and text where it can be chosen, hasHeader }.

/** Reads pasted lines, each of them a sentence; empty ones are left out. */
export function readPasted(text) {
  return sheetOf("The text", "pasted", linesOf(text));
}

/** Reads a file, in UTF-8 or what its mark says if no encoding is named. */
export async function readFile(file, encoding = "") {
  const kind = KINDS[file.name.split(".").pop().toLowerCase()];
  if (kind === undefined || !file.name.includes(".")) {
    throw new SourceError(`${file.name} has no known ending: take a file that ends in .csv, .tsv, .jsonl, .ndjson or .txt.`);
  }
  if (file.size > MOST_BYTES) {
    const size = `${grouped(Math.ceil(file.size / 1e6))} MB`;
    const most = `at most ${grouped(MOST_BYTES / 1e6)} MB are read`;
    throw new SourceError(`${file.name} has ${size}, and ${most}: split it, or use headlight-score.`);
  }
  const text = decode(file.name, await file.arrayBuffer(), encoding);
  const [first] = text.split(/[\r\n]/, 1);
  const isTable = kind === "lines" && (first.includes("\t") || TEXTS.includes(folded(first)));
  return readContent(file.name, isTable ? "tsv" : kind, text);
}

function decode(name, buffer, encoding) {
  const [first, second] = new Uint8Array(buffer, 0, Math.min(2, buffer.byteLength));
  const marks = { "255,254": "utf-16le", "254,255": "utf-16be" };
  try {
    const text = new TextDecoder(encoding || (marks[`${first},${second}`] ?? "utf-8"), { fatal: true }).decode(buffer);
    if (!text.includes("\0")) return text;
  } catch {
    // The message below says it.
  }
  const advice = encoding ? "choose another file" : "save it as UTF-8, or read it as Windows-1252";
  throw new SourceError(`${name} is not text in ${encoding || "UTF-8"}: ${advice}.`, encoding === "");
}

export function readContent(name, kind, text) {
  if (kind === "csv") {
    const [line, delimiter] = SEPARATOR.exec(text) ?? [""];
    const rest = text.slice(line.length); // with its end, so that lines keep their numbers
    return readTable(name, rest, delimiter ?? delimiterOf(rest));
  }
  if (kind === "json" && ARRAY.test(text)) return sheetOf(name, kind, elementsOf(name, text));
  const lines = linesOf(text);
  // As for training and bulk scoring, a quote in TSV is text.
  if (kind === "tsv") {
    return sheetOf(name, kind, lines.map(({ value, ...line }) => ({ ...line, cells: value.split("\t") })));
  }
  return sheetOf(name, kind, kind === "json" ? lines.map(parsed) : lines);
}

/** Reads a table whose cells are divided by a character. */
export function readTable(name, text, delimiter) {
  return { ...sheetOf(name, "csv", readCsv(text, delimiter)), delimiter, text };
}

function linesOf(text) {
  return text
    .split(/\r\n|\r|\n/)
    .map((value, at) => ({ line: at + 1, value, reason: "" }))
    .filter(({ value }) => value.trim() !== "");
}

function elementsOf(name, text) {
  const { value, reason } = parsed({ line: 0, value: text });
  if (reason) throw new SourceError(`${name} is not a whole JSON array: write it again.`);
  return value.map((each, at) => ({ line: at + 1, value: each, reason: "" }));
}

function parsed({ line, value }) {
  try {
    return { line, value: JSON.parse(value), reason: "" };
  } catch {
    return { line, value: null, reason: "The line is not JSON." };
  }
}

function sheetOf(name, kind, records) {
  const sheet = { name, kind, records, columns: [], column: 0, compared: -1, hasHeader: false, delimiter: "", text: "" };
  if (kind === "json") {
    const objects = records.map(({ value }) => value).filter(isObject);
    sheet.columns = [...new Set(objects.flatMap(Object.keys))];
  } else if (["csv", "tsv"].includes(kind) && records.length > 0) {
    sheet.hasHeader = looksLikeHeader(records);
    if (sheet.hasHeader) dropEmptyColumns(records);
    nameColumns(sheet);
  }
  guessColumns(sheet);
  return sheet;
}

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const folded = (name) => name.trim().toLowerCase();

/** Leaves out the empty columns at the end that Excel writes. */
function dropEmptyColumns(records) {
  const isFilled = (cell) => cell.trim() !== "";
  const width = records[0].cells.findLastIndex(isFilled) + 1;
  for (const record of records) {
    if (!record.cells.slice(width).some(isFilled)) record.cells.length = Math.min(width, record.cells.length);
  }
}

/** Names the columns of a table by its header, or by their places. */
function nameColumns(sheet) {
  const [{ cells }] = sheet.records;
  sheet.columns = cells.map((cell, at) => (sheet.hasHeader && cell.trim()) || `column ${at + 1}`);
}

/** Says whether the first record of a table has the names, and guesses the column again. */
export function setHeader(sheet, hasHeader) {
  sheet.hasHeader = hasHeader;
  nameColumns(sheet);
  guessColumns(sheet);
}

function guessColumns(sheet) {
  sheet.column = guessColumn(sheet);
  const names = sheet.columns.map(folded);
  const known = LABELS.find((name) => names.includes(name) && names.indexOf(name) !== sheet.column);
  sheet.compared = known === undefined ? -1 : names.indexOf(known);
}

/** Whether a record has known names, or several short and different ones without a number. */
function looksLikeHeader([{ cells }]) {
  const names = cells.map(folded);
  if (names.some((name) => [...TEXTS, ...LABELS, "id"].includes(name))) return true;
  const isName = (name) => /^[\p{L}_][^.!?]{0,39}$/u.test(name) && name.split(/\s+/).length <= 3;
  return names.length > 1 && new Set(names).size === names.length && names.every(isName);
}

/** The column with a usual name, or else the one with the longest texts. */
function guessColumn(sheet) {
  const names = sheet.columns.map(folded);
  const known = TEXTS.find((name) => names.includes(name));
  if (known !== undefined) return names.indexOf(known);
  const some = bodyOf(sheet).slice(0, 100);
  const lengths = names.map((_, column) =>
    some.reduce((sum, record) => sum + String(cellOf(sheet, record, column) ?? "").length, 0),
  );
  return Math.max(0, lengths.indexOf(Math.max(...lengths)));
}

const bodyOf = ({ records, hasHeader }) => (hasHeader ? records.slice(1) : records);

/** The text at a column, or undefined if there is none. */
function cellOf({ kind, columns }, { cells, value }, column) {
  if (cells) return cells[column];
  if (kind !== "json") return value;
  const found = isObject(value) ? value[columns[column]] : value;
  return typeof found === "string" ? found : undefined;
}

/** What a record has in each column, as text; what is too much for its columns is in the last one. */
function cellsOf({ columns, delimiter }, { cells, value }) {
  if (cells) {
    const last = columns.length - 1;
    const some = cells.length > columns.length ? [...cells.slice(0, last), cells.slice(last).join(delimiter)] : cells;
    return columns.map((_, at) => some[at] ?? "");
  }
  if (columns.length === 0) return [typeof value === "string" ? value : JSON.stringify(value)];
  const all = isObject(value) ? columns.map((name) => value[name]) : [value];
  return columns.map((_, at) => {
    const cell = all[at] ?? "";
    return typeof cell === "string" ? cell : JSON.stringify(cell);
  });
}

/** The rows of a source; throws a SourceError if there are none or too many. */
export function rowsOf(sheet) {
  const { name } = sheet;
  const body = bodyOf(sheet);
  if (body.length === 0) {
    const advice = sheet.kind === "pasted" ? "type one sentence a line" : "choose one with sentences";
    throw new SourceError(`${name} has no rows: ${advice}.`);
  }
  if (body.length > MOST_ROWS) {
    const counts = `${name} has ${grouped(body.length)} rows, and at most ${grouped(MOST_ROWS)} are scored here`;
    throw new SourceError(`${counts}: split it, or use headlight-score.`);
  }
  const width = sheet.records[0].cells?.length;
  return body.map((record, at) => {
    const text = cellOf(sheet, record, sheet.column);
    const reason = record.reason || reasonOf(sheet, record, text, width);
    const cells = cellsOf(sheet, record);
    return { row: at + 1, line: record.line, text: text ?? "", reason, cells };
  });
}

/** Why a record has no text; empty if it has one. */
function reasonOf(sheet, { cells }, text, width) {
  if (cells && cells.length !== width) {
    const count = cells.length === 1 ? "1 cell" : `${cells.length} cells`;
    return `The row has ${count}, the first one has ${width}.`;
  }
  if (text === undefined) {
    const column = sheet.columns[sheet.column];
    return column === undefined ? "The line is no string." : `There is no string named “${column}”.`;
  }
  return text.trim() === "" ? "The text is blank." : "";
}

const BREAKS = /\r\n|\r|\n/g;
// Before what a spreadsheet takes for a formula, where it may begin a cell, and before an apostrophe
// there. The service's CSV also marks every blank behind a comma: that would spoil whole sentences.
const RISKY =
  /(?<=^|[;,|\t\r\n])(?='|[\0-\x20"\s]{0,100}[=+\-@\uff0b\uff0d\uff1d\uff20])|^(?=[\0-\x20"\s]*[=+\-@\uff0b\uff0d\uff1d\uff20])/g;
const NUMBER = /^[+-]?\d+(\.\d+)?$/; // which is no formula

/** Reads records; an empty line between them is none. */
export function readCsv(text, delimiter = ",", most = Infinity) {
  const records = [];
  const place = { text, at: 0, line: 1, plain: new RegExp(`[^${delimiter}\\r\\n]*`, "y") };
  while (place.at < text.length && records.length < most) {
    const begin = place.at;
    const record = { line: place.line, cells: [], reason: "" };
    do record.cells.push(readCell(place, record));
    while (text[place.at] === delimiter && (place.at += 1));
    const isEmpty = place.at === begin;
    place.at += text.startsWith("\r\n", place.at) ? 2 : 1;
    place.line += 1;
    if (!isEmpty) records.push(record);
  }
  return records;
}

/** Reads one cell and leaves the place at what follows it; notes an error in the record. */
function readCell(place, record) {
  const { text } = place;
  if (text[place.at] !== '"') return readPlain(place);
  const begin = place.at;
  let cell = "";
  let from = begin + 1;
  for (;;) {
    const end = text.indexOf('"', from);
    if (end < 0) {
      record.reason = "A quote is opened and never closed: the rest of the file cannot be read.";
      place.at = text.length;
      return text.slice(begin + 1);
    }
    cell += text.slice(from, end);
    from = end + 2;
    if (text[end + 1] !== '"') break;
    cell += '"';
  }
  place.at = from - 1;
  place.line += text.slice(begin, place.at).match(BREAKS)?.length ?? 0;
  if (readPlain(place) !== "") record.reason = "Text follows a closing quote.";
  return cell;
}

function readPlain(place) {
  place.plain.lastIndex = place.at;
  const [cell] = place.plain.exec(place.text);
  place.at += cell.length;
  return cell;
}

/** The character between the cells of a text: the one with most columns, of those that divide the first records alike. */
function delimiterOf(text) {
  const found = Object.keys(DELIMITERS).map((delimiter) => {
    const widths = readCsv(text, delimiter, 5).map(({ cells }) => cells.length);
    return { delimiter, count: widths[0] ?? 0, isEven: new Set(widths).size === 1 };
  });
  const likely = found.filter(({ count }) => count > 1).sort((one, other) => other.count - one.count);
  return (likely.find(({ isEven }) => isEven) ?? likely[0] ?? found[0]).delimiter;
}

/** Writes one record with its line end. An apostrophe keeps a spreadsheet from computing a text. */
export function writeRecord(cells, delimiter = ",") {
  const written = cells.map((cell) => {
    if (typeof cell !== "string" || NUMBER.test(cell)) return String(cell);
    const safe = cell.replace(RISKY, "'");
    const isQuoted = safe.includes(delimiter) || /["\r\n]/.test(safe);
    return isQuoted ? `"${safe.replaceAll('"', '""')}"` : safe;
  });
  return `${written.join(delimiter)}\r\n`;
}
