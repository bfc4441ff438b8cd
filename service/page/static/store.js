/**
 * Holds what the page shows, in one place, and keeps it in addresses and in the history. Each change
 * draws the page again; Preact then touches only what differs.
 */

import { get, isSameModel } from "./api.js";
import { html, render } from "./preact.js";

const ABOUT_KEYS = ["unauthorized", "key-refused", "key-unsendable"];

/** @type {Record<string, any>} the state of each part of the page; the other parts add theirs */
export const state = {
  page: {
    tab: "",
    text: "The plot drags, but the cast is superb.", // that is typed
    status: "", // what a screen reader hears
    needsKey: false,
    model: null, // its description
    problem: null, // { problem, retry, place, origin }
    back: null, // number of the row that was opened as a text
    layout: 0, // grows with each other size of the window
  },
};

let draw = () => {};

/** Draws a component into an element, now and after each change. */
export function show(component, element) {
  draw = () => render(html`<${component} ...${state} />`, element);
  draw();
}

/** Changes fields of a part of the state. */
export function change(part, fields) {
  state[part] = { ...state[part], ...fields };
  draw();
}

/** Tells a screen reader. */
export const announce = (status) => change("page", { status });

/** Shows what went wrong at a place of the page; `retry` is null where nothing can be tried again. */
export function fail(problem, retry, place = "ask") {
  const isOfKey = ABOUT_KEYS.includes(problem.type);
  const shown = { problem, retry, place: isOfKey ? "ask" : place, origin: document.activeElement };
  change("page", { problem: shown, needsKey: isOfKey || state.page.needsKey });
  if (isOfKey) document.getElementById("key").focus();
}

/** Takes the problem away. */
export const settle = () => change("page", { problem: null });

/** The description of the model, asked for if it is not known. */
export const describe = async (signal) => state.page.model ?? learn(signal);

/** Asks for the description of the model; returns it. */
export async function learn(signal) {
  const model = await get("/model", signal);
  if (state.page.model === null || !isSameModel(model, state.page.model)) change("page", { model });
  return model;
}

/**
 * Keeps the text in the history of this tab, for Back, Forward and a reload. It
 * does not leave the browser.
 */
export function remember(isNew, address = "") {
  const { page, reading, heads } = state;
  const kept = { text: page.tab === "review" ? page.text : reading.text, ofHeads: heads?.shown?.text ?? null };
  if (isNew) history.pushState(kept, "", address);
  else history.replaceState(kept, "");
}

const numberOf = (text) => (/^\d{1,3}$/.test(text) ? Number(text) : undefined);
// The fields of a view: what they are before a link or the user changes them, and what a link may say.
const FIELDS = {
  layer: { usual: null, read: numberOf },
  head: { usual: null, read: numberOf },
  level: { usual: "token", read: (text) => (text === "word" ? text : undefined) },
  special: { usual: true, read: (text) => (text === "off" ? false : undefined) },
};

/** The tabs, with what links called them earlier. */
const TABS = { review: "text", file: "many", model: "heads" };

/**
 * The tab, the view and the text in a fragment, which never leaves the browser; missing or wrong
 * fields have their usual values. A link without a tab leads to the heads: once there was nothing else.
 */
export function readFragment(fragment) {
  const [first, ...rest] = fragment.replace(/^#/, "").split("&");
  const named = Object.keys(TABS).find((name) => [name, TABS[name]].includes(first));
  const link = new URLSearchParams([...(named ? [] : [first]), ...rest].join("&"));
  const entries = Object.entries(FIELDS).map(([name, { usual, read }]) => [name, read(link.get(name) ?? "") ?? usual]);
  return { tab: named ?? (first ? "model" : "review"), view: Object.fromEntries(entries), text: link.get("text") };
}

export function writeFragment(view) {
  const link = new URLSearchParams();
  for (const [name, { usual }] of Object.entries(FIELDS)) {
    if (view[name] !== usual) link.set(name, view[name] === false ? "off" : view[name]);
  }
  return link.size > 0 ? `#model&${link}` : "#model";
}

const REST = 300; // milliseconds
let waiting = 0;

/**
 * Keeps a view in the address, so that a reload changes nothing. It waits until the view rests:
 * browsers refuse a hundred new addresses in a few seconds.
 */
export function keepInAddress(view) {
  dropAddress();
  const before = window.location.href;
  waiting = setTimeout(() => {
    // The user may have typed another address whose event has not come yet.
    if (window.location.href === before) history.replaceState(history.state, "", writeFragment(view));
  }, REST);
}

/** Leaves the address as the user has just typed it. */
export function dropAddress() {
  clearTimeout(waiting);
}
