/**
 * Holds what the page shows, in one place. Each change draws the page again; Preact then touches only
 * what differs.
 */

import { html, render } from "./preact.js";

/** @type {Record<string, any>} the state of each part of the page */
export const state = { page: {} };

let draw = () => {};

/** Draws a component into an element, now and after each change. */
export function begin(component, element) {
  draw = () => render(html`<${component} ...${state} />`, element);
  draw();
}

/** Changes fields of a part of the state. */
export function change(part, fields) {
  state[part] = { ...state[part], ...fields };
  draw();
}

/** Tells a screen reader. */
export function announce(text) {
  document.getElementById("status").textContent = text;
}

/** What the page does where something fails: `(problem, retry, place)`. */
/** @type {Record<string, function>} */
export const handlers = {};
