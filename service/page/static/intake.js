/**
 * Reads sentences from pasted lines and from files: CSV, TSV, JSON Lines, and plain lines. A row
 * that cannot be read stays among the rows, with the reason. Also writes CSV.
 */

import { looksRated, meaningOf, USUAL } from "./compare.js";
import { grouped } from "./parts.js";

const MOST_ROWS = 10_000;
const MOST_BYTES = 50_000_000;
const SAMPLE = 200; // rows that a guess is made from
const MOST_NAME_WORDS = 5; // of the name of a column
const VALUE = /^[+-]?\d+([.,]\d+)?$/; // and no name

const KINDS = { csv: "csv", tsv: "tsv", tab: "tsv", json: "json", jsonl: "json", ndjson: "json", txt: "lines" };
// Usual names of the column of texts, and of one that has labels or ratings.
const TEXTS = ["text", "sentence", "review", "review_text", "content", "comment", "message", "body", "tweet"];
const LABELS = ["label", "sentiment", "class", "category", "stars", "rating", "polarity"];
// The line of Excel that names the delimiter, and the beginning of an array of objects.
const SEPARATOR = /^"?sep=([\t !#-~])"?[ \t]*(?=[\r\n])/i;
const ARRAY = /^\s*\[\s*(?:[{\]]|$)/;
const NONE = "\0"; // which no text has
export const DELIMITERS = { ",": "comma", ";": "semicolon", "\t": "tab", "|": "bar", [NONE]: "nothing: each line is a text" };

const WORKBOOKS = ["xlsx", "xls", "xlsm", "ods", "numbers"];
const NO_TEXT = /[\0-\x08\x0e-\x19\x1b-\x1f\x81\x8d\x8f\x90\x9d]/; // nothing of a text, in Windows-1252

/** Says why nothing of a source can be read. */
export class SourceError extends Error {}

// A source is { name, kind, records of {line, cells, reason}, columns' names, column of the texts, column
// that is compared or -1, isOfStars, delimiter where it can be chosen, text, hasHeader, isSure of it, and
// of a file isOld, in Windows-1252, and isDamaged }. Cells are strings, or other values of JSON.

/** Reads pasted lines, each of them a sentence; empty ones are left out. */
export function readPasted(text) {
  return { ...sheetOf("The text", "pasted", linesOf(text)), text };
}

/** Reads a file; its mark and its bytes show the encoding. */
export async function readFile(file) {
  const { name, size } = file;
  const ending = name.includes(".") ? name.split(".").pop().toLowerCase() : "";
  const kind = KINDS[ending];
  if (kind === undefined && !WORKBOOKS.includes(ending)) {
    throw new SourceError(`${name} has no known ending: take a file that ends in .csv, .tsv, .jsonl, .ndjson or .txt.`);
  }
  if (size > MOST_BYTES) {
    const most = `at most ${grouped(MOST_BYTES / 1e6)} MB are read`;
    throw new SourceError(`${name} has ${grouped(Math.ceil(size / 1e6))} MB, and ${most}: split it, or use headlight-score.`);
  }
  const bytes = new Uint8Array(await file.arrayBuffer());
  if (kind === undefined || (bytes[0] === 0x50 && bytes[1] === 0x4b)) {
    const advice = "in Excel, choose “Save as” and the type “CSV UTF-8”, and take that file";
    throw new SourceError(`${name} is a workbook: ${advice}. headlight-score reads .xlsx as it is.`);
  }
  const { text, ...how } = decode(name, bytes);
  const [first] = text.split(/[\r\n]/, 1);
  const isTable = kind === "lines" && (first.includes("\t") || TEXTS.includes(folded(first)));
  return { ...readContent(name, isTable ? "tsv" : kind, text), ...how };
}

/** Decodes a file. A damaged file has few bytes that are not UTF-8, a file of an old Excel many. */
function decode(name, bytes) {
  const [first, second] = bytes;
  const isLittle = second === 0 || (first === 0xff && second === 0xfe);
  const isBig = first === 0 || (first === 0xfe && second === 0xff);
  const read = (encoding, options = {}) => new TextDecoder(encoding, options).decode(bytes);
  let [text, isOld, isDamaged] = ["", false, false];
  try {
    text = isLittle || isBig ? read(isBig ? "utf-16be" : "utf-16le") : read("utf-8", { fatal: true });
  } catch {
    text = read("utf-8");
    isDamaged = text.match(/\ufffd/g).length <= (text.match(/[^\0-\x7f\ufffd]/g)?.length ?? 0);
    isOld = !isDamaged;
    if (isOld) text = read("windows-1252");
  }
  if (text.includes("\0") || (isOld && NO_TEXT.test(text))) {
    throw new SourceError(`${name} is not text: choose a file of text, such as CSV.`);
  }
  return { text, isOld, isDamaged };
}

export function readContent(name, kind, text) {
  if (kind === "csv") {
    const [line, delimiter] = SEPARATOR.exec(text) ?? [""];
    const rest = text.slice(line.length); // with its end, so that lines keep their numbers
    const sheet = readTable(name, rest, delimiter ?? delimiterOf(rest));
    const [first, ...others] = sheet.records;
    const unlike = others.filter(({ cells }) => cells.length !== first.cells.length).length;
    // Where most lines differ in their cells, the commas belong to texts.
    return delimiter || unlike <= others.length / 2 || hasKnownName(sheet.records) ? sheet : readTable(name, rest, NONE);
  }
  if (kind === "json" && ARRAY.test(text)) return sheetOf(name, kind, elementsOf(name, text));
  const lines = linesOf(text);
  if (kind === "json") return sheetOf(name, kind, lines.map(parsed));
  // As for training and bulk scoring, a quote in TSV is text.
  const records = lines.map((each) => ({ ...each, cells: each.cells[0].split("\t") }));
  return sheetOf(name, kind, kind === "tsv" ? records : lines);
}

/** Reads a table whose cells are divided by a character. */
export function readTable(name, text, delimiter) {
  return { ...sheetOf(name, "csv", readCsv(text, delimiter)), delimiter, text };
}

function linesOf(text) {
  return text
    .split(/\r\n|\r|\n/)
    .map((value, at) => ({ line: at + 1, cells: [value], reason: "" }))
    .filter(({ cells }) => cells[0].trim() !== "");
}

function elementsOf(name, text) {
  const { cells: [all], reason } = parsed({ line: 0, cells: [text] });
  if (reason) throw new SourceError(`${name} is not a whole JSON array: write it again.`);
  return all.map((each, at) => ({ line: at + 1, cells: [each], reason: "" }));
}

function parsed({ line, cells }) {
  try {
    return { line, cells: [JSON.parse(cells[0])], reason: "" };
  } catch {
    return { line, cells, reason: "The line is not JSON." };
  }
}

function sheetOf(name, kind, records) {
  const sheet = { name, kind, records, columns: ["text"], hasHeader: false, isSure: true, delimiter: "", text: "" };
  const objects = kind === "json" ? records.map(({ cells }) => cells[0]).filter(isObject) : [];
  if (objects.length > 0) {
    sheet.columns = [...new Set(objects.flatMap(Object.keys))];
    const valuesOf = (value) => (isObject(value) ? sheet.columns.map((column) => value[column]) : []);
    sheet.records = records.map((record) => (record.reason ? record : { ...record, cells: valuesOf(record.cells[0]) }));
  } else if (["csv", "tsv"].includes(kind) && records.length > 0) {
    sheet.isSure = hasKnownName(records);
    return withHeader(sheet, sheet.isSure || standsAboveNumbers(records) || !looksLikeRow(records));
  }
  return guessColumns(sheet);
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

/** The table whose first record has the names of the columns, or has not. */
export function withHeader(sheet, hasHeader) {
  if (hasHeader) dropEmptyColumns(sheet.records);
  const columns = sheet.records[0].cells.map((cell, at) => (hasHeader && cell.trim()) || `column ${at + 1}`);
  return guessColumns({ ...sheet, hasHeader, columns });
}

/** Chooses the column with a usual name, or else the one with the longest texts, and one that holds ratings. */
function guessColumns(sheet) {
  const names = sheet.columns.map(folded);
  const some = bodyOf(sheet).slice(0, SAMPLE);
  const valuesOf = (at) => some.map(({ cells }) => written(cells[at]));
  const lengths = names.map((_, at) => some.reduce((sum, { cells }) => sum + (textOf(cells[at])?.length ?? 0), 0));
  const known = TEXTS.find((name) => names.includes(name));
  const column = known === undefined ? Math.max(0, lengths.indexOf(Math.max(...lengths))) : names.indexOf(known);
  const others = [...names.keys()].filter((at) => at !== column);
  const rated = others.filter((at) => looksRated(names[at], valuesOf(at)));
  const usual = LABELS.map((name) => names.indexOf(name)).filter((at) => others.includes(at));
  const compared = usual.find((at) => rated.includes(at)) ?? rated[0] ?? usual[0] ?? -1;
  // A name above ratings is no rating itself.
  const isSure = sheet.isSure || (sheet.hasHeader && rated.length > 0);
  const isOfStars = compared >= 0 && Boolean(meaningOf(valuesOf(compared), USUAL, names[compared])?.note);
  return { ...sheet, column, compared, isSure, isOfStars };
}

const textOf = (cell) => (typeof cell === "string" ? cell : undefined);
const written = (cell) => textOf(cell) ?? JSON.stringify(cell ?? "").replace(/^""$/, "");

/** Whether the first record of a table has a name that is known for a column. */
const hasKnownName = ([{ cells }]) => cells.some((cell) => [...TEXTS, ...LABELS].includes(folded(cell)));

/** Whether the first record has a word where all below it are numbers, as the answers of a form have. */
function standsAboveNumbers([{ cells }, ...records]) {
  return cells.some((cell, at) => {
    const below = records.map((record) => record.cells[at]?.trim()).filter(Boolean);
    return !VALUE.test(cell.trim()) && below.length > 1 && below.every((value) => VALUE.test(value));
  });
}

/** Whether the first record is a row: it has a number, a text, or what comes again below it. */
function looksLikeRow([{ cells }, ...records]) {
  const words = cells.map((cell) => cell.trim().split(/\s+/).length);
  if (words.some((count) => count > (cells.length === 1 ? 1 : MOST_NAME_WORDS))) return true;
  if (cells.some((cell) => VALUE.test(cell.trim()))) return true;
  return records.slice(0, SAMPLE).some((below) => cells.some((cell, at) => cell.trim() && cell === below.cells[at]));
}

const bodyOf = ({ records, hasHeader }) => (hasHeader ? records.slice(1) : records);

/** What a record has in each column, as text; what is too much for its columns is in the last one. */
function cellsOf({ columns, delimiter }, { cells }) {
  const last = columns.length - 1;
  const rest = cells.slice(last).map(written).join(delimiter);
  return columns.map((_, at) => (at === last ? rest : written(cells[at])));
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
  const width = sheet.kind === "json" ? undefined : sheet.records[0].cells.length;
  return body.map((record, at) => {
    const text = record.reason && sheet.kind === "json" ? undefined : textOf(record.cells[sheet.column]);
    const reason = record.reason || reasonOf(sheet, record, text, width);
    return { row: at + 1, line: record.line, text: text ?? "", reason, cells: cellsOf(sheet, record) };
  });
}

/** Why a record has no text; empty if it has one. */
function reasonOf({ columns, column, isDamaged }, { cells }, text, width = cells.length) {
  if (cells.length !== width) {
    const count = cells.length === 1 ? "1 cell" : `${cells.length} cells`;
    return `The row has ${count}, the first one has ${width}.`;
  }
  if (text === undefined) return `There is no string named “${columns[column]}”.`;
  if (isDamaged && JSON.stringify(cells).includes("\ufffd")) return "The row has bytes that are not UTF-8.";
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
  const ends = delimiter.replace(/[\]\\^-]/, "\\$&");
  // A quoted part of a cell, with its closing quote, a plain part, and what ends the cell.
  const pattern = new RegExp(`(?:"([^"]*(?:""[^"]*)*)("?))?([^${ends}\\r\\n]*)([${ends}]|\\r\\n|\\r|\\n|$)`, "y");
  const records = [];
  let [record, line] = [null, 1];
  while ((pattern.lastIndex < text.length || record) && records.length < most) {
    const [cell, quoted, closing, plain, end] = pattern.exec(text);
    const isEmpty = record === null && cell === end && end !== delimiter;
    record ??= { line, cells: [], reason: "" };
    record.cells.push(quoted === undefined ? plain : quoted.replaceAll('""', '"'));
    if (quoted !== undefined && plain !== "") record.reason = "Text follows a closing quote.";
    if (closing === "") record.reason = "A quote is opened and never closed: the rest of the file cannot be read.";
    line += (quoted?.match(BREAKS)?.length ?? 0) + Number(end !== delimiter);
    if (end === delimiter) continue;
    if (!isEmpty) records.push(record);
    record = null;
  }
  return records;
}

/** The character between the cells of a text: the one with most columns, of those that divide the first records alike. */
function delimiterOf(text) {
  const likeness = (delimiter) => {
    const widths = readCsv(text, delimiter, 5).map(({ cells }) => cells.length);
    return widths[0] > 1 ? widths[0] + (new Set(widths).size === 1 ? text.length : 0) : 0;
  };
  return Object.keys(DELIMITERS).reduce((best, other) => (likeness(other) > likeness(best) ? other : best));
}

/** Writes one record with its line end. An apostrophe keeps a spreadsheet from computing a text. */
export function writeRecord(cells, delimiter = ",") {
  const parts = cells.map((cell) => {
    if (typeof cell !== "string" || NUMBER.test(cell)) return String(cell);
    const safe = cell.replace(RISKY, "'");
    const isQuoted = safe.includes(delimiter) || /["\r\n]/.test(safe);
    return isQuoted ? `"${safe.replaceAll('"', '""')}"` : safe;
  });
  return `${parts.join(delimiter)}\r\n`;
}
