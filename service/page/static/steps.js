/**
 * Shows "How this weight was made": the steps from a query and a key to a weight, and on to the
 * result of the head. Each names its term and the function of the reference.
 */

import { post, Problem, requireModel } from "./api.js";
import { fields } from "./attention.js";
import { signedPixel, tint } from "./canvas.js";
import { paint } from "./drawing.js";
import { range } from "./elements.js";
import { html, render } from "./preact.js";
import { isNothing, largestOf, NOTHING, pairsOf, ranked, reader } from "./weights.js";
import { gives, quoted, short } from "./words.js";

const LEAST = 5e-5; // a difference that four decimals show

export class Steps {
  constructor(button, element, events) {
    this.button = button;
    this.element = element;
    this.events = events;
    this.controller = new AbortController();
    this.isOffered = true;
    this.head = this.question = this.palette = this.answer = this.key = null;
    this.pair = NOTHING;
    button.addEventListener("click", () => this.#open());
    element.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation(); // it would take back the choice of the token too
      this.#close();
    });
  }

  /** Sets the head that the part is about, and what is chosen in it. */
  choose(question, head, isOne, chosen, palette) {
    // While it is open, another head shows the same pair.
    const isKept = !this.element.hidden && this.head?.weights === head.weights;
    this.question = question;
    this.head = head;
    this.palette = palette;
    this.button.hidden = !this.isOffered || !isOne || question.level !== "token";
    if (this.button.hidden) this.#hide();
    else this.#set(isKept ? this.pair : chosen);
  }

  pin(chosen) {
    if (!this.button.hidden && this.head && !isNothing(chosen)) this.#set(chosen);
  }

  #set(pair) {
    this.pair = pair;
    this.#ask();
  }

  /** Fills what is missing of the pair: it has the largest weight. */
  #complete() {
    const weightOf = reader(this.head);
    const choices = ["query", "key"].map((name) => (this.pair[name] === null ? this.head.shown : [this.pair[name]]));
    const [[[query, key]]] = ranked(pairsOf(...choices), ([from, to]) => weightOf(from, to), 1);
    this.pair = { query, key };
  }

  #open() {
    this.element.hidden = false;
    this.button.setAttribute("aria-expanded", "true");
    this.#ask();
    this.element.querySelector("h3").focus();
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

  async #ask() {
    if (this.element.hidden) return;
    this.#complete();
    const { weights, row, column } = this.head;
    const { model } = this.question;
    const place = { layer: weights.layers[row], head: weights.heads[column], query: this.pair.query };
    const body = { ...fields(this.question, weights.layers, weights.heads), ...place };
    const key = JSON.stringify([body, model.name, model.version]);
    const isKnown = key === this.key;
    if (!isKnown) this.answer = null;
    this.key = key;
    this.#show();
    if (isKnown) return;
    this.controller.abort();
    this.controller = new AbortController();
    const { signal } = this.controller;
    try {
      const answer = await post("/attention/steps", body, signal);
      requireModel(answer, model);
      if (answer.tokens.length !== weights.size) {
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

  #show() {
    const { answer, pair } = this;
    const { tokens } = this.head.weights;
    if (answer) {
      this.said = gives(tokens, pair.query, pair.key, answer.weights[pair.key]);
      this.events.announce(`Layer ${answer.layer}, head ${answer.head}: ${this.said}, in five steps.`);
    }
    const choice = (name) => html`
      <select class="of-${name}" value=${pair[name]}
        onChange=${({ target }) => this.#set({ ...pair, [name]: Number(target.value) })}>
        ${tokens.map(({ text }, at) => html`<option value=${at}>${at}: ${text}</option>`)}
      </select>`;
    const part = html`
      <div class="top-line"><h3 class="made-title" tabindex="-1">How this weight was made</h3>
        <button type="button" class="quiet shut" onClick=${() => this.#close()}>Close</button></div>
      <div class="row"><label>From ${choice("query")}</label> <label>to ${choice("key")}</label></div>
      <p class="made-said">${this.said}</p>
      <p class="made-note note">${answer ? this.#note() : "Asking …"}</p>
      <ol class="making">${answer && making(this)}</ol>`;
    render(part, this.element);
  }

  #note() {
    const drawn = reader(this.head)(this.pair.query, this.pair.key);
    const isSame = Math.abs(this.answer.weights[this.pair.key] - drawn) < LEAST;
    const note = "All numbers here are computed in float32.";
    if (isSame) return note;
    const { dtype } = this.question.model;
    return `${note} The map shows ${short(drawn)}: the service computes in ${dtype}, which rounds more.`;
  }
}

/** A number with four decimals and a minus as people write it. */
const number = (value) => value.toFixed(4).replace("-", "−");
const sumOf = (numbers) => numbers.reduce((total, each) => total + each, 0);

function making({ answer, pair: { key }, question: { model, changes }, palette }) {
  const { query_vector: query, keys, values, scale, scores, weights, result, tokens, layer, head } = answer;
  const size = result.length;
  const heads = model.num_heads;
  const [from, to] = [quoted(tokens[answer.query]), quoted(tokens[key])];
  const vectors = [[`query of ${from}`, query], [`key of ${to}`, keys[key]]];
  const products = query.map((value, at) => value * keys[key][at]);
  const top = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - top));
  const difference = `${number(scores[key])} ${top < 0 ? "+" : "−"} ${number(Math.abs(top))}`;
  const largest = largestOf(weights) || 1;
  const weight = short(weights[key]);
  const parts = [
    [`value of ${to}`, values[key]],
    [`${weight} × value`, values[key].map((each) => each * weights[key])],
    ["result of the head", result],
  ];
  const isOff = changes?.fields.head_mask?.some((one) => one.layer === layer && (one.head ?? head) === head);
  return html`
    <${Step} title="The query and the key" term="Heads" source="split_heads">
      <p>Head ${head} of layer ${layer} has its own projections. They turn the one token into a query and
        the other into a key, each of ${query.length} numbers.</p>
      <${Strips} named=${vectors} palette=${palette} />
      <${Numbers} title="The query and the key as a table" named=${vectors} />
    <//>
    <${Step} title="The score" term="Scaled dot product" source="scaled_dot_product_score">
      <p>The products of both, feature by feature, add up to ${number(sumOf(products))}. Divided
        by √${size} = ${number(1 / scale)} this is the score: ${number(scores[key])}.</p>
      <${Strips} named=${[["query × key", products]]} palette=${palette} />
      <${Numbers} title="The products as a table"
        named=${[["query", query], ["key", keys[key]], ["query × key", products]]} />
    <//>
    <${Step} title="The softmax of the row" term="Softmax" source="softmax">
      <p>${from} has a score for each of ${tokens.length} tokens; the largest is ${number(top)}.
        e^(${difference}) = ${number(powers[key])}, divided by the sum of all such
        powers, ${number(sumOf(powers))}, is the weight: ${weight}. Subtracting the largest score keeps
        the powers small, and changes no weight.</p>
      <${Frame} label="Weights that ${from} gives"><ol class="chips softmax-row">
        ${tokens.map(({ text }, at) => html`
          <li title="score ${number(scores[at])}" aria-current=${at === key ? "true" : null}
            style=${{ backgroundColor: tint(palette.out, (0.4 * weights[at]) / largest) }}>
            <bdi class="name">${text}</bdi><span class="figure">${short(weights[at])}</span></li>`)}
      </ol><//>
      <${Numbers} title="The row as a table" tokens=${tokens} marked=${key}
        named=${[["score", scores], ["power", powers], ["weight", weights]]} />
    <//>
    <${Step} title="The value’s part in the result" term="Weighted sum" source="multi_head_attention">
      <p>The value of ${to} counts ${weight} times. The result of the head is the sum of such parts over
        all ${tokens.length} tokens.</p>
      <${Strips} named=${parts} palette=${palette} />
      <${Numbers} title="The values as a table" named=${parts} />
    <//>
    <${Step} title="The heads, one after the other" term="Concatenation" source="concatenate_heads">
      <p>The results of all ${heads} heads stand one after the other in ${heads * size} numbers. Those
        of head ${head} have the places ${head * size} to ${(head + 1) * size - 1}, counted from 0.
        ${isOff ? " The head is switched off here, so zeros stand there." : ""} The output projection then
        mixes all of them.</p>
      <ol class="all-heads">${range(heads).map((one) => html`
        <li aria-current=${one === head ? "true" : null}>head ${one}</li>`)}</ol>
    <//>`;
}

/** One step, with links to its term and to the reference. */
function Step({ title, term, source, children }) {
  const link = (words, content) => html`
    <a href="terms#${term.toLowerCase().replaceAll(" ", "-")}" target="_blank" rel="noopener"
      aria-label="${words} (opens a new tab)">${content}</a>`;
  return html`<li><h4>${title}</h4>${children}
    <p class="note">Term: ${link(term, html`<span>${term}</span>`)}. In
      model/network/reference.py: ${link(source, html`<code>${source}</code>`)}.</p></li>`;
}

/** Named vectors as rows of coloured cells on one scale: blue above 0, orange below. */
function Strips({ named, palette }) {
  const largest = Math.max(...named.flatMap(([, numbers]) => numbers.map(Math.abs)));
  return named.map(([name, numbers]) => {
    const draw = (canvas) => canvas && paint(canvas, numbers.length, 1, (at) => signedPixel(palette, numbers[at], largest));
    const ends = `from ${number(Math.min(...numbers))} to ${number(Math.max(...numbers))}`;
    return html`<div class="vector"><span class="note">${name}</span>
      <canvas role="img" aria-label="${name}: ${numbers.length} numbers ${ends}" ref=${draw} /></div>`;
  });
}

/** A part of a step that scrolls by itself, with the keys too. */
const Frame = ({ label, children }) => html`
  <div class="made-scroll" tabindex="0" role="region" aria-label=${label}>${children}</div>`;

/** A closed table with a column for each list of numbers, and a row for each token or feature. */
const Numbers = ({ title, named, tokens, marked }) => html`
  <details><summary>${title}</summary><${Frame} label=${title}><table>
    <thead><tr>${[tokens ? "token" : "feature", ...named.map(([name]) => name)].map((name) => html`
      <th scope="col">${name}</th>`)}</tr></thead>
    <tbody>${named[0][1].map((_, at) => html`
      <tr aria-current=${at === marked ? "true" : null}><th scope="row">${tokens?.[at].text ?? at}</th>
        ${named.map(([, numbers]) => html`<td>${number(numbers[at])}</td>`)}</tr>`)}</tbody>
  </table><//></details>`;
