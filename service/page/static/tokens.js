/** Shows a sentence as a row of tokens to point at. Arrow keys go from token to token. */

import { make, moveFocus, rove } from "./elements.js";
import { tint } from "./palette.js";

export class Strip {
  /**
   * @param {HTMLElement} element where the tokens go
   * @param {function(?number, boolean): void} onPoint gets a position, or null when the pointer
   *   leaves, and whether the choice stays
   */
  constructor(element, onPoint) {
    this.element = element;
    this.buttons = [];
    this.shown = [];
    const positionOf = (event) => this.shown[this.buttons.indexOf(event.target)] ?? null;
    element.addEventListener("pointerover", (event) => onPoint(positionOf(event), false));
    element.addEventListener("pointerleave", () => onPoint(null, false));
    element.addEventListener("click", (event) => {
      if (positionOf(event) !== null) onPoint(positionOf(event), true);
    });
    element.addEventListener("focusin", (event) => {
      const target = /** @type {HTMLElement} */ (event.target);
      if (!target.matches(":focus-visible")) return; // a click follows, and is handled there
      rove(this.buttons, this.buttons.indexOf(event.target));
      onPoint(positionOf(event), true);
    });
    element.addEventListener("keydown", (event) => moveFocus(event, this.buttons));
  }

  /**
   * Makes the tokens.
   * @param {Set<number>} changed positions whose token differs in the other sentence
   */
  show(tokens, shown, changed) {
    this.shown = shown;
    const focused = this.buttons.indexOf(document.activeElement);
    this.buttons = shown.map((position) => {
      const { text, special } = tokens[position];
      const button = make("button", { type: "button", textContent: text });
      button.classList.toggle("special", special);
      button.classList.toggle("changed", changed.has(position));
      if (changed.has(position)) button.title = "not in the other sentence";
      return button;
    });
    rove(this.buttons, 0);
    this.element.replaceChildren(...this.buttons);
    if (focused >= 0) this.buttons[Math.min(focused, this.buttons.length - 1)]?.focus();
  }

  /** Colours the tokens by what the chosen one gives them, and marks that one. */
  colour(head, chosen, palette) {
    const map = head.weights.map(head.row, head.column);
    this.shown.forEach((position, at) => {
      const button = this.buttons[at];
      const weight = chosen.query === null ? 0 : map[chosen.query * head.weights.size + position];
      const share = head.largest > 0 ? weight / head.largest : 0;
      button.style.backgroundColor = share > 0 ? tint(palette.out, 0.4 * share) : "";
      button.setAttribute("aria-pressed", position === (chosen.query ?? chosen.key));
    });
  }
}
