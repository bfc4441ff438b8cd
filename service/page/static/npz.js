/**
 * Reads and joins NPZ archives: ZIP files whose parts are NumPy arrays, none compressed.
 * Follows "APPNOTE.TXT - .ZIP File Format Specification" of PKWARE and `numpy.lib.format`.
 */

import { Problem } from "./api.js";
import { range } from "./elements.js";

const LOCAL = 0x04034b50;
const END = 0x06054b50;
const ENTRY = 0x02014b50;
const SIZED_ELSEWHERE = 0xffffffff;
const KINDS = { "<f4": Float32Array, "<i4": Int32Array, "<f8": Float64Array };
const decoder = new TextDecoder();
const encoder = new TextEncoder();

/** The arrays with numbers and the texts of an archive. */
export function readNpz(archive) {
  const view = new DataView(archive);
  const arrays = new Map();
  for (const [name, { start }] of entriesOf(archive, view)) {
    const array = readArray(archive, view, start);
    if (array !== null) arrays.set(name, array);
  }
  return arrays;
}

/** Joins archives of some layers, or of some heads of one layer, to one of all. */
export function joinNpz(archives, layers, heads) {
  const [first] = archives;
  const parts = archives.map((archive) => {
    const view = new DataView(archive);
    const { start, size } = entriesOf(archive, view).get("attention") ?? {};
    if (start === undefined) throw damaged();
    const { begin, kind, shape } = headerOf(archive, view, start);
    return { kind, shape, bytes: new Uint8Array(archive, begin, size - (begin - start)) };
  });
  const [{ kind, shape }] = parts;
  const maps = parts.reduce((sum, part) => sum + part.shape[0] * part.shape[1], 0);
  const whole = [layers.length, maps / layers.length, ...shape.slice(2)];
  const numbers = (list) => [header("<i4", [list.length]), new Uint8Array(Int32Array.from(list).buffer)];
  const replaced = {
    attention: [header(kind, whole), ...parts.map(({ bytes }) => bytes)],
    layers: numbers(layers),
    heads: numbers(heads),
  };
  const files = [...entriesOf(first, new DataView(first))].map(([name, { start, size }]) => ({
    name: `${name}.npy`,
    pieces: replaced[name] ?? [new Uint8Array(first, start, size)],
  }));
  return zip(files);
}

/** Where the files of an archive begin, and how many bytes they have. */
function entriesOf(archive, view) {
  const end = archive.byteLength - 22;
  if (end < 0 || view.getUint32(end, true) !== END) throw damaged();
  const entries = new Map();
  let at = view.getUint32(end + 16, true);
  for (let left = view.getUint16(end + 10, true); left > 0; left -= 1) {
    if (view.getUint32(at, true) !== ENTRY || view.getUint16(at + 10, true) !== 0) throw damaged();
    const size = view.getUint32(at + 24, true);
    const [named, extra, comment] = [28, 30, 32].map((place) => view.getUint16(at + place, true));
    const name = decoder.decode(new Uint8Array(archive, at + 46, named)).replace(/\.npy$/, "");
    const local = view.getUint32(at + 42, true);
    // Nothing that the page asks for has 4 GiB.
    if (local === SIZED_ELSEWHERE || size === SIZED_ELSEWHERE) throw damaged();
    const lengths = view.getUint16(local + 26, true) + view.getUint16(local + 28, true);
    entries.set(name, { start: local + 30 + lengths, size });
    at += 46 + named + extra + comment;
  }
  return entries;
}

/** The kind of numbers and the shape of an array, and where its numbers begin. */
function headerOf(archive, view, start) {
  const isLong = view.getUint8(start + 6) > 1;
  const from = start + (isLong ? 12 : 10);
  const size = isLong ? view.getUint32(start + 8, true) : view.getUint16(start + 8, true);
  const text = decoder.decode(new Uint8Array(archive, from, size));
  if (!text.includes("'fortran_order': False")) throw damaged();
  const kind = /'descr': '([^']*)'/.exec(text)?.[1] ?? "";
  const shape = (/'shape': \(([^)]*)\)/.exec(text)?.[1].match(/\d+/g) ?? []).map(Number);
  return { begin: from + size, kind, shape };
}

/** An array from its header on; null if it is of another kind. */
function readArray(archive, view, start) {
  const { begin: from, kind, shape } = headerOf(archive, view, start);
  const count = shape.reduce((product, length) => product * length, 1);
  if (kind in KINDS) {
    const Kind = KINDS[kind];
    // A copy: numbers need not begin where their type needs it.
    return { shape, values: new Kind(archive.slice(from, from + count * Kind.BYTES_PER_ELEMENT)) };
  }
  const width = Number(/^<U(\d+)$/.exec(kind)?.[1] ?? 0);
  if (width === 0) return null;
  const points = new Uint32Array(archive.slice(from, from + 4 * count * width));
  const values = range(count).map((item) => {
    const own = [...points.subarray(item * width, (item + 1) * width)];
    while (own.at(-1) === 0) own.pop();
    return own.map((point) => String.fromCodePoint(point)).join("");
  });
  return { shape, values };
}

function header(kind, shape) {
  const sizes = `${shape.join(", ")}${shape.length === 1 ? "," : ""}`;
  const text = `{'descr': '${kind}', 'fortran_order': False, 'shape': (${sizes}), }`;
  const room = 64 * Math.ceil((10 + text.length + 1) / 64) - 10;
  const mark = [0x93, ...encoder.encode("NUMPY"), 1, 0, room & 255, room >> 8];
  return Uint8Array.from([...mark, ...encoder.encode(`${text.padEnd(room - 1)}\n`)]);
}

function zip(files) {
  const [body, directory] = [[], []];
  let at = 0;
  let listed = 0;
  for (const { name, pieces } of files) {
    const spelled = encoder.encode(name);
    const size = pieces.reduce((sum, piece) => sum + piece.length, 0);
    const fields = [20, 0, 0, 0, 33, checksum(pieces), size, size, spelled.length, 0];
    const local = record([[LOCAL, 4], ...widths(fields)]);
    const entry = record([[ENTRY, 4], [20, 2], ...widths(fields), [0, 2], [0, 2], [0, 2], [0, 4], [at, 4]]);
    body.push(local, spelled, ...pieces);
    directory.push(entry, spelled);
    at += local.length + spelled.length + size;
    listed += entry.length + spelled.length;
  }
  const count = files.length;
  const end = record([[END, 4], [0, 2], [0, 2], [count, 2], [count, 2], [listed, 4], [at, 4], [0, 2]]);
  return [...body, ...directory, end];
}

/** The fields that a file has both before it and in the directory, with their widths. */
const widths = (fields) => fields.map((number, at) => [number, at >= 5 && at <= 7 ? 4 : 2]);

/** Numbers with their widths in bytes, the lowest byte first. */
const record = (numbers) =>
  Uint8Array.from(
    numbers.flatMap(([number, width]) => range(width).map((byte) => (number >>> (8 * byte)) & 255)),
  );

const shifted = (check) => (check & 1 ? (check >>> 1) ^ 0xedb88320 : check >>> 1);
const CHECKS = Uint32Array.from(range(256), (byte) => range(8).reduce(shifted, byte));

function checksum(pieces) {
  let check = 0xffffffff;
  for (const piece of pieces) for (const byte of piece) check = CHECKS[(check ^ byte) & 255] ^ (check >>> 8);
  return (check ^ 0xffffffff) >>> 0;
}

const damaged = () => new Problem("unknown", "The archive of the answer cannot be read.");
