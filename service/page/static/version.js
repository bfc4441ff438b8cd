/** Which model an answer is of. A served model can be replaced while the page is open. */

import { Problem } from "./api.js";

/** Whether two names with versions are of one model. */
export const isSame = (one, other) => one.name === other.name && one.version === other.version;

/** Raises a Problem if an answer is not of a model. */
export function requireModel(answer, model) {
  if (isSame(answer.model, model)) return;
  const told = `The answer is of ${answer.model.name} ${answer.model.version}`;
  throw new Problem("model-changed", `${told}, not of ${model.name} ${model.version}.`);
}
