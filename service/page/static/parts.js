/** What several views share: figures in words, bars of classes, a problem in its place, keys, and files to save. */

import { html, useEffect } from "./preact.js";
import { settle, state } from "./store.js";

/** How something is chosen here: by a mouse or a finger. */
export const POINT = window.matchMedia("(pointer: coarse)").matches ? "Tap" : "Point at";

/** A count, and a share. */
export const grouped = (count) => count.toLocaleString("en");
export const percent = (share) => `${(100 * share).toFixed(1)} %`;

/** A share in whole percent; never 0 or 100, which would claim certainty. */
export function plain(share) {
  if (share > 0.99) return "over 99 %";
  return share < 0.01 ? "under 1 %" : `${Math.round(100 * share)} %`;
}

const RIGHT_TO_LEFT = /[\u0590-\u08ff\u200f\ufb1d-\ufdff\ufe70-\ufeff\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/**
 * Quotes a token within a sentence of the page. U+2068 and U+2069 isolate it: otherwise a word
 * written from right to left would pull the figure after it to its other side.
 */
export const quoted = ({ text }) =>
  RIGHT_TO_LEFT.test(text) ? `“\u2068${text}\u2069”` : `“${text}”`;

export const isForeign = ({ warnings }) => Boolean(warnings?.includes("not-english"));

/** The warning beside a prediction that is foreign. */
export const Foreign = (prediction) => isForeign(prediction) && html`<p class="warning error">This is not all English.
  The model learned from English texts, so it may well be wrong here.</p>`;

/** How a verdict moves between two predictions. */
export function outcomeOf(was, { label, probabilities }) {
  const [from, to] = [was.probabilities[was.label], probabilities[was.label]].map(percent);
  const moved = `${was.label} ${from} → ${to}`;
  if (label === was.label) return `${moved}. The verdict holds.`;
  return `${moved}. The verdict turns to ${label}, ${percent(probabilities[label])}.`;
}

/**
 * The element of an id.
 * @type {function(string): any} each has members of its own kind
 */
export const byId = (id) => document.getElementById(id);

export const range = (count) => Array.from({ length: count }, (_, at) => at);

/** Gives each question a signal; a later question stops the earlier ones. */
export class Latest {
  #controller = new AbortController();

  begin() {
    this.stop();
    this.#controller = new AbortController();
    return this.#controller.signal;
  }

  stop() {
    this.#controller.abort();
  }
}

/** Gives the user a file. */
export function offer(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** A list to choose from: `choices` are values with their texts. */
export const Choice = ({ label, choices, onChoose, ...more }) => html`<label>${label} <select ...${more}
  onChange=${({ target }) => onChoose(target.value)}>${choices.map(([value, text]) => html`
    <option value=${value}>${text}</option>`)}</select></label>`;

// Colours of the style sheet for classes; without colour, the line separates them.
const NAMED = { negative: ["into", "dashed"], neutral: ["grey", "dotted"], positive: ["out", "solid"] };
const OTHERS = [["violet", "solid"], ["green", "dashed"], ["out", "dotted"], ["into", "double"]];
const FAINTEST = 8; // percent of opacity at chance
const STRONGEST = 40;

/** A colour of the style sheet, with a share of opacity in percent. */
export const tinted = (name, share) => `color-mix(in srgb, var(--${name}) ${share.toFixed(1)}%, transparent)`;

/** The colours of what speaks for a class and of what speaks against it. */
export function sidesOf(label) {
  const own = NAMED[label.toLowerCase()]?.[0] ?? "out";
  return [own, { into: "out", out: "into", grey: "violet" }[own]];
}

/** The style of a class: the surer the verdict, the stronger its colour. */
export function classStyle(label, classes, score) {
  const [colour, line] = NAMED[label.toLowerCase()] ?? OTHERS[classes.indexOf(label) % OTHERS.length];
  const chance = 1 / classes.length;
  const strength = Math.max(0, (score - chance) / (1 - chance));
  return {
    backgroundColor: tinted(colour, FAINTEST + (STRONGEST - FAINTEST) * strength),
    textDecoration: `underline 2px ${line} var(--${colour})`,
  };
}

// Problems that the page names itself, and what to do about them.
const KINDS = {
  blank: ["There is nothing to read.", "Type a sentence first."],
  unreachable: ["The service cannot be reached.", "Is it running, and are you connected to its network?"],
  unauthorized: ["This service needs an API key.", "Type it above and ask again."],
  "key-refused": ["This API key was refused.", "Check that it is complete, and that it belongs to this service."],
  "key-unsendable": [
    "This API key cannot be sent.",
    "It holds a character that no request can carry, such as a long dash or a curly quotation mark. Type it again.",
  ],
  "model-changed": [
    "The model is being replaced just now.",
    "Answers came from two versions of it. Try again in a moment.",
  ],
};

/** The problem, where it is at this place. */
export const ProblemAt = ({ place }) =>
  state.page.problem?.place === place && html`<${ProblemBox} ...${state.page.problem} />`;

/** What went wrong, with a button to try again; an error of a script is shown as it is. */
function ProblemBox({ problem, retry, origin }) {
  const { type, title = "That did not work", message, retryAfter, isFinal } = problem;
  const [name, advice] = KINDS[type] ?? [`${title}.`, message];
  const wait = retryAfter ? ` Try again in ${retryAfter} ${retryAfter === 1 ? "second" : "seconds"}.` : "";
  useEffect(() => byId("problem").scrollIntoView({ block: "nearest" }), [problem]);
  const again = () => {
    settle();
    // Where the failed action began, if that is still visible, or else the question.
    const isThere = origin !== document.body && origin.getClientRects().length > 0;
    (isThere ? origin : document.querySelector(".primary")).focus();
    retry();
  };
  return html`<div id="problem" role="alert">
    <p><strong id="problem-title">${name}</strong> ${advice}${wait}</p>
    ${retry !== null && !isFinal && html`<p class="row"><button type="button" onClick=${again}>Try again</button></p>`}
  </div>`;
}
