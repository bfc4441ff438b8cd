/**
 * Shows "How this weight was made" for one pair of tokens of the chosen head. The numbers are asked
 * for only when the user opens the part.
 */
/**
 * Draws the steps from a query and a key to a weight, and on to the result of a head. Each step names
 * its term and the function of the reference, which the page of terms explains.
 */

import { post, Problem, requireModel } from "./api.js";
import { signedPixel, tint } from "./canvas.js";
import { attributes, find, make } from "./elements.js";
import { quoted, short } from "./words.js";

const LEAST = 5e-5; // a difference that four decimals show

export class Steps {
  /**
   * @param {HTMLButtonElement} button opens the part
   * @param {HTMLElement} element the part of a panel
   * @param {object} told what the page wants to hear: `onProblem(problem, retry, place)`, `announce(text)`
   */
  constructor(button, element, told) {
    this.button = button;
    this.element = element;
    this.told = told;
    this.part = (name) => find(element, name);
    this.controller = new AbortController();
    this.isOffered = true;
    this.head = this.question = this.answer = this.key = null;
    this.pair = { query: 0, key: 0 };
    button.addEventListener("click", () => this.#open());
    this.part(".shut").addEventListener("click", () => this.#close());
    element.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation(); // it would take back the choice of the token too
      this.#close();
    });
    for (const name of ["query", "key"]) {
      this.part(`.of-${name}`).addEventListener("change", ({ target }) => {
        this.#set({ ...this.pair, [name]: Number(target.value) });
      });
    }
  }

  /**
   * Sets the head that the part is about, and what is chosen in it.
   * @param {boolean} isOne whether the view shows single heads
   */
  choose(question, head, isOne, chosen, palette) {
    const isNew = this.head?.weights !== head.weights;
    const wasOpen = !this.element.hidden;
    this.question = question;
    this.head = head;
    this.palette = palette;
    this.button.hidden = !this.isOffered || !isOne || question.level !== "token";
    if (this.button.hidden) {
      this.#hide();
      return;
    }
    if (isNew) this.#name();
    // While it is open, another head shows the same pair.
    this.#set(wasOpen && !isNew ? this.pair : this.#pairOf(chosen));
  }

  /** Sets the pair to what the user has chosen. */
  pin(chosen) {
    if (!this.button.hidden && this.head && (chosen.query !== null || chosen.key !== null)) this.#set(this.#pairOf(chosen));
  }

  /** The chosen pair; what is missing of it has the largest weight. */
  #pairOf({ query, key }) {
    const { weights, row, column, shown } = this.head;
    const map = weights.map(row, column);
    let best = { query: shown[0], key: shown[0], weight: -1 };
    for (const from of query === null ? shown : [query]) {
      for (const to of key === null ? shown : [key]) {
        const weight = map[from * weights.size + to];
        if (weight > best.weight) best = { query: from, key: to, weight };
      }
    }
    return { query: best.query, key: best.key };
  }

  #name() {
    const { tokens } = this.head.weights;
    for (const name of ["query", "key"]) {
      const options = tokens.map(({ text }, at) =>
        make("option", { value: String(at), textContent: `${at}: ${text}` }),
      );
      this.part(`.of-${name}`).replaceChildren(...options);
    }
  }

  #open() {
    this.element.hidden = false;
    this.button.setAttribute("aria-expanded", "true");
    this.part(".made-title").focus();
    this.#ask();
  }

  #hide() {
    this.controller.abort();
    this.answer = this.key = null;
    this.element.hidden = true;
    this.button.setAttribute("aria-expanded", "false");
  }

  #close() {
    this.#hide();
    this.button.focus();
  }

  #set(pair) {
    this.pair = pair;
    this.part(".of-query").value = String(pair.query);
    this.part(".of-key").value = String(pair.key);
    this.#ask();
  }

  /** The fields of a request for the row of the pair. */
  #body() {
    const { sentence, windows, window, changes } = this.question;
    const { weights, row, column } = this.head;
    const place = { layer: weights.layers[row], head: weights.heads[column], query: this.pair.query };
    const part = windows > 1 ? { truncation: "window", window } : {};
    return { sentence, ...changes?.fields, ...place, ...part };
  }

  async #ask() {
    if (this.element.hidden) return;
    const body = this.#body();
    const { model } = this.question;
    const key = JSON.stringify([body, model.name, model.version]);
    if (key === this.key) {
      if (this.answer) this.#show();
      return;
    }
    this.controller.abort();
    this.controller = new AbortController();
    const { signal } = this.controller;
    this.key = key;
    this.answer = null;
    this.#tell("Asking …");
    try {
      const answer = await post("/attention/steps", body, signal);
      requireModel(answer, model);
      if (answer.tokens.length !== this.head.weights.size) {
        throw new Problem("unknown", "The answer has other tokens than the map.");
      }
      this.answer = answer;
      this.#show();
    } catch (problem) {
      if (signal.aborted) return;
      this.isOffered = problem.type !== "not-found";
      this.#close();
      this.button.hidden = !this.isOffered;
      if (this.isOffered) this.told.onProblem(problem, () => this.#open(), this.button);
    }
  }

  #tell(note) {
    this.part(".made-note").textContent = note;
    this.part(".making").replaceChildren();
  }

  #show() {
    const { answer, pair } = this;
    const { weights, row, column } = this.head;
    const { model, changes } = this.question;
    const weight = answer.weights[pair.key];
    const drawn = weights.map(row, column)[pair.query * weights.size + pair.key];
    const differs = Math.abs(weight - drawn) >= LEAST;
    const map = differs ? ` The map shows ${short(drawn)}: the service computes in ${model.dtype}, which rounds more.` : "";
    this.part(".made-note").textContent = `All numbers here are computed in float32.${map}`;
    const isOff = (changes?.fields.head_mask ?? []).some(
      (one) => one.layer === answer.layer && (one.head ?? answer.head) === answer.head,
    );
    fillSteps(this.part(".making"), { answer, key: pair.key, heads: model.num_heads, isOff }, this.palette);
    const to = pair.query === pair.key ? "itself" : quoted(weights.tokens[pair.key]);
    const told = `${quoted(weights.tokens[pair.query])} gives ${to} ${short(weight)}`;
    this.part(".made-said").textContent = told;
    this.told.announce(`Layer ${answer.layer}, head ${answer.head}: ${told}, in five steps.`);
  }
}

/** A number with four decimals and a minus as people write it. */
const number = (value) => value.toFixed(4).replace("-", "−");
const most = (...lists) => Math.max(...lists.map((list) => Math.max(...list.map(Math.abs))));

/**
 * Fills the list of steps.
 * @param {HTMLOListElement} list
 * @param {object} told `answer` of /attention/steps, `key` (number of a token), `heads` of a layer,
 *   and `isOff`, whether the head is switched off
 */
function fillSteps(list, told, palette) {
  const open = [...list.querySelectorAll("details")].map((details) => details.open);
  const steps = [vectors, product, softmax, valuePart, joined].map((draw) => draw(told, palette));
  list.replaceChildren(...steps);
  list.querySelectorAll("details").forEach((details, at) => {
    details.open = open[at] ?? false;
  });
}

function vectors({ answer, key }, palette) {
  const { query_vector: query, keys, tokens } = answer;
  const names = [`query of ${quoted(tokens[answer.query])}`, `key of ${quoted(tokens[key])}`];
  const largest = most(query, keys[key]);
  const rows = query.map((value, at) => [String(at), number(value), number(keys[key][at])]);
  return item(
    "The query and the key",
    `Head ${answer.head} of layer ${answer.layer} has its own projections. They turn the one token into a ` +
      `query and the other into a key, each of ${query.length} numbers.`,
    [strip(names[0], query, largest, palette), strip(names[1], keys[key], largest, palette)],
    table("The query and the key as a table", ["feature", ...names], rows),
    ["heads", "Heads", "split_heads"],
  );
}

function product({ answer, key }, palette) {
  const { query_vector: query, keys, scale, scores } = answer;
  const products = query.map((value, at) => value * keys[key][at]);
  const sum = products.reduce((total, each) => total + each, 0);
  const rows = query.map((value, at) => [
    String(at), number(value), number(keys[key][at]), number(products[at]),
  ]);
  return item(
    "The score",
    `The products of both, feature by feature, add up to ${number(sum)}. Divided by √${query.length} ` +
      `= ${number(1 / scale)} this is the score: ${number(scores[key])}.`,
    [strip("query × key", products, most(products), palette)],
    table("The products as a table", ["feature", "query", "key", "query × key"], rows),
    ["scaled-dot-product", "Scaled dot product", "scaled_dot_product_score"],
  );
}

function softmax({ answer, key }, palette) {
  const { scores, weights, tokens, query } = answer;
  const top = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - top));
  const sum = powers.reduce((total, each) => total + each, 0);
  const largest = most(weights);
  const chips = tokens.map((token, at) => {
    const name = make("bdi", { className: "name", textContent: token.text });
    const figure = make("span", { className: "figure", textContent: short(weights[at]) });
    const chip = make("li", { title: `score ${number(scores[at])}` }, name, figure);
    chip.style.backgroundColor = tint(palette.out, (0.4 * weights[at]) / (largest || 1));
    if (at === key) chip.setAttribute("aria-current", "true");
    return chip;
  });
  const rows = tokens.map((token, at) => [
    token.text, number(scores[at]), number(powers[at]), number(weights[at]),
  ]);
  const label = `Weights that ${quoted(tokens[query])} gives`;
  return item(
    "The softmax of the row",
    `${quoted(tokens[query])} has a score for each of ${tokens.length} tokens; the largest is ${number(top)}. ` +
      `e^(${number(scores[key])} ${top < 0 ? "+" : "−"} ${number(Math.abs(top))}) = ${number(powers[key])}, divided by the sum of all such ` +
      `powers, ${number(sum)}, is the weight: ${short(weights[key])}. Subtracting the largest score ` +
      "keeps the powers small, and changes no weight.",
    [frame(label, make("ol", { className: "softmax-row" }, ...chips))],
    table("The row as a table", ["token", "score", "power", "weight"], rows, key),
    ["softmax", "Softmax", "softmax"],
  );
}

function valuePart({ answer, key }, palette) {
  const { values, weights, result, tokens } = answer;
  const value = values[key];
  const share = value.map((each) => each * weights[key]);
  const largest = most(value, result);
  const names = [`value of ${quoted(tokens[key])}`, `${short(weights[key])} × value`, "result of the head"];
  const strips = [value, share, result].map((each, at) => strip(names[at], each, largest, palette));
  const rows = value.map((each, at) => [
    String(at), number(each), number(share[at]), number(result[at]),
  ]);
  return item(
    "The value’s part in the result",
    `The value of ${quoted(tokens[key])} counts ${short(weights[key])} times. The result of the head is the ` +
      `sum of such parts over all ${tokens.length} tokens.`,
    strips,
    table("The values as a table", ["feature", ...names], rows),
    ["weighted-sum", "Weighted sum", "multi_head_attention"],
  );
}

function joined({ answer, heads, isOff }) {
  const size = answer.result.length;
  const [from, to] = [answer.head * size, (answer.head + 1) * size - 1];
  const boxes = Array.from({ length: heads }, (_, head) => {
    const box = make("li", { textContent: `head ${head}` });
    if (head === answer.head) box.setAttribute("aria-current", "true");
    return box;
  });
  const off = isOff ? " The head is switched off here, so zeros stand there." : "";
  return item(
    "The heads, one after the other",
    `The results of all ${heads} heads stand one after the other in ${heads * size} numbers. Those of head ` +
      `${answer.head} have the places ${from} to ${to}, counted from 0.${off} The output projection then mixes all of them.`,
    [make("ol", { className: "all-heads" }, ...boxes)],
    null,
    ["concatenation", "Concatenation", "concatenate_heads"],
  );
}

/** One step with its words, pictures, table, and links to its term and to the reference. */
function item(title, text, pictures, numbers, [anchor, term, name]) {
  const link = (content) =>
    attributes(make("a", { href: `terms#${anchor}`, target: "_blank", rel: "noopener" }, content), {
      "aria-label": `${content.textContent} (opens a new tab)`,
    });
  const links = make("p", { className: "note" });
  links.append(
    "Term: ",
    link(make("span", { textContent: term })),
    ". In model/network/reference.py: ",
    link(make("code", { textContent: name })),
    ".",
  );
  const words = [make("h4", { textContent: title }), make("p", { textContent: text })];
  return make("li", {}, ...words, ...pictures, ...(numbers ? [numbers] : []), links);
}

/** Numbers as a row of coloured cells: blue above 0, orange below. */
function strip(name, numbers, largest, palette) {
  const canvas = make("canvas", { width: numbers.length, height: 1 });
  const context = canvas.getContext("2d");
  const image = context.createImageData(numbers.length, 1);
  new Uint32Array(image.data.buffer).set(
    numbers.map((value) => signedPixel(palette, value, largest)),
  );
  context.putImageData(image, 0, 0);
  const label = `${name}: ${numbers.length} numbers from ${number(Math.min(...numbers))} to ${number(Math.max(...numbers))}`;
  attributes(canvas, { role: "img", "aria-label": label });
  return make("div", { className: "vector" }, make("span", { className: "note", textContent: name }), canvas);
}

/** A part of a step that scrolls by itself, with the keys too. */
function frame(label, content) {
  const box = make("div", { className: "made-scroll", tabIndex: 0 }, content);
  return attributes(box, { role: "region", "aria-label": label });
}

/** A closed table of a step's numbers; `marked` is the row of the chosen token. */
function table(title, heads, rows, marked = null) {
  const top = heads.map((text) => attributes(make("th", { textContent: text }), { scope: "col" }));
  const lines = rows.map(([first, ...others], at) => {
    const cells = others.map((text) => make("td", { textContent: text }));
    const line = make("tr", {}, attributes(make("th", { textContent: first }), { scope: "row" }), ...cells);
    if (at === marked) line.setAttribute("aria-current", "true");
    return line;
  });
  const whole = make("table", {}, make("thead", {}, make("tr", {}, ...top)), make("tbody", {}, ...lines));
  return make("details", {}, make("summary", { textContent: title }), frame(title, whole));
}
