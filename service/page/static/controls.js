/** Ticks the controls to match a view, and reports what the user changes. */

import { useLabels, usedLabels } from "./api.js";
import { hasImportance } from "./attention.js";
import { byId, make, range } from "./elements.js";
import { isSame } from "./question.js";

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

/** A box that is ticked, with its name beside it. */
function choice(name, value) {
  const input = make("input", { type: "checkbox", name, value, checked: true });
  return make("label", {}, input, make("span", { textContent: value }));
}

/** The classes of the model, of which an answer may have only some. */
export class Classes {
  constructor(onChange) {
    this.element = byId("classes");
    this.labels = [];
    this.element.addEventListener("change", ({ target }) => {
      const ticked = this.#boxes().filter(({ checked }) => checked);
      if (ticked.length < 2) target.checked = true; // of one class there is nothing to choose
      else onChange(this.#use(ticked.map(({ value }) => value)));
    });
  }

  /** Offers the classes of a model; those of another model begin as all. */
  offer(labels) {
    if (isSame(labels, this.labels)) return;
    this.labels = labels;
    const names = labels.length > 2 ? labels.map((label) => choice("class", label)) : [labels.join(", ")];
    this.element.replaceChildren(this.element.firstElementChild, ...names);
    this.choose(usedLabels());
  }

  /** Chooses some classes; all if they are null, or not those of the model. */
  choose(labels) {
    const isFit = labels?.length > 1 && labels.every((label) => this.labels.includes(label));
    const some = this.#use(isFit || this.labels.length === 0 ? labels : null);
    for (const each of this.#boxes()) each.checked = some?.includes(each.value) ?? true;
  }

  #boxes() {
    return [...this.element.querySelectorAll("input")];
  }

  #use(labels) {
    useLabels(labels?.length === this.labels.length ? null : labels);
    return usedLabels();
  }
}

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
      byId(`some-${name}`).replaceChildren(...range(count).map((number) => choice(name, String(number))));
    }
  }

  /** Ticks what a view has; a text is read whole only where its end would be cut off. */
  set(view, isCut = false) {
    const { elements } = this.form;
    for (const name of ["reduce", "level", "picture"]) elements[name].value = view[name];
    for (const name of ["special", "importance", "whole"]) {
      elements[name].checked = view[name];
    }
    elements.importance.disabled = !hasImportance(view);
    elements.whole.parentElement.hidden = !view.whole && !isCut;
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
