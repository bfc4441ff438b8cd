/** Shows what thresholds leave of the answers to the validation texts, to choose one by. */

import { attributes, make } from "./elements.js";
import { asShare } from "./verdict.js";
import { grouped, percent } from "./words.js";

const share = (value) => make("td", { textContent: value === null ? "none" : percent(value) });
const heading = (text, more) => attributes(make("th", { textContent: text }), more);

export class ThresholdTable {
  /**
   * @param {HTMLDetailsElement} details where the table goes
   * @param {function(?number): void} onChoose gets a threshold in percent, or null for none
   */
  constructor(details, onChoose) {
    this.details = details;
    this.buttons = [];
    details.addEventListener("click", (event) => {
      const target = /** @type {HTMLButtonElement} */ (event.target);
      if (!this.buttons.includes(target)) return;
      const isOff = target.getAttribute("aria-pressed") === "true";
      onChoose(isOff ? null : Number(target.value));
    });
  }

  /** Writes the record of a model, or that it has none. */
  offer({ labels, thresholds }) {
    const body = this.details.querySelector("div");
    const note = this.details.querySelector(".note");
    body.hidden = !thresholds;
    this.buttons = [];
    if (!thresholds) {
      note.textContent =
        "This model has no record of its own. headlight-train evaluate --record-baseline makes one.";
      body.replaceChildren();
      return;
    }
    note.textContent =
      "A higher threshold leaves fewer answers, and more of them are right. Texts of another kind may have other figures. A button sets its threshold, and once more takes it off.";
    const lines = thresholds.by_threshold.map((left) => this.#line(left, labels));
    const { sets, rows } = thresholds;
    const told = `What is left of ${grouped(rows)} texts of ${sets.join(", ")}`;
    body.setAttribute("aria-label", "What thresholds leave");
    body.replaceChildren(
      make(
        "table",
        {},
        make("caption", { textContent: told }),
        make("thead", {}, ...this.#top(labels)),
        make("tbody", {}, ...lines),
      ),
    );
  }

  /** Marks the line of a threshold in percent. */
  mark(below) {
    for (const button of this.buttons) {
      button.setAttribute("aria-pressed", below !== null && Number(button.value) === below);
    }
  }

  #top(labels) {
    const tall = { scope: "col", rowspan: 2 };
    const names = ["threshold", "answered", "accuracy"].map((name) => heading(name, tall));
    const wide = labels.map((label) => heading(label, { scope: "colgroup", colspan: 2 }));
    const halves = labels.flatMap(() => [
      heading("precision", { scope: "col" }),
      heading("recall", { scope: "col" }),
    ]);
    return [make("tr", {}, ...names, ...wide), make("tr", {}, ...halves)];
  }

  #line(left, labels) {
    const below = Number((100 * left.threshold).toFixed(6));
    const value = asShare(below) === left.threshold ? below : 100 * left.threshold;
    const button = make("button", { type: "button", className: "quiet", value: String(value) });
    button.textContent = `${below} %`;
    this.buttons.push(button);
    const first = attributes(make("th", {}, button), { scope: "row" });
    const figures = labels.flatMap((label) => [left.precision[label], left.recall[label]]);
    const cells = [left.share, left.accuracy, ...figures].map(share);
    return make("tr", {}, first, ...cells);
  }
}
