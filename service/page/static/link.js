/**
 * Writes a view as the fragment of a link, reads it back, and keeps it in the address. A fragment
 * never leaves the browser; it holds the texts only if the user wants that.
 */

import { byId } from "./elements.js";

const isNumber = (text) => /^\d{1,3}$/.test(text);

/** Reads a list of numbers; undefined if it is none. */
function numbersIn(text) {
  const parts = text.split(",");
  if (!parts.every(isNumber)) return undefined;
  return [...new Set(parts.map(Number))].sort((a, b) => a - b);
}

// How each kind of field is read, to undefined where it is wrong, and written.
const NUMBER = { read: (text) => (isNumber(text) ? Number(text) : undefined), write: String };
const NUMBERS = { read: numbersIn, write: String };
const LABELS = { read: (text) => (text === "" ? undefined : text.split(",")), write: String };
const SWITCH = {
  read: (text) => ({ on: true, off: false })[text],
  write: (isOn) => (isOn ? "on" : "off"),
};
const oneOf = (...choices) => ({
  read: (text) => choices.find((choice) => choice === text),
  write: String,
});

// The fields of a view: what they are before a link or the user changes them, and how a link has them.
const FIELDS = [
  { field: "labels", usual: null, form: LABELS },
  { field: "layer", usual: null, form: NUMBER },
  { field: "head", usual: null, form: NUMBER },
  { field: "layers", usual: null, form: NUMBERS },
  { field: "heads", usual: null, form: NUMBERS },
  { field: "reduce", usual: "none", form: oneOf("none", "mean", "max", "rollout") },
  { field: "level", usual: "token", form: oneOf("token", "word") },
  { field: "picture", name: "view", usual: "lines", form: oneOf("lines", "map", "both", "several") },
  { field: "overlay", usual: null, form: NUMBERS, when: ({ picture }) => picture === "several" },
  { field: "special", usual: true, form: SWITCH },
  { field: "compare", usual: false, form: SWITCH },
  { field: "importance", usual: false, form: SWITCH },
  { field: "whole", usual: false, form: SWITCH },
  { field: "window", usual: 0, form: NUMBER, when: ({ whole }) => whole },
];

export const TABS = ["text", "many", "heads"];

/**
 * The tab, the view and the texts in a fragment; missing or wrong fields have their usual values. A
 * link without a tab is of the time when there were only heads.
 */
export function readFragment(fragment) {
  const [first, ...rest] = fragment.replace(/^#/, "").split("&");
  const tab = first === "" ? "text" : (TABS.find((name) => name === first) ?? "heads");
  const link = new URLSearchParams([...(first === tab ? [] : [first]), ...rest].join("&"));
  const entries = FIELDS.map(({ field, name = field, usual, form }) => [
    field,
    form.read(link.get(name) ?? "") ?? usual,
  ]);
  const texts = link.has("text") ? [link.get("text"), link.get("text2")] : null;
  return { tab, view: Object.fromEntries(entries), texts };
}

export function writeFragment(view, texts = null) {
  const link = new URLSearchParams();
  for (const { field, name = field, usual, form, when = () => true } of FIELDS) {
    if (view[field] !== usual && when(view)) link.set(name, form.write(view[field]));
  }
  (texts ?? []).forEach((text, at) => link.set(at === 0 ? "text" : "text2", text));
  const written = link.toString().replaceAll("%2C", ",");
  return written ? `#heads&${written}` : "#heads";
}

const REST = 300; // milliseconds

export class Share {
  /** `current()` returns the view and the sentences that are shown. */
  constructor(current, announce) {
    this.current = current;
    byId("with-text").addEventListener("change", () => this.update());
    byId("link").addEventListener("focus", () => byId("link").select());
    byId("copy").addEventListener("click", async () => {
      await this.#copy();
      announce("Link copied.");
      byId("copy").textContent = "Copied";
      setTimeout(() => {
        byId("copy").textContent = "Copy link";
      }, 2000);
    });
  }

  /**
   * Writes the link, and the address with it, so that a reload changes nothing. The address
   * waits until the view rests: browsers refuse a hundred new addresses in a few seconds.
   */
  update() {
    const { view, sentences } = this.current();
    const fragment = writeFragment(view, byId("with-text").checked ? sentences : null);
    const address = new URL(window.location.href);
    address.search = "";
    address.hash = fragment;
    byId("link").value = address.href;
    this.drop();
    const before = window.location.href;
    this.waiting = setTimeout(() => {
      // The user may have typed another address whose event has not come yet.
      if (window.location.href === before) history.replaceState(history.state, "", address);
    }, REST);
  }

  /** Leaves the address as the user has just typed it. */
  drop() {
    clearTimeout(this.waiting);
  }

  async #copy() {
    try {
      await navigator.clipboard.writeText(byId("link").value);
    } catch {
      // Without TLS there is no clipboard for scripts.
      byId("link").select();
      document.execCommand("copy");
    }
  }
}
