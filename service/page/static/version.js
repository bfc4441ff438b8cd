/** Tells which model an answer is from: it can be replaced while the page is open. */

import { Problem } from "./api.js";

/** Whether two descriptions are of one model. */
export const isSame = (one, other) => one.name === other.name && one.version === other.version;

/** Throws a Problem if an answer is from another model. */
export function requireModel(answer, model) {
  if (isSame(answer.model, model)) return;
  const told = `The answer is of ${answer.model.name} ${answer.model.version}`;
  throw new Problem("model-changed", `${told}, not of ${model.name} ${model.version}.`);
}
