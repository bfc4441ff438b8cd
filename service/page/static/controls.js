/** Ticks the controls above the panels to match a view, and reports what the user changes. */

import { hasImportance } from "./attention.js";
import { byId, make, range } from "./elements.js";

const NOTES = {
  mean: "Mean: the chosen heads of each layer, averaged by the service.",
  max: "Max: for each pair of tokens the largest weight of the chosen heads; rows no longer sum to 1.",
  rollout:
    "Rollout: an estimate of how much reaches each token through all chosen layers (Abnar and Zuidema 2020).",
  word: "Words: what a word's tokens get is summed, what they give is averaged.",
  importance:
    "The bar under a map is its head's importance: how much the log-odds of the label change with what the head hands on (Michel et al. 2019), on a scale from 0 to the largest.",
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
    byId("all").addEventListener("click", () => onChange({ layers: null, heads: null }));
  }

  /** Offers the layers and heads of a model. */
  offer(model) {
    this.counts = { layers: model.num_layers, heads: model.num_heads };
    for (const [name, count] of Object.entries(this.counts)) {
      const choices = range(count).map((number) => {
        const box = make("input", { type: "checkbox", name, value: String(number) });
        return make("label", {}, box, make("span", { textContent: String(number) }));
      });
      byId(`some-${name}`).replaceChildren(...choices);
    }
  }

  set(view) {
    const { elements } = this.form;
    for (const name of ["reduce", "level", "picture"]) elements[name].value = view[name];
    for (const name of ["special", "importance", "whole"]) {
      elements[name].checked = view[name];
    }
    elements.importance.disabled = !hasImportance(view);
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
      view.special ? "" : NOTES.special,
    ];
    byId("view-note").textContent = notes.filter(Boolean).join(" ");
  }

  #boxes(name) {
    return [...byId(`some-${name}`).querySelectorAll("input")];
  }

  #changed(control) {
    const { name } = control;
    if (name === "layers" || name === "heads") {
      const ticked = this.#boxes(name).filter((box) => box.checked);
      if (ticked.length === 0) control.checked = true; // nothing ticked would show nothing
      const chosen = ticked.length === 0 ? [control] : ticked;
      const isAll = chosen.length === this.counts[name];
      this.onChange({ [name]: isAll ? null : chosen.map((box) => Number(box.value)) });
    } else if (control.type === "checkbox") {
      this.onChange({ [name]: control.checked });
    } else {
      this.onChange({ [name]: control.value });
    }
  }
}
