/** Sends requests to the service and reads its answers; whatever goes wrong is a Problem. */

let key = "";

/** Keeps the API key that the user typed; an empty one is not sent. */
export function useKey(given) {
  key = given.trim();
}

/** What went wrong, in the service's words if it gave any. */
export class Problem extends Error {
  constructor(type, detail, { title = undefined, retryAfter = null, isFinal = false } = {}) {
    super(detail);
    this.type = type;
    this.title = title;
    this.retryAfter = retryAfter;
    this.isFinal = isFinal;
  }
}

/** The headers of a request, with the key; a key that no header can hold is a Problem. */
function headersOf(given) {
  const headers = new Headers(given);
  try {
    if (key) headers.set("Authorization", `Bearer ${key}`);
  } catch {
    throw new Problem("key-unsendable", "", { isFinal: true });
  }
  return headers;
}

/** Asks, and returns the body of a good answer; a proxy may show the page under a longer path. */
async function ask(path, options, form = "json") {
  const headers = headersOf(options.headers);
  let response = null;
  try {
    response = await fetch(new URL(path.slice(1), document.baseURI), { ...options, headers });
    if (response.ok) return await response[form]();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("unreachable", response ? "The answer broke off before its end." : "The service cannot be reached.");
  }
  throw await problemOf(response, headers.has("Authorization"));
}

async function problemOf(response, hasKey) {
  const { status } = response;
  const isFinal = status >= 400 && status < 500 && ![408, 429].includes(status);
  const named = (type) => (type === "unauthorized" && hasKey ? "key-refused" : type);
  try {
    const { type, title, detail, retry_after: retryAfter } = await response.json();
    return new Problem(named(type.split("/").pop()), detail, { title, retryAfter, isFinal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    const seconds = Number.parseInt(response.headers.get("Retry-After"), 10);
    const type = { 401: "unauthorized", 503: "overloaded", 504: "timeout" }[status] ?? "unknown";
    const retryAfter = Number.isNaN(seconds) ? null : seconds;
    const detail = `The answer has status ${status} and no explanation.`;
    return new Problem(named(type), detail, { retryAfter, isFinal });
  }
}

export const get = (path, signal) => ask(path, { signal });

export function post(path, body, signal, form = "json") {
  const headers = { "Content-Type": "application/json" };
  return ask(path, { method: "POST", headers, body: JSON.stringify(body), signal }, form);
}

// What passes by itself, so that the page asks again.
const PASSING = {
  "not-ready": "The model is still loading.",
  overloaded: "The service is busy.",
  "rate-limited": "The service is busy.",
  draining: "The service is restarting.",
  unreachable: "The service cannot be reached.",
};
const LONGEST = 60; // seconds that the page waits before it asks again

const pause = (seconds, signal) =>
  new Promise((resolve, reject) => {
    setTimeout(resolve, 1000 * seconds);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });

/** Asks, and again while the service cannot answer for a reason that passes; `onWait` gets a sentence about it. */
export async function patiently(request, signal, onWait, tries = Infinity) {
  for (let [tried, wait] = [1, 1]; ; [tried, wait] = [tried + 1, Math.min(2 * wait, 16)]) {
    try {
      return await request();
    } catch (problem) {
      const seconds = problem.retryAfter ?? wait;
      if (signal.aborted || !(problem.type in PASSING) || tried === tries || seconds > LONGEST) throw problem;
      onWait(`${PASSING[problem.type]} This page asks again by itself.`);
      await pause(seconds + Math.random() / 2, signal);
    }
  }
}

export const isSameModel = (one, other) => one.name === other.name && one.version === other.version;

/** Throws a Problem if an answer is from another model. */
export function requireModel(answer, model) {
  if (isSameModel(answer.model, model)) return;
  const from = `The answer came from ${answer.model.name} ${answer.model.version}`;
  throw new Problem("model-changed", `${from}, not from ${model.name} ${model.version}.`);
}
