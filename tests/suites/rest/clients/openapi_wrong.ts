// Mistakes that the types made by openapi-typescript let the compiler find.
import createClient from "openapi-fetch";
import type { paths } from "./schema.d.ts";

const client = createClient<paths, "application/json" | "application/problem+json">({ baseUrl: "" });

export async function mistakes() {
  // @ts-expect-error an operation that does not exist
  await client.POST("/api/no_such_operation", { body: {} });
  // @ts-expect-error a number in place of a text
  await client.POST("/api/echo", { body: { text: 5 } });
  // @ts-expect-error a required member is missing
  await client.POST("/api/measure", { body: { shapes: [] } });
  // @ts-expect-error changes something: no GET
  await client.GET("/api/count", { params: { query: { key: "" } } });
  const { data, error } = await client.POST("/api/measure", { body: { shapes: [], unit: "mm" } });
  // @ts-expect-error the result has no such member
  data?.sum;
  // @ts-expect-error no such member of a problem
  error?.reason;
}
