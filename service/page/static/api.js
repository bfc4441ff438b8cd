/**
 * From a path and a body to the service's answer; whatever goes wrong is a Problem.
 * The key stays in this module's memory alone.
 */

let key = "";

/** Keeps the API key that the user typed; an empty one is not sent. */
export function useKey(given) {
  key = given.trim();
}

/** What went wrong, in the service's words where it gave some. */
export class Problem extends Error {
  /**
   * @param {string} type the last word of the problem's type, such as `overloaded`;
   *   `unreachable` where no answer came, `unknown` where it was none of the service's
   * @param {string} detail for people
   * @param {?number} retryAfter seconds
   */
  constructor(type, detail, retryAfter = null) {
    super(detail);
    this.type = type;
    this.retryAfter = retryAfter;
  }
}

/** Asks, and returns the response if it is a good one. */
async function send(path, options) {
  const headers = { ...options.headers };
  if (key) headers.Authorization = `Bearer ${key}`;
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("unreachable", "The service cannot be reached.");
  }
  if (!response.ok) throw await problemOf(response);
  return response;
}

async function problemOf(response) {
  try {
    const { type, detail, retry_after: retryAfter } = await response.json();
    return new Problem(type.split("/").pop(), detail, retryAfter ?? null);
  } catch {
    const seconds = Number.parseInt(response.headers.get("Retry-After"), 10);
    const type = { 401: "unauthorized", 503: "overloaded", 504: "timeout" }[response.status];
    return new Problem(
      type ?? "unknown",
      `The answer has status ${response.status} and says no more.`,
      Number.isNaN(seconds) ? null : seconds,
    );
  }
}

async function read(response, form) {
  try {
    return await response[form]();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("unreachable", "The answer broke off before its end.");
  }
}

/** The JSON answer of a GET. */
export async function get(path, signal) {
  return read(await send(path, { signal }), "json");
}

/**
 * The answer of a POST.
 * @param {string} form how to read it: `json` or `blob`
 */
export async function post(path, body, signal, form = "json") {
  const headers = { "Content-Type": "application/json" };
  return read(await send(path, { method: "POST", headers, body: JSON.stringify(body), signal }), form);
}
