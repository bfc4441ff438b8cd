// Asks a service with the client of Hugging Face: the address, then its token or "", then what to
// send as JSON. Prints the answer, or what the client throws, as JSON.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [url, token, sent] = process.argv.slice(2);
// The packages lie in the working directory, not beside this file.
const require = createRequire(pathToFileURL(`${process.cwd()}/`));
const { InferenceClient } = await import(require.resolve("@huggingface/inference"));

const client = new InferenceClient(token || undefined).endpoint(url);
try {
  const answer = await client.textClassification(JSON.parse(sent));
  console.log(JSON.stringify({ answer }));
} catch (error) {
  const { status, body } = error.httpResponse ?? {};
  console.log(JSON.stringify({ thrown: error.name, message: error.message, status, body }));
}
