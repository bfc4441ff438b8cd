/**
 * Writes a view as the fragment of an address, and reads it back. A fragment never leaves the browser.
 * A link may hold a text; the page writes none.
 */

// How each kind of field is read; undefined where it is wrong.
const NUMBER = (text) => (/^\d{1,3}$/.test(text) ? Number(text) : undefined);
const SWITCH = (text) => ({ on: true, off: false })[text];
const oneOf = (...choices) => (text) => choices.find((choice) => choice === text);

// The fields of a view: what they are before a link or the user changes them, and how a link has them.
const FIELDS = [
  { field: "layer", usual: null, read: NUMBER },
  { field: "head", usual: null, read: NUMBER },
  { field: "reduce", usual: "none", read: oneOf("none", "mean", "rollout") },
  { field: "level", usual: "token", read: oneOf("token", "word") },
  { field: "picture", name: "view", usual: "map", read: oneOf("map", "lines") },
  { field: "special", usual: true, read: SWITCH },
  { field: "whole", usual: false, read: SWITCH },
  { field: "window", usual: 0, read: NUMBER, when: ({ whole }) => whole },
];

export const TABS = ["text", "many", "heads"];

/**
 * The tab, the view and the text in a fragment; missing or wrong fields have their usual values. A
 * link without a tab is of the time when there were only heads.
 */
export function readFragment(fragment) {
  const [first, ...rest] = fragment.replace(/^#/, "").split("&");
  const tab = first === "" ? "text" : (TABS.find((name) => name === first) ?? "heads");
  const link = new URLSearchParams([...(first === tab ? [] : [first]), ...rest].join("&"));
  const entries = FIELDS.map(({ field, name = field, usual, read }) => [field, read(link.get(name) ?? "") ?? usual]);
  return { tab, view: Object.fromEntries(entries), text: link.get("text") };
}

export function writeFragment(view) {
  const link = new URLSearchParams();
  for (const { field, name = field, usual, when = () => true } of FIELDS) {
    const written = { true: "on", false: "off" }[view[field]] ?? view[field];
    if (view[field] !== usual && when(view)) link.set(name, written);
  }
  return link.size > 0 ? `#heads&${link}` : "#heads";
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
