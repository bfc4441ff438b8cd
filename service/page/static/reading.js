/**
 * Shows *A text*: its verdict first, then what leaving out each word or sentence changes, and what
 * the reader tries. Each part is asked for by itself, so that one that fails takes nothing with it.
 */

import { post, requireModel } from "./api.js";
import { readPalette, sidesOf, tint } from "./canvas.js";
import { byId, find } from "./elements.js";
import { classBars } from "./prediction.js";
import { isSame } from "./question.js";
import { edited, named, Trials, wordsOf } from "./trials.js";
import { grouped, percent, plain, reliability } from "./words.js";

const LONG = 80; // words of a text whose sentences come first
const MOST_CHECKED = 32; // parts whose verdict is asked for
const LEAST_SCALE = 0.05; // change of a probability: on a smaller scale, nothing would look like much
const WHOLE = { truncation: "window" };
const NOT_ENGLISH =
  "This does not look like English. The model learned from English texts, so it may well be wrong here.";

export class Reading {
  /** `events` are `announce(text)`, `onProblem(problem, retry, place)`, `onTrial()`. */
  constructor(asker, events) {
    this.asker = asker;
    this.events = events;
    this.text = this.shown = this.reasons = null;
    this.element = byId("answer");
    this.part = (name) => find(this.element, name);
    this.controller = this.explaining = new AbortController();
    const onTried = (prediction) => this.#showTried(prediction);
    this.trials = new Trials(this.element, { ...events, onTried }, WHOLE);
    this.part(".unit").addEventListener("change", () => this.#explain());
    window
      .matchMedia("(prefers-color-scheme: dark)")
      .addEventListener("change", () => this.#shade());
  }

  /** Asks about a text; returns whether its verdict is shown. The page asks for an example itself. */
  async ask(text, isExample = false) {
    this.stop();
    this.controller = new AbortController();
    const { signal } = this.controller;
    this.text = text;
    this.element.setAttribute("aria-busy", "true");
    this.events.announce("Asking …");
    try {
      const { model, prediction } = await this.asker.predict(text, WHOLE, signal);
      if (signal.aborted) return false;
      this.#show(model, prediction, isExample);
    } catch (problem) {
      if (signal.aborted) return false;
      this.text = this.shown = null;
      this.element.hidden = true;
      this.events.announce("");
      if (!isExample) this.events.onProblem(problem, () => this.ask(text));
      return false;
    } finally {
      if (!signal.aborted) this.element.removeAttribute("aria-busy");
    }
    this.#explain();
    return true;
  }

  stop() {
    this.controller.abort();
    this.explaining.abort();
  }

  /** Leads to the verdict, which a reader may have to scroll to. */
  focus() {
    const verdict = this.part(".verdict");
    verdict.focus({ preventScroll: true });
    verdict.scrollIntoView({ block: "nearest" });
  }

  #show(model, prediction, isExample) {
    this.shown = { model, prediction };
    this.element.hidden = false;
    this.part(".label").textContent = prediction.label;
    const score = this.part(".score");
    score.textContent = plain(prediction.score);
    score.title = String(prediction.score);
    const isAll = isSame(Object.keys(prediction.probabilities), model.labels);
    this.part(".reliable").textContent = isAll
      ? reliability(model.thresholds, prediction.score)
      : `Chosen among ${Object.keys(prediction.probabilities).join(" and ")} only.`;
    this.part("dl").replaceChildren(...classBars(prediction.probabilities));
    const warning = this.part(".warning");
    warning.hidden = !prediction.warnings?.includes("not-english");
    warning.textContent = NOT_ENGLISH;
    const { windows, token_count: tokens } = prediction;
    this.part(".extent").hidden = windows < 2;
    this.part(".extent").textContent =
      `A long text: ${grouped(tokens)} tokens, read whole in ${windows} overlapping windows.`;
    const isLong = wordsOf(this.text).length > LONG;
    this.part(`.unit input[value=${isLong ? "sentence" : "word"}]`).checked = true;
    this.trials.about(this.text, model, prediction);
    const verdict = `${prediction.label}, ${plain(prediction.score)}.`;
    this.events.announce(`${isExample ? "An example: " : ""}${verdict}`);
    if (!isExample) this.focus();
  }

  async #explain() {
    this.explaining.abort();
    this.explaining = new AbortController();
    const { signal } = this.explaining;
    const { model, prediction } = this.shown;
    const level = this.part(".unit :checked").value;
    this.reasons = null;
    this.trials.offer(level === "word" ? wordsOf(this.text) : []);
    this.#say(`Leaving out each ${level}, to see what changes …`);
    try {
      const { label } = prediction;
      const body = { sentence: this.text, method: "leave_out", level, label, ...WHOLE };
      const answer = await post("/attributions", body, signal);
      requireModel(answer, model);
      const turning = await this.#turning(answer, signal).catch(() => null);
      if (signal.aborted) return;
      this.reasons = answer;
      this.trials.offer(answer.units);
      this.#shade();
      this.#say(...this.#because(answer, turning, level));
    } catch (problem) {
      if (signal.aborted) return;
      this.trials.offer(wordsOf(this.text));
      this.#say("", `What leaving out changes is not computed: ${problem.message}`);
    }
  }

  /** The parts without which the verdict is another, with that verdict; null if not all are known. */
  async #turning({ units, label, partial }, signal) {
    // Above one half the label keeps the verdict.
    const near = units
      .filter(({ probability }) => probability < 0.5)
      .sort((one, other) => one.probability - other.probability)
      .map((unit) => ({ unit, text: edited(this.text, [[unit.start, unit.end, ""]]) }))
      .filter(({ text }) => text.trim() !== "");
    const { model } = this.shown;
    const asked = near.slice(0, Math.min(MOST_CHECKED, model.limits.max_sentences));
    if (asked.length === 0) return partial ? null : [];
    const answer = await post("/predict", { sentences: asked.map(({ text }) => text), ...WHOLE }, signal);
    requireModel(answer, model);
    const turned = asked
      .map(({ unit }, at) => ({ unit, label: answer.predictions[at].label }))
      .filter((each) => each.label !== label);
    return turned.length === 0 && (partial || asked.length < near.length) ? null : turned;
  }

  /** What leaving out changes most, and what the numbers are. */
  #because({ units, label, partial }, turning, level) {
    const size = ({ probability_change: change }) => Math.abs(change);
    const [most] = [...units].sort((one, other) => size(other) - size(one));
    const parts = [];
    if (most && size(most) >= 0.01) {
      const verb = most.probability_change > 0 ? "falls" : "rises";
      const [from, to] = [most.probability + most.probability_change, most.probability].map(plain);
      parts.push(`Without ${named(most.text)}, ${label} ${verb} from ${from} to ${to}.`);
    } else parts.push(`Leaving out any one ${level} changes ${label} by less than 1 point.`);
    const [first] = turning ?? [];
    if (turning?.length === 1) parts.push(`It decided the verdict, which turns to ${first.label} without it.`);
    else if (first) parts.push(`Each of ${turning.length} ${level}s decided it: without one, the verdict turns.`);
    else if (turning) parts.push(`No single ${level} decided it: without any one, the verdict stays.`);
    const more = partial ? `Partial: there was no time for every ${level}. ` : "";
    const [[, own], [, other]] = sidesOf(label);
    const legend = `Marked in ${own}, a ${level} speaks for ${label}: without it the probability falls. In ${other}, it speaks against it.`;
    return [parts.join(" "), `${more}${legend}`];
  }

  /** Colours the parts by what leaving them out changes. */
  #shade() {
    if (this.reasons === null) return;
    const { units, label } = this.reasons;
    const [palette, sides] = [readPalette(), sidesOf(label)];
    const largest = units.reduce((most, unit) => Math.max(most, Math.abs(unit.probability_change)), LEAST_SCALE);
    units.forEach(({ probability, probability_change: change }, at) => {
      const button = this.trials.buttons[at];
      const [colour] = sides[change < 0 ? 1 : 0];
      // The power lets the second and third word be seen beside a first one that decides.
      button.style.backgroundColor = tint(palette[colour], 0.5 * (Math.abs(change) / largest) ** 0.6);
      button.title = `Without it: ${label} ${percent(probability)}`;
    });
  }

  /** Shows the verdict of what is tried beside the verdict on the text. */
  #showTried(prediction) {
    find(byId("answer"), ".now").textContent =
      prediction === null ? "" : `→ ${prediction.label}, ${plain(prediction.score)}`;
  }

  #say(because, how = "") {
    this.part(".because").textContent = because;
    this.part(".how").textContent = how;
  }
}
