// Uses a generated client as a program would, and prints what came of it as JSON. Checked by tsc, run by node.
import { createClient, EventReader, outcome, SentinelError, textOf } from "./client.ts";
import type { MeasureInput, Outcome, Output, Problem, StreamRecord } from "./client.ts";

declare const process: { argv: string[] };
const [, , baseUrl = "", closed = "", vectors = "[]"] = process.argv;
const client = createClient({ baseUrl, timeoutMs: 20_000 });

const input: MeasureInput = {
  shapes: [
    { kind: "circle", radius: 1 },
    { kind: "rectangle", width: 2, height: 3 },
  ],
  unit: "cm",
  note: null,
  origin: [0, 0],
  weights: { circle: 2 },
  tree: { name: "a", children: [{ name: "b" }] },
  options: { "round-to": 2 },
};

/** Every code of a problem is a case of its own. */
function told(problem: Problem): string {
  switch (problem.code) {
    case "invalid_arguments":
    case "invalid_parameter":
      return `${problem.status} ${problem.issues.map((issue) => issue.pointer).join()}`;
    case "tool_error":
      return `${problem.status} ${textOf(problem)}`;
    case "input_required":
      return `${problem.status} ${Object.values(problem.inputRequests).map((asked) => asked.method).join()}`;
    default:
      return `${problem.status} ${problem.code}`;
  }
}

function failed<O>(result: Outcome<O>): string {
  return result.ok ? "no failure" : told(result.error);
}

async function calls() {
  const measured: Output<"measure"> = await client.call("measure", input);
  const said: { total: number; unit: "mm" | "cm" | "m" } = measured;
  return {
    measured: [said.total, said.unit, measured.by_kind["circle"], measured.depth, measured.note],
    echo: textOf(await client.call("echo", { text: "größe 😀" })),
    withoutInput: textOf(await client.call("whoami")).includes("sentinel"),
    prompt: (await client.prompt("greet", { who: "Ada" })).messages[0]?.content,
    text: (await client.read("test://static")).text(),
    template: (await client.read("test://items/a b")).type,
    binary: Array.from((await client.read("test://binary")).bytes.slice(1, 4)),
    unknownResource: failed(await outcome(client.read("nowhere://at/all"))),
  };
}

async function problems() {
  const wrong = { shapes: [{ kind: "circle", radius: -1 }], unit: "inch" } as unknown as MeasureInput;
  const unknown = "no_such_operation" as "echo";
  let thrown = "";
  try {
    await client.call("fail", { text: "it broke" });
  } catch (error) {
    if (error instanceof SentinelError) thrown = `${error.message}; ${told(error.problem)}`;
  }
  const html = () => Promise.resolve(new Response("<h1>Bad Gateway</h1>", { status: 502 }));
  const aborted = new AbortController();
  aborted.abort();
  return {
    invalid: failed(await client.safe("measure", wrong)),
    unknown: failed(await client.safe(unknown, { text: "" })),
    thrown,
    timedOut: failed(await client.safe("late", { ms: 60_000 }, { timeoutMs: 200 })),
    aborted: failed(await client.safe("echo", { text: "" }, { signal: aborted.signal })),
    closed: failed(await createClient({ baseUrl: closed }).safe("echo", { text: "" })),
    proxy: failed(await createClient({ baseUrl, fetch: html }).safe("echo", { text: "" })),
  };
}

async function streams() {
  const records: StreamRecord<Output<"chatty">>[] = [];
  for await (const record of client.stream("chatty", { n: 3 })) records.push(record);
  const last = records.at(-1);
  let partly = 0;
  for await (const record of client.stream("chatty", { n: 1000, ms: 50 })) {
    if (record.type === "progress") partly = record.progress;
    break;
  }
  let problem = "";
  try {
    for await (const record of client.stream("fail", { text: "it broke" })) problem = record.type;
  } catch (error) {
    problem = error instanceof SentinelError ? told(error.problem) : String(error);
  }
  return {
    progress: records.flatMap((record) => (record.type === "progress" ? [record.progress] : [])),
    logs: records.filter((record) => record.type === "log").length,
    result: last?.type === "result" ? textOf(last.result) : last,
    partly,
    problem,
  };
}

async function questions() {
  const first = await client.safe("ask", { message: "Who?" });
  if (first.ok || first.error.code !== "input_required") return { first };
  const question = Object.keys(first.error.inputRequests)[0] ?? "";
  const answers = { [question]: { action: "accept", content: { name: "Ada" } } } as const;
  const done = await first.error.continue(answers);
  const again = await client.safe("ask", { message: "Who now?" });
  const state = !again.ok && again.error.code === "input_required" ? again.error.requestState : "";
  const resumed = await client.resume("ask", { message: "Who now?" }, state, { [question]: { action: "decline" } });
  let asked = "";
  try {
    for await (const record of client.stream("ask", { message: "Who?" })) asked = record.type;
  } catch (error) {
    asked = error instanceof SentinelError ? told(error.problem) : String(error);
  }
  return {
    done: done.ok && textOf(done.value),
    resumed: resumed.ok && textOf(resumed.value),
    asked,
  };
}

/** What is sent beside the input. */
async function headers() {
  const sent: Record<string, string | null> = {};
  const spy: typeof fetch = (url, request) => {
    const given = new Headers(request?.headers);
    for (const name of ["authorization", "x-extra", "idempotency-key", "x-confirmation-token", "x-own"]) {
      sent[name] = given.get(name);
    }
    return fetch(url, request);
  };
  const token = () => Promise.resolve("secret");
  const own = createClient({ baseUrl: `${baseUrl}/`, token, headers: { "X-Extra": "1" }, fetch: spy });
  const options = { idempotencyKey: "k", confirmationToken: "c", headers: { "x-own": "2" } };
  await own.call("echo", { text: "" }, options);
  return sent;
}

/** Events whose bytes come in two pieces, cut at every place. */
function events() {
  const wrong: string[] = [];
  for (const [name, text, data] of JSON.parse(vectors) as [string, string, string[]][]) {
    const bytes = new TextEncoder().encode(text);
    for (let cut = 0; cut <= bytes.length; cut++) {
      const reader = new EventReader();
      const found = [...reader.push(bytes.slice(0, cut)), ...reader.push(bytes.slice(cut)), ...reader.end()];
      if (JSON.stringify(found) !== JSON.stringify(data)) wrong.push(`${name}, cut at ${cut}: ${JSON.stringify(found)}`);
    }
  }
  return wrong;
}

const all = {
  ...(await calls()),
  ...(await problems()),
  ...(await streams()),
  ...(await questions()),
  headers: await headers(),
  events: events(),
};
console.log(JSON.stringify(all));
