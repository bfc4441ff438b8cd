/**
 * Holds what the page shows, in one place. Each change draws the page again; Preact then touches only
 * what differs.
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
 * Keeps the text and what is tried in the history of this tab, for Back, Forward and a reload. It
 * does not leave the browser.
 */
export function remember(isNew, address = "") {
  const { reading, heads } = state;
  const kept = { text: reading.text, trial: reading.trial, ofHeads: heads.shown?.text ?? null };
  if (isNew) history.pushState(kept, "", address);
  else history.replaceState(kept, "");
}
