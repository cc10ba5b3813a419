// Requests to the gateway. Nothing else in the console calls `fetch`.
//
// The cookie of the session counts only on requests with the header below, which no other site can send. Failures are
// thrown as `Problem`; a 401 also reports that the session ended, which `session.tsx` answers by asking for a sign-in.

import createClient from "openapi-fetch";
import { Problem, asProblem, isAbort, problemOf } from "./problem";
import type { paths } from "./schema";

const HEADER = "X-Sentinel-Console";

type Listener = () => void;
const listeners = new Set<Listener>();

/** Calls `listener` when an answer says that nobody is signed in. */
export function onUnauthenticated(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Sends a request with the header of the console. Every answer is returned, whatever its status. */
export async function send(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
  const request = new Request(input, { credentials: "same-origin", ...init });
  request.headers.set(HEADER, "1");
  try {
    return await fetch(request);
  } catch (error) {
    if (isAbort(error)) throw error;
    throw Problem.offline(error);
  }
}

/** Like `send`, for paths that the admin API does not describe (`/api`, `/mcp`, `/rpc`): throws where the status is no success. */
export async function request(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
  const response = await send(input, init);
  if (response.ok) return response;
  if (response.status === 401) listeners.forEach((listener) => listener());
  throw await problemOf(response);
}

/** The typed client. Use it with `answer`: `await answer(api.GET("/admin/api/status", { signal }))`. */
export const api = createClient<paths>({
  baseUrl: location.origin,
  fetch: (input: Request) => send(input),
});

api.use({
  async onResponse({ response, request }) {
    if (response.ok) return;
    const isSignIn = new URL(request.url).pathname === "/console/api/session";
    if (response.status === 401 && !isSignIn) listeners.forEach((listener) => listener());
    throw await problemOf(response);
  },
});

/** The body of a typed answer; throws `Problem` otherwise. */
export async function answer<R extends { data?: unknown }>(pending: Promise<R>): Promise<NonNullable<R["data"]>> {
  try {
    const { data } = await pending;
    return data as NonNullable<R["data"]>;
  } catch (error) {
    if (isAbort(error) || error instanceof Problem) throw error;
    throw asProblem(error);
  }
}

type Methods = "get" | "post" | "delete";

/** What an endpoint answers: `Answer<"/admin/api/usage">`. */
export type Answer<P extends keyof paths, M extends Methods = "get"> = paths[P] extends {
  [K in M]: { responses: { 200: { content: infer C } } };
}
  ? C[keyof C]
  : never;
