// Uses what openapi-typescript makes of /openapi.json, with openapi-fetch. Checked by tsc, run by node.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.d.ts";

declare const process: { argv: string[] };
// An operation answers in more media types than JSON; these are those that are wanted.
type Media = "application/json" | "application/problem+json";
const client = createClient<paths, Media>({ baseUrl: process.argv[2] ?? "" });

const input: components["schemas"]["MeasureInput"] = {
  shapes: [
    { kind: "circle", radius: 1 },
    { kind: "rectangle", width: 2, height: 3 },
  ],
  unit: "cm",
  weights: { circle: 2 },
  tree: { name: "a", children: [{ name: "b" }] },
  options: { "round-to": 2 },
};

const measured = await client.POST("/api/measure", { body: input });
const total: number | undefined = measured.data?.total;
const echoed = await client.GET("/api/echo", { params: { query: { text: "größe & more" } } });
const block = echoed.data?.content?.[0];

const wrong = { shapes: [], unit: "inch" } as unknown as typeof input;
const invalid = await client.POST("/api/measure", { body: wrong });
const issues: string[] | undefined = invalid.error?.issues?.map((issue) => issue.pointer);
const failed = await client.POST("/api/fail", { body: { text: "it broke" } });

const streamed = await client.POST("/api/chatty", {
  body: { n: 3 },
  headers: { Accept: "text/event-stream" },
  parseAs: "stream",
});
let text = "";
const decoder = new TextDecoder();
const reader = streamed.data?.getReader();
for (let piece = await reader?.read(); piece && !piece.done; piece = await reader?.read()) {
  text += decoder.decode(piece.value, { stream: true });
}

console.log(
  JSON.stringify({
    total,
    echoed: block?.type === "text" ? block.text : block,
    invalid: [invalid.response.status, invalid.error?.code, issues],
    failed: [failed.error?.status, failed.error?.code, failed.error?.detail],
    records: [...text.matchAll(/^event: (\w+)$/gm)].map((match) => match[1]),
  }),
);
