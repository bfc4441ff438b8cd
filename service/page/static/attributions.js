/**
 * Shows what moved a prediction. `Reasons` lists the words at once, by gradients and then by
 * integrated gradients with more steps, until little is missing from their sum. `Attributions`
 * lists every token when the user opens it.
 */

import { post, requireModel } from "./api.js";
import { signedTint } from "./canvas.js";
import { find, make } from "./elements.js";
import { chip } from "./tokens.js";
import { quoted, signed } from "./words.js";

export class Attributions {
  /** `onAnswer` gets an answer of /attributions, or null. */
  constructor(details, onAnswer, events) {
    this.details = details;
    this.onAnswer = onAnswer;
    this.events = events;
    this.part = (name) => find(details, name);
    this.asked = null;
    this.isOffered = true;
    this.controller = new AbortController();
    details.addEventListener("toggle", () => this.#ask());
  }

  /** Sets the sentence and the model that the part is about. */
  about({ sentence, level, model, window, changes }, palette) {
    this.palette = palette;
    // They are of the beginning of a text, which is its first window.
    this.details.hidden = !this.isOffered || window > 0 || changes !== null;
    const question = JSON.stringify([sentence, level, model.name, model.version]);
    if (question === this.question) {
      this.#ask();
      return;
    }
    this.controller.abort();
    this.question = question;
    this.model = model;
    this.body = level === "token" ? { sentence } : { sentence, level };
    this.answer = null;
    this.onAnswer(null);
    this.asked = null;
    this.part("div").replaceChildren();
    this.part(".note").textContent = "";
    this.#ask();
  }

  async #ask() {
    if (!this.details.open || this.details.hidden || !this.body || this.asked === this.question) return;
    this.asked = this.question;
    this.controller = new AbortController();
    const { signal } = this.controller;
    this.part(".note").textContent = "Asking …";
    this.events.announce("Asking what each token adds.");
    try {
      const answer = await post("/attributions", this.body, signal);
      requireModel(answer, this.model);
      this.answer = answer;
      this.onAnswer(answer);
      this.events.announce("What each token adds is shown.");
    } catch (problem) {
      if (signal.aborted) return;
      this.asked = null;
      this.isOffered = problem.type !== "not-found";
      this.details.hidden = !this.isOffered;
      if (!this.isOffered) return;
      this.part(".note").textContent = "";
      this.details.open = false;
      const again = () => this.details.setAttribute("open", "");
      this.events.onProblem(problem, again, this.details);
    }
  }

  draw(largest) {
    if (!this.answer) return;
    const { tokens, attributions, label, value, baseline_value: baseline, gap } = this.answer;
    const items = tokens.map((token, at) => {
      const colour = signedTint(this.palette, attributions[at], largest);
      return chip(token, signed(attributions[at], 2), signed(attributions[at], 6), colour);
    });
    this.part(".note").textContent =
      `Blue with + moved the model towards “${label}”, orange with − away from it. The log-odds ` +
      `of “${label}” are ${signed(value, 4)} for this text and ${signed(baseline, 4)} for one of ` +
      `only padding; the numbers add up to the difference but for ${signed(gap, 4)} ` +
      "(integrated gradients, Sundararajan, Taly and Yan 2017).";
    this.part("div").replaceChildren(make("ol", { className: "chips" }, ...items));
  }
}

// Each is asked if the one before leaves a gap that is too large.
const ROUNDS = [
  { method: "gradient_x_input" },
  { method: "integrated_gradients", steps: 8 },
  { method: "integrated_gradients", steps: 32 },
  { method: "integrated_gradients", steps: 128 },
];
const MOST_GAP = 0.03; // of the difference that the attributions add up to
const MOST_SHARE = 0.5; // of the time in which the service answers or gives up
const MOST_WORDS = 4;

export class Reasons {
  /** `onWords` gets the last answer of /attributions by word, or null. */
  constructor(element, onWords) {
    this.element = element;
    this.onWords = onWords;
    this.key = null;
    this.isOffered = true;
    this.part = (name) => find(element, name);
    this.controller = new AbortController();
  }

  /** Sets the sentence and the model that the part is about, and asks. */
  about({ sentence, model, windows, changes }) {
    // Attributions are of the beginning of a text, as it is.
    this.element.hidden = !this.isOffered || windows > 1 || changes !== null;
    const key = this.element.hidden ? null : JSON.stringify([sentence, model.name, model.version]);
    if (key === this.key) return;
    this.controller.abort();
    this.controller = new AbortController();
    this.key = key;
    this.onWords(null);
    this.#write("", "");
    if (key !== null) this.#refine(sentence, model, this.controller.signal);
  }

  async #refine(sentence, model, signal) {
    let last = null;
    this.#write("", "Asking what moved the verdict …");
    this.#say("Asking what moved the verdict.");
    let pace = 0; // milliseconds of a pass
    for (const round of ROUNDS) {
      // Two passes are for the ends of the path.
      const passes = (round.steps ?? 1) + 2;
      if (passes * pace > 1000 * model.limits.request_timeout * MOST_SHARE) {
        this.#show(last, " More steps would take this service too long.");
        break;
      }
      const begun = performance.now();
      try {
        const answer = await post("/attributions", { sentence, level: "word", ...round }, signal);
        requireModel(answer, model);
        last = answer;
        pace = (performance.now() - begun) / passes;
      } catch (problem) {
        if (!signal.aborted) this.#stop(problem, last);
        return;
      }
      this.#show(last);
      const isSum = round.method === "integrated_gradients";
      if (isSum && Math.abs(last.gap) <= MOST_GAP * Math.abs(last.value - last.baseline_value)) break;
    }
    this.#conclude();
  }

  #conclude() {
    this.#say(`What moved the verdict: ${this.part(".because").textContent}`);
  }

  /** After a failure the last answer stays; without any, the part says why there is none. */
  #stop(problem, last) {
    this.key = null;
    if (problem.type === "not-found") {
      this.isOffered = false;
      this.element.hidden = true;
    } else if (last === null) {
      this.#write("", `What moved the verdict is not known: ${problem.message}`);
      this.#say(this.part(".how").textContent);
    } else {
      this.#show(last, ` More exact numbers are not available: ${problem.message}`);
      this.#conclude();
    }
  }

  #show(answer, more = "") {
    const { tokens, attributions, label, value, baseline_value: baseline, gap, steps } = answer;
    const words = tokens
      .map((token, at) => ({ token, value: attributions[at] }))
      .filter(({ token }) => !token.special)
      .sort((one, other) => Math.abs(other.value) - Math.abs(one.value))
      .slice(0, MOST_WORDS)
      .map(({ token, value: its }) => `${quoted(token)} ${signed(its, 1)}`);
    const method =
      steps === null
        ? "Gradient times input, which need not add up to anything."
        : `Integrated gradients in ${steps} steps; they miss ${Math.abs(gap).toFixed(3)} of the ` +
          `${signed(value - baseline, 2)} between this text and only padding.`;
    this.#write(
      words.join(", "),
      `What words add to the log-odds of “${label}”: blue towards it, orange away. ${method} ` +
        `They are one measure by convention, and no account of what the model meant.${more}`,
    );
    this.onWords(answer);
  }

  /** Tells a screen reader, which hears only how the asking begins and ends. */
  #say(text) {
    this.part(".heard").textContent = text;
  }

  #write(because, how) {
    this.part(".because").textContent = because;
    this.part(".how").textContent = how;
  }
}
