// Compiles with the types that openapi-typescript made in `schema.ts`.

import type { components, paths } from "./schema";

type Predict = paths["/predict"]["post"];
type Answer = components["schemas"]["PredictAnswer"];
type Sent = Predict["requestBody"]["content"]["application/json"];
type Received = Predict["responses"][200]["content"]["application/json"];

export const asked: Sent[] = [
  { sentences: ["A superb film."], truncation: "window" },
  { inputs: "A superb film.", truncation_direction: "Left" },
];

export const received = (answer: Answer): Received => answer;

export const labels = (answer: Answer): (string | null)[] =>
  answer.predictions.map((each) => ("error" in each ? each.error.type : each.label));

// @ts-expect-error A misspelt field is an error.
export const misspelt: components["schemas"]["PredictRequest"] = { sentence: "A superb film." };
