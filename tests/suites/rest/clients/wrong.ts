// Mistakes that the compiler must find: it complains about a line without one.
import { createClient } from "./client.ts";

const client = createClient({ baseUrl: "" });
const circle = { kind: "circle", radius: 1 } as const;

export async function mistakes() {
  // @ts-expect-error an operation that does not exist
  await client.call("no_such_operation", {});
  // @ts-expect-error a required member is missing
  await client.call("measure", { shapes: [circle] });
  // @ts-expect-error input is required
  await client.call("measure");
  // @ts-expect-error a number in place of a text
  await client.call("echo", { text: 5 });
  // @ts-expect-error a member that does not exist
  await client.call("echo", { text: "", loud: true });
  // @ts-expect-error no such unit
  await client.call("measure", { shapes: [circle], unit: "inch" });
  // @ts-expect-error a circle has no width
  await client.call("measure", { shapes: [{ kind: "circle", width: 1 }], unit: "mm" });
  // @ts-expect-error three coordinates
  await client.call("measure", { shapes: [], unit: "mm", origin: [1, 2, 3] });
  // @ts-expect-error deep in a tree
  await client.call("measure", { shapes: [], unit: "mm", tree: { name: "a", children: [{ name: 5 }] } });
  // @ts-expect-error the result has no such member
  (await client.call("measure", { shapes: [], unit: "mm" })).sum;
  const result = await client.safe("echo", { text: "" });
  // @ts-expect-error not known to be a result
  result.value;
  // @ts-expect-error only some problems have issues
  if (!result.ok) result.error.issues;
  // @ts-expect-error no such code
  if (!result.ok && result.error.code === "no_such_code") return;
  // @ts-expect-error an argument of a prompt is missing
  await client.prompt("greet", {});
}
