/**
 * Reads and writes CSV as RFC 4180 has it: a cell with a comma, a quote or a line break stands
 * between quotes, and a quote within it is doubled.
 */

const BREAKS = /\r\n|\r|\n/g;
// Before what a spreadsheet takes for a formula, where it may begin a cell, and before an apostrophe
// there. The service's CSV also marks every blank behind a comma: that would spoil whole sentences.
const RISKY =
  /(?<=^|[;,|\t\r\n])(?='|[\0-\x20"\ufeff]{0,100}[=+\-@\uff0b\uff0d\uff1d\uff20])/g;

/**
 * Reads records; an empty line between them is none.
 * @param {string} text
 * @param {string} delimiter one character that stands between cells
 * @param {number} most how many records are read
 * @returns {{line: number, cells: string[], reason: string}[]} of each the number of its first line,
 *   from 1, and why it is not CSV; empty if it is
 */
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

/** Reads one cell and leaves the place at what follows it; notes a fault in the record. */
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

/** The character between the cells of a text: one that divides its first records alike. */
export function delimiterOf(text) {
  for (const delimiter of [",", ";", "\t"]) {
    const counts = readCsv(text, delimiter, 5).map(({ cells }) => cells.length);
    if (counts[0] > 1 && counts.every((count) => count === counts[0])) return delimiter;
  }
  return ",";
}

/**
 * Writes one record with its line end. An apostrophe keeps a spreadsheet from computing a text.
 * @param {(string|number|boolean)[]} cells numbers are written as they are
 */
export function writeRecord(cells) {
  const written = cells.map((cell) => {
    if (typeof cell !== "string") return String(cell);
    const safe = cell.replace(RISKY, "'");
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  });
  return `${written.join(",")}\r\n`;
}
