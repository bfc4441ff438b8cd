/**
 * Shows "How this weight was made": the steps from a query and a key to a weight, and on to the
 * result of the head. Each names its term and the function of the reference.
 */

import { post, Problem, requireModel } from "./api.js";
import { signedPixel, tint } from "./canvas.js";
import { find, heading, make, options, range, table } from "./elements.js";
import { chip } from "./tokens.js";
import { isNothing, reader } from "./weights.js";
import { gives, quoted, short } from "./words.js";

const LEAST = 5e-5; // a difference that four decimals show

export class Steps {
  constructor(button, element, events) {
    this.button = button;
    this.element = element;
    this.events = events;
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

  /** Sets the head that the part is about, and what is chosen in it. */
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

  pin(chosen) {
    if (!this.button.hidden && this.head && !isNothing(chosen)) this.#set(this.#pairOf(chosen));
  }

  /** The chosen pair; what is missing of it has the largest weight. */
  #pairOf({ query, key }) {
    const { shown } = this.head;
    const weightOf = reader(this.head);
    let best = { query: shown[0], key: shown[0], weight: -1 };
    for (const from of query === null ? shown : [query]) {
      for (const to of key === null ? shown : [key]) {
        const weight = weightOf(from, to);
        if (weight > best.weight) best = { query: from, key: to, weight };
      }
    }
    return { query: best.query, key: best.key };
  }

  #name() {
    const names = this.head.weights.tokens.map(({ text }, at) => `${at}: ${text}`);
    for (const part of [".of-query", ".of-key"]) {
      this.part(part).replaceChildren(...options(names));
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
    this.#clear("Asking …");
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
      if (this.isOffered) this.events.onProblem(problem, () => this.#open(), this.button);
    }
  }

  #clear(note) {
    this.part(".made-note").textContent = note;
    this.part(".making").replaceChildren();
  }

  #show() {
    const { answer, pair } = this;
    const { tokens } = this.head.weights;
    const { model, changes } = this.question;
    const weight = answer.weights[pair.key];
    const drawn = reader(this.head)(pair.query, pair.key);
    const rounded = ` The map shows ${short(drawn)}: the service computes in ${model.dtype}, which rounds more.`;
    const map = Math.abs(weight - drawn) >= LEAST ? rounded : "";
    this.part(".made-note").textContent = `All numbers here are computed in float32.${map}`;
    const isOff = (changes?.fields.head_mask ?? []).some(
      (one) => one.layer === answer.layer && (one.head ?? answer.head) === answer.head,
    );
    fillSteps(this.part(".making"), { answer, key: pair.key, heads: model.num_heads, isOff }, this.palette);
    const text = gives(tokens, pair.query, pair.key, weight);
    this.part(".made-said").textContent = text;
    this.events.announce(`Layer ${answer.layer}, head ${answer.head}: ${text}, in five steps.`);
  }
}

/** A number with four decimals and a minus as people write it. */
const number = (value) => value.toFixed(4).replace("-", "−");
const most = (...lists) => Math.max(...lists.map((list) => Math.max(...list.map(Math.abs))));

function fillSteps(list, shown, palette) {
  const open = [...list.querySelectorAll("details")].map((details) => details.open);
  const steps = [vectors, product, softmax, valuePart, joined].map((draw) => draw(shown, palette));
  list.replaceChildren(...steps);
  list.querySelectorAll("details").forEach((details, at) => {
    details.open = open[at] ?? false;
  });
}

function vectors({ answer, key }, palette) {
  const { query_vector: query, keys, tokens } = answer;
  const names = [`query of ${quoted(tokens[answer.query])}`, `key of ${quoted(tokens[key])}`];
  const largest = most(query, keys[key]);
  return step(
    "The query and the key",
    `Head ${answer.head} of layer ${answer.layer} has its own projections. They turn the one token into a ` +
      `query and the other into a key, each of ${query.length} numbers.`,
    [strip(names[0], query, largest, palette), strip(names[1], keys[key], largest, palette)],
    numbersTable("The query and the key as a table", names, [query, keys[key]]),
    ["heads", "Heads", "split_heads"],
  );
}

function product({ answer, key }, palette) {
  const { query_vector: query, keys, scale, scores } = answer;
  const products = query.map((value, at) => value * keys[key][at]);
  const sum = products.reduce((total, each) => total + each, 0);
  const columns = [query, keys[key], products];
  return step(
    "The score",
    `The products of both, feature by feature, add up to ${number(sum)}. Divided by √${query.length} ` +
      `= ${number(1 / scale)} this is the score: ${number(scores[key])}.`,
    [strip("query × key", products, most(products), palette)],
    numbersTable("The products as a table", ["query", "key", "query × key"], columns),
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
    const colour = tint(palette.out, (0.4 * weights[at]) / (largest || 1));
    const item = chip(token, short(weights[at]), `score ${number(scores[at])}`, colour);
    if (at === key) item.setAttribute("aria-current", "true");
    return item;
  });
  const label = `Weights that ${quoted(tokens[query])} gives`;
  return step(
    "The softmax of the row",
    `${quoted(tokens[query])} has a score for each of ${tokens.length} tokens; the largest is ${number(top)}. ` +
      `e^(${number(scores[key])} ${top < 0 ? "+" : "−"} ${number(Math.abs(top))}) = ${number(powers[key])}, divided by the sum of all such ` +
      `powers, ${number(sum)}, is the weight: ${short(weights[key])}. Subtracting the largest score ` +
      "keeps the powers small, and changes no weight.",
    [frame(label, make("ol", { className: "chips softmax-row" }, ...chips))],
    numbersTable("The row as a table", ["score", "power", "weight"], [scores, powers, weights], tokens, key),
    ["softmax", "Softmax", "softmax"],
  );
}

function valuePart({ answer, key }, palette) {
  const { values, weights, result, tokens } = answer;
  const value = values[key];
  const share = value.map((each) => each * weights[key]);
  const largest = most(value, result);
  const names = [`value of ${quoted(tokens[key])}`, `${short(weights[key])} × value`, "result of the head"];
  const columns = [value, share, result];
  const strips = columns.map((each, at) => strip(names[at], each, largest, palette));
  return step(
    "The value’s part in the result",
    `The value of ${quoted(tokens[key])} counts ${short(weights[key])} times. The result of the head is the ` +
      `sum of such parts over all ${tokens.length} tokens.`,
    strips,
    numbersTable("The values as a table", names, columns),
    ["weighted-sum", "Weighted sum", "multi_head_attention"],
  );
}

function joined({ answer, heads, isOff }) {
  const size = answer.result.length;
  const [from, to] = [answer.head * size, (answer.head + 1) * size - 1];
  const boxes = range(heads).map((head) => {
    const box = make("li", { textContent: `head ${head}` });
    if (head === answer.head) box.setAttribute("aria-current", "true");
    return box;
  });
  const off = isOff ? " The head is switched off here, so zeros stand there." : "";
  return step(
    "The heads, one after the other",
    `The results of all ${heads} heads stand one after the other in ${heads * size} numbers. Those of head ` +
      `${answer.head} have the places ${from} to ${to}, counted from 0.${off} The output projection then mixes all of them.`,
    [make("ol", { className: "all-heads" }, ...boxes)],
    null,
    ["concatenation", "Concatenation", "concatenate_heads"],
  );
}

/** One step with its words, pictures, table, and links to its term and to the reference. */
function step(title, text, pictures, numbers, [anchor, term, reference]) {
  const link = (tag, words) => {
    const ariaLabel = `${words} (opens a new tab)`;
    const to = { href: `terms#${anchor}`, target: "_blank", rel: "noopener", ariaLabel };
    return make("a", to, make(tag, {}, words));
  };
  const links = make("p", { className: "note" });
  links.append("Term: ", link("span", term), ". In model/network/reference.py: ", link("code", reference), ".");
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
  Object.assign(canvas, { role: "img", ariaLabel: label });
  return make("div", { className: "vector" }, make("span", { className: "note", textContent: name }), canvas);
}

/** A part of a step that scrolls by itself, with the keys too. */
function frame(label, content) {
  const box = { className: "made-scroll", tabIndex: 0, role: "region", ariaLabel: label };
  return make("div", box, content);
}

/** A closed table with a column for each list of numbers, and a row for each token or feature. */
function numbersTable(title, names, columns, tokens = null, marked = 0) {
  const top = [tokens ? "token" : "feature", ...names].map((name) => heading(name));
  const rows = columns[0].map((_, at) => ({
    name: tokens ? tokens[at].text : String(at),
    cells: columns.map((column) => number(column[at])),
  }));
  const whole = table(null, [make("tr", {}, ...top)], rows);
  if (tokens) whole.tBodies[0].rows[marked].setAttribute("aria-current", "true");
  return make("details", {}, make("summary", { textContent: title }), frame(title, whole));
}
