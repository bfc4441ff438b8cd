/** What several views share: bars of classes, a problem in its place, keys, and files to save. */

import { sidesOf } from "./canvas.js";
import { html, useEffect, useState } from "./preact.js";
import { settle, state } from "./store.js";
import { percent } from "./words.js";

/**
 * The element of an id.
 * @type {function(string): any} each has members of its own kind
 */
export const byId = (id) => document.getElementById(id);

export const range = (count) => Array.from({ length: count }, (_, at) => at);

export const isSame = (one, other) => JSON.stringify(one) === JSON.stringify(other);

/** The signal of the latest of some questions; a later one stops those before. */
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

/** Some radio buttons beside each other: `choices` are values with their texts. */
export const Segments = ({ legend, name, choices, value, onChoose }) => html`
  <fieldset class="segments"><legend>${legend}</legend>${choices.map(([each, text]) => html`
    <label><input type="radio" name=${name} value=${each} checked=${each === value}
      onChange=${() => onChoose(each)} /><span>${text}</span></label>`)}</fieldset>`;

/** The probability of every class, with a bar. */
export const Bars = ({ probabilities }) => html`
  <dl>${Object.entries(probabilities).map(([label, probability]) => {
    const style = { width: `${(100 * probability).toFixed(1)}%`, backgroundColor: `var(--${sidesOf(label)[0][0]})` };
    return html`<dt>${label}</dt><dd class="track" aria-hidden="true"><span class="bar" style=${style} /></dd>
      <dd class="figure" title=${probability}>${percent(probability)}</dd>`;
  })}</dl>`;

const STEPS = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 };

/** Moves the focus along the buttons of an element, where a key says so. */
function moveFocus(event) {
  const buttons = [...event.currentTarget.querySelectorAll("button")];
  const current = buttons.indexOf(document.activeElement);
  if (current < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
  let next = current + (STEPS[event.key] ?? 0);
  if (event.key === "Home") next = 0;
  else if (event.key === "End") next = buttons.length - 1;
  else if (!(event.key in STEPS)) return;
  event.preventDefault();
  buttons[Math.min(Math.max(next, 0), buttons.length - 1)].focus();
}

/**
 * Lets the Tab key reach one of `count` buttons; the arrow keys lead to the others. Returns the
 * properties of their `toolbar`, and `tabOf`, from a place to the `tabindex` of its button.
 */
export function useRoving(count) {
  const [current, go] = useState(0);
  const onfocusin = ({ currentTarget, target }) => {
    go([...currentTarget.querySelectorAll("button")].indexOf(target));
  };
  const reached = Math.min(Math.max(current, 0), count - 1);
  return { toolbar: { role: "toolbar", onKeyDown: moveFocus, onfocusin }, tabOf: (at) => (at === reached ? 0 : -1) };
}

// What goes wrong before the service has a word for it, and what to do about it.
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
