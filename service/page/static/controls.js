/** Ticks the controls above the panels to match a view, and reports what the user changes. */

import { hasImportance } from "./attention.js";
import { byId, heading, make, range, table } from "./elements.js";
import { asShare, grouped, percent } from "./words.js";

const NOTES = {
  mean: "Mean: the chosen heads of each layer, averaged by the service.",
  max: "Max: for each pair of tokens the largest weight of the chosen heads; rows no longer sum to 1.",
  rollout:
    "Rollout: an estimate of how much reaches each token through all chosen layers (Abnar and Zuidema 2020).",
  word: "Words: what a word's tokens get is summed, what they give is averaged.",
  importance:
    "The bar under a map is its head's importance: how much the log-odds of the label change with what the head hands on (Michel et al. 2019), on a scale from 0 to the largest.",
  abstain: (below) =>
    `Where the highest probability is below ${below} %, no answer is shown, as with "abstain_below": ${asShare(below)} in a request to /predict.`,
  special:
    "Special tokens are only hidden: the weights are as before, so the rows drawn need not sum to 1.",
};

export class Controls {
  /** `onChange` gets the fields of the view that the user changed. */
  constructor(onChange) {
    this.form = byId("controls");
    this.onChange = onChange;
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("change", ({ target }) => this.#changed(target));
    this.thresholds = new ThresholdTable(byId("thresholds"), (abstain) => onChange({ abstain }));
    byId("all").addEventListener("click", () => onChange({ layers: null, heads: null }));
  }

  /** Offers the layers and heads of a model, and its record of thresholds. */
  offer(model) {
    this.thresholds.offer(model);
    this.counts = { layers: model.num_layers, heads: model.num_heads };
    for (const [name, count] of Object.entries(this.counts)) {
      const choices = range(count).map((number) => {
        const box = make("input", { type: "checkbox", name, value: String(number) });
        return make("label", {}, box, make("span", { textContent: String(number) }));
      });
      byId(name).replaceChildren(...choices);
    }
  }

  set(view) {
    const { elements } = this.form;
    for (const name of ["reduce", "level", "picture"]) elements[name].value = view[name];
    for (const name of ["special", "importance", "sentences", "whole"]) {
      elements[name].checked = view[name];
    }
    elements.importance.disabled = !hasImportance(view);
    elements.abstain.value = view.abstain ?? "";
    this.thresholds.mark(view.abstain);
    for (const name of ["layers", "heads"]) {
      for (const box of this.#boxes(name)) {
        box.checked = view[name]?.includes(Number(box.value)) ?? true;
      }
    }
    const some = ["layers", "heads"].map((name) => view[name] && `${name} ${view[name].join(", ")}`);
    byId("some-chosen").textContent = some.filter(Boolean).join("; ") || "all";
    const notes = [
      NOTES[view.reduce],
      NOTES[view.level],
      view.importance && hasImportance(view) ? NOTES.importance : "",
      view.abstain === null ? "" : NOTES.abstain(view.abstain),
      view.special ? "" : NOTES.special,
    ];
    byId("view-note").textContent = notes.filter(Boolean).join(" ");
  }

  #boxes(name) {
    return [...byId(name).querySelectorAll("input")];
  }

  #changed(control) {
    const { name } = control;
    if (name === "layers" || name === "heads") {
      const ticked = this.#boxes(name).filter((box) => box.checked);
      if (ticked.length === 0) control.checked = true; // nothing ticked would show nothing
      const chosen = ticked.length === 0 ? [control] : ticked;
      const isAll = chosen.length === this.counts[name];
      this.onChange({ [name]: isAll ? null : chosen.map((box) => Number(box.value)) });
    } else if (name === "abstain") {
      if (!control.reportValidity()) return;
      this.onChange({ abstain: control.value === "" ? null : Number(control.value) });
    } else if (control.type === "checkbox") {
      this.onChange({ [name]: control.checked });
    } else {
      this.onChange({ [name]: control.value });
    }
  }
}

const share = (value) => (value === null ? "none" : percent(value));

/** Shows what each threshold leaves of the answers to the validation texts. */
class ThresholdTable {
  /** `onChoose` gets a threshold in percent, or null for none. */
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
      "A higher threshold leaves fewer answers, and more of them are right. Texts of another kind may have other figures. Click a threshold to set it, and again to remove it.";
    const lines = thresholds.by_threshold.map((left) => this.#line(left, labels));
    const { sets, rows } = thresholds;
    const caption = `What is left of ${grouped(rows)} texts of ${sets.join(", ")}`;
    body.setAttribute("aria-label", "What thresholds leave");
    body.replaceChildren(table(caption, this.#top(labels), lines));
  }

  mark(below) {
    for (const button of this.buttons) {
      button.setAttribute("aria-pressed", below !== null && Number(button.value) === below);
    }
  }

  #top(labels) {
    const names = ["threshold", "answered", "accuracy"];
    const tall = names.map((name) => heading(name, "col", { rowSpan: 2 }));
    const wide = labels.map((label) => heading(label, "colgroup", { colSpan: 2 }));
    const halves = labels.flatMap(() => [heading("precision"), heading("recall")]);
    return [make("tr", {}, ...tall, ...wide), make("tr", {}, ...halves)];
  }

  #line(left, labels) {
    const below = Number((100 * left.threshold).toFixed(6));
    const value = asShare(below) === left.threshold ? below : 100 * left.threshold;
    const button = make("button", { type: "button", className: "quiet", value: String(value) });
    button.textContent = `${below} %`;
    this.buttons.push(button);
    const figures = labels.flatMap((label) => [left.precision[label], left.recall[label]]);
    return { name: button, cells: [left.share, left.accuracy, ...figures].map(share) };
  }
}
