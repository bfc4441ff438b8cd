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
import { grouped, percent, plain, POINT, reliability } from "./words.js";

const LONG = 80; // words of a text whose sentences come first
const MOST_CHECKED = 32; // parts whose verdict is asked for
const MOST_NAMED = 4; // parts that turn the verdict
const LEAST_SCALE = 0.05; // change of a probability: on a smaller scale, nothing would look like much
const PRESS = POINT === "Tap" ? "Tap" : "Press";
const WHOLE = { truncation: "window" };
const NOT_ENGLISH =
  "This does not look like English. The model learned from English texts, so it may well be wrong here.";

const isForeign = ({ warnings }) => Boolean(warnings?.includes("not-english"));

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
    this.#showFigures(prediction);
    const warning = this.part(".warning");
    warning.hidden = !isForeign(prediction);
    warning.textContent = NOT_ENGLISH;
    const { windows, token_count: tokens } = prediction;
    this.part(".extent").hidden = windows < 2;
    this.part(".extent").textContent =
      `A long text, read whole in ${windows} overlapping parts (${grouped(tokens)} tokens).`;
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

  /** What leaving out changes most, and what the numbers and colours are. */
  #because({ units, label, partial }, turning, asked) {
    // Where there is no time for the words of a long text, its sentences come instead.
    const noun = units.some(({ text }) => /\s/u.test(text.trim())) ? "sentence" : asked;
    const size = ({ probability_change: change }) => Math.abs(change);
    const [most] = [...units].sort((one, other) => size(other) - size(one));
    const parts = [];
    if (most && size(most) >= 0.01) {
      const verb = most.probability_change > 0 ? "falls" : "rises";
      const [from, to] = [most.probability + most.probability_change, most.probability].map(plain);
      parts.push(`Without ${this.#placed(most, units)}, ${label} ${verb} from ${from} to ${to}.`);
    } else if (partial) parts.push(`None of the ${units.length} ${noun}s that were tried changes ${label} by 1 point.`);
    else parts.push(`Leaving out any one ${noun} changes ${label} by less than 1 point.`);
    const [first] = turning ?? [];
    const some = (turning ?? []).slice(0, MOST_NAMED).map(({ unit }) => this.#placed(unit, units));
    const rest = (turning ?? []).length - some.length;
    if (first && turning.length === 1) {
      const isMost = first.unit === most;
      const it = isMost ? "It" : some[0];
      parts.push(`${it} decided the verdict, which turns to ${first.label} without it.`);
    } else if (first) {
      const more = rest > 0 ? ` and ${rest} more` : "";
      parts.push(`Each of these ${noun}s decided it: ${some.join(", ")}${more}. Without any one of them, the verdict turns.`);
    } else if (turning) parts.push(`No single ${noun} decided it: without any one, the verdict stays.`);
    const [[, own], [, other]] = sidesOf(label);
    const how = [
      partial && `Partial: there was no time for every ${asked}.`,
      `Marked in ${own}, a ${noun} speaks for ${label}: without it the probability falls. In ${other}, it speaks against it.`,
      `${PRESS} one to leave it out, and again to bring it back.`,
    ];
    return [parts.join(" "), how.filter(Boolean).join(" ")];
  }

  /** A part, quoted; one that comes several times with what stands beside it. */
  #placed(unit, units) {
    const at = units.indexOf(unit);
    const isOnly = units.filter(({ text }) => text === unit.text).length === 1;
    const near = units.slice(Math.max(at - 1, 0), at + 2).map(({ text }) => text);
    return isOnly ? named(unit.text) : `${named(unit.text)} (in ${named(near.join(" "))})`;
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
      button.style.backgroundColor = tint(palette[colour], 0.48 * (Math.abs(change) / largest) ** 0.6);
      button.title = `Without it: ${label} ${percent(probability)}`;
      button.classList.toggle("most", Math.abs(change) === largest);
    });
  }

  /** Shows the verdict of what is tried beside the verdict on the text, and its bars. */
  #showTried(prediction) {
    if (this.shown === null) return;
    this.#showFigures(prediction ?? this.shown.prediction);
    find(byId("answer"), ".now").textContent =
      prediction === null ? "" : `→ ${prediction.label}, ${plain(prediction.score)}`;
  }

  /** Shows the probability of each class, and how often such verdicts are right. */
  #showFigures(prediction) {
    const { model } = this.shown;
    const labels = Object.keys(prediction.probabilities);
    this.part("dl").replaceChildren(...classBars(prediction.probabilities));
    // The record is that of all classes, and of English texts.
    const record = isForeign(prediction) ? "" : reliability(model.thresholds, prediction.score);
    const among = `Chosen among ${labels.join(" and ")} only.`;
    this.part(".reliable").textContent = isSame(labels, model.labels) ? record : among;
  }

  #say(because, how = "") {
    this.part(".because").textContent = because;
    this.part(".how").textContent = how;
  }
}
