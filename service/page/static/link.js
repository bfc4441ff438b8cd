/**
 * Writes a view as the fragment of a link, and reads it back. A fragment never leaves the browser;
 * it holds the texts only if the user wants that.
 */
/** Keeps the link to the view: in the address, in a field, and on the clipboard. */

import { byId } from "./elements.js";

const REDUCTIONS = ["none", "mean", "max", "rollout"];
const LEVELS = ["token", "word"];
const PICTURES = ["lines", "map", "both", "several"];

/** The view before a link or the user changes it. */
const DEFAULTS = Object.freeze({
  layer: null,
  head: null,
  layers: null,
  heads: null,
  reduce: "none",
  level: "token",
  picture: "lines",
  overlay: null,
  special: true,
  compare: false,
  importance: false,
  sentences: true,
  whole: false,
  window: 0,
  abstain: null,
});

const isNumber = (text) => /^\d{1,3}$/.test(text ?? "");
const isPercent = (text) => /^\d{1,3}(\.\d{1,6})?$/.test(text ?? "") && Number(text) <= 100;
const oneOf = (text, choices, fallback) => (choices.includes(text) ? text : fallback);

function numbers(text) {
  const parts = (text ?? "").split(",");
  if (!parts.every(isNumber)) return null;
  return [...new Set(parts.map(Number))].sort((a, b) => a - b);
}

/** The view and the texts in a fragment; missing or wrong fields get their defaults. */
export function readFragment(fragment) {
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  const number = (name) => (isNumber(given.get(name)) ? Number(given.get(name)) : null);
  const view = {
    layer: number("layer"),
    head: number("head"),
    layers: numbers(given.get("layers")),
    heads: numbers(given.get("heads")),
    reduce: oneOf(given.get("reduce"), REDUCTIONS, DEFAULTS.reduce),
    level: oneOf(given.get("level"), LEVELS, DEFAULTS.level),
    picture: oneOf(given.get("view"), PICTURES, DEFAULTS.picture),
    overlay: numbers(given.get("overlay")),
    special: given.get("special") !== "off",
    compare: given.get("compare") === "on",
    importance: given.get("importance") === "on",
    sentences: given.get("sentences") !== "off",
    whole: given.get("whole") === "on",
    window: number("window") ?? 0,
    abstain: isPercent(given.get("abstain")) ? Number(given.get("abstain")) : null,
  };
  return { view, texts: given.has("text") ? [given.get("text"), given.get("text2")] : null };
}

/**
 * The fragment that restores a view.
 * @param {?string[]} texts one sentence or two to take along, or null
 */
function writeFragment(view, texts) {
  const given = new URLSearchParams();
  for (const name of ["layer", "head"]) if (view[name] !== null) given.set(name, view[name]);
  for (const name of ["layers", "heads"]) if (view[name]) given.set(name, view[name].join(","));
  for (const name of ["reduce", "level"]) {
    if (view[name] !== DEFAULTS[name]) given.set(name, view[name]);
  }
  if (view.picture !== DEFAULTS.picture) given.set("view", view.picture);
  if (view.picture === "several" && view.overlay) given.set("overlay", view.overlay.join(","));
  if (!view.special) given.set("special", "off");
  if (view.compare) given.set("compare", "on");
  if (view.importance) given.set("importance", "on");
  if (!view.sentences) given.set("sentences", "off");
  if (view.whole) given.set("whole", "on");
  if (view.whole && view.window > 0) given.set("window", view.window);
  if (view.abstain !== null) given.set("abstain", view.abstain);
  (texts ?? []).forEach((text, place) => given.set(place === 0 ? "text" : "text2", text));
  const written = given.toString().replaceAll("%2C", ",");
  return written ? `#${written}` : "";
}

const REST = 300; // milliseconds

export class Share {
  /**
   * @param {function(): {view: object, sentences: string[]}} current gives the view and the sentences that are shown
   * @param {function(string): void} announce tells what was done
   */
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
   * Writes the link anew, and the address with it, so that a reload changes nothing. The address
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
