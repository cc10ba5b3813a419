// Calls of the built-in review tools over REST.
//
// Their names come from the catalog: a configured backend wins a name that both offer, and the built-in tool is then called
// `review__<name>`. The catalog lists what the caller may call, so it also says what this page can offer.

import { request } from "../../api/client";
import { Problem, asProblem } from "../../api/problem";
import type { HistoryEvent, Message, Page, Patch, Proposal, Review, Standing } from "./documents";

const BACKEND = "review";

export type ToolName =
  | "list_reviews"
  | "list_pending"
  | "get_proposal"
  | "get_messages"
  | "get_patch"
  | "get_review_status"
  | "get_review_timeline"
  | "claim_review"
  | "post_message"
  | "submit_patch"
  | "submit_verdict"
  | "close_review"
  | "accept_patch"
  | "reject_patch";

/** Own name -> the name in the catalog. */
export type Tools = ReadonlyMap<string, string>;

/** Own names of the tools of one backend, by what the catalog calls them. */
export function ownNames(listed: readonly { name: string; backend?: string }[]): Tools {
  const names = new Map<string, string>();
  for (const { name, backend } of listed) {
    if (backend !== BACKEND) continue;
    const own = name.startsWith(`${BACKEND}__`) ? name.slice(BACKEND.length + 2).replace(/__[0-9a-f]{8}$/, "") : name;
    names.set(own, name);
  }
  return names;
}

let known: { rest: string; tools: Promise<Tools> } | undefined;

/** The tools that the caller may call. Asked once, and again after `forgetTools`. */
export function loadTools(rest: string): Promise<Tools> {
  if (known?.rest !== rest) {
    const tools = request(`${rest}/catalog`)
      .then((response) => response.json() as Promise<{ tools: { name: string; backend?: string }[] }>)
      .then((catalog) => ownNames(catalog.tools));
    tools.catch(() => forgetTools());
    known = { rest, tools };
  }
  return known.tools;
}

export function forgetTools(): void {
  known = undefined;
}

/** A tool's own refusal: `{"error": "stale_claim", "message": "..."}`. */
function refusal(problem: Problem): Problem {
  if (problem.code !== "tool_error") return problem;
  try {
    const said = JSON.parse(problem.detail) as { error?: unknown; message?: unknown };
    if (typeof said.error === "string" && typeof said.message === "string") {
      return new Problem(problem.status, { ...problem.document, title: TITLES[said.error] ?? "The review tools refused this", code: said.error, detail: said.message, hint: HINTS[said.error] ?? "" });
    }
  } catch {
    // What is no JSON is shown as it is.
  }
  return problem;
}

const TITLES: Readonly<Record<string, string>> = {
  already_claimed: "Somebody else claimed it",
  invalid_transition: "The review has moved on",
  stale_claim: "The claim has moved on",
  wrong_role: "Not your side of the review",
  invalid_diff: "This is not a unified diff",
  diff_too_large: "This diff is too large",
  storage_full: "The disk of the gateway is full",
  unavailable: "The store of reviews is away",
};
const HINTS: Readonly<Record<string, string>> = {
  already_claimed: "Wait for the claim to end, or read along.",
  invalid_transition: "What is shown now is its state.",
  stale_claim: "Read what is new, and decide again.",
  wrong_role: "The gateway lets each side do only what is its own (review.enforce_roles).",
  invalid_diff: "Paste what `git diff` prints, with its headers.",
};

async function call<T>(tools: Tools, rest: string, own: ToolName, input: Record<string, unknown>, signal?: AbortSignal): Promise<T> {
  const name = tools.get(own);
  if (name === undefined) {
    throw new Problem(403, { code: "not_offered", title: "You may not do this", detail: `The tool ${own} is not in the catalog that you see.`, hint: "An operator can permit it to your role." });
  }
  try {
    const response = await request(`${rest}/${encodeURIComponent(name)}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(input),
      ...(signal && { signal }),
    });
    return (await response.json()) as T;
  } catch (error) {
    if (error instanceof Problem && error.code === "unknown_name") forgetTools();
    throw error instanceof Problem ? refusal(error) : error instanceof SyntaxError ? asProblem(error) : error;
  }
}

/** Bytes of a diff in one answer, as the tools cut it. */
const DIFF_PAGE = 262_144;
/** The tools take 3 MiB. */
const DIFF_BYTES_MAX = 4 << 20;
const LIST_PAGE = 200;
/** Where the text is not wanted: the longest character. */
const HEAD_BYTES = 4;

/** The review tools as functions, with the caller's name in all that acts. */
export class Reviews {
  constructor(
    readonly rest: string,
    readonly tools: Tools,
  ) {}

  may(own: ToolName): boolean {
    return this.tools.has(own);
  }

  private call<T>(own: ToolName, input: Record<string, unknown>, signal?: AbortSignal): Promise<T> {
    return call<T>(this.tools, this.rest, own, input, signal);
  }

  /** Reviews of a status, or of all, up to `max`. */
  async list(filter: Record<string, unknown>, max: number, signal?: AbortSignal): Promise<Page<Review>> {
    const items: Review[] = [];
    let [offset, total] = [0, 0];
    for (;;) {
      const page = await this.call<Page<Review>>("list_reviews", { ...filter, offset, limit: Math.min(LIST_PAGE, max - items.length) }, signal);
      items.push(...page.items);
      total = page.total;
      if (page.next_offset === undefined || items.length >= max) return { items, total };
      offset = page.next_offset;
    }
  }

  /** The version of the queue once it differs from `since`, or when the time is over. */
  queue(since: number | undefined, waitMs: number, signal: AbortSignal): Promise<{ queue_version: number; total: number }> {
    return this.call("list_pending", { limit: 1, ...(since === undefined ? {} : { since, wait_ms: waitMs }) }, signal);
  }

  status(review_id: string, since: number, wait_ms: number, signal: AbortSignal): Promise<Standing> {
    return this.call("get_review_status", { review_id, since, wait_ms }, signal);
  }

  /** Without its diff, which `diff` reads. */
  proposal(review_id: string, signal?: AbortSignal): Promise<Proposal> {
    return this.call("get_proposal", { review_id, limit: HEAD_BYTES }, signal);
  }

  /** Without their diffs. */
  async patches(review_id: string, signal?: AbortSignal): Promise<Patch[]> {
    return (await this.call<{ patches: Patch[] }>("get_patch", { review_id, limit: HEAD_BYTES }, signal)).patches;
  }

  /** The whole diff of a patch. `onBytes` hears how much of it has arrived. */
  async diff(review_id: string, patch_id: string, signal: AbortSignal, onBytes?: (bytes: number, of: number) => void): Promise<string> {
    const parts: string[] = [];
    for (let offset = 0; offset < DIFF_BYTES_MAX; ) {
      const answer = await this.call<{ patches: Patch[] }>("get_patch", { review_id, patch_id, offset, limit: DIFF_PAGE }, signal);
      const patch = answer.patches[0];
      if (patch === undefined) break;
      parts.push(patch.diff);
      onBytes?.(patch.next_offset ?? patch.diff_bytes, patch.diff_bytes);
      if (patch.next_offset === undefined || patch.next_offset <= offset) break;
      offset = patch.next_offset;
    }
    return parts.join("");
  }

  /** All messages up to `max`. */
  async messages(review_id: string, max: number, signal?: AbortSignal): Promise<Page<Message>> {
    return this.all<Message>("get_messages", review_id, max, signal);
  }

  async history(review_id: string, max: number, signal?: AbortSignal): Promise<Page<HistoryEvent>> {
    return this.all<HistoryEvent>("get_review_timeline", review_id, max, signal);
  }

  private async all<T>(own: ToolName, review_id: string, max: number, signal?: AbortSignal): Promise<Page<T>> {
    const items: T[] = [];
    for (let offset = 0; ; ) {
      const page = await this.call<Page<T>>(own, { review_id, offset, limit: LIST_PAGE }, signal);
      items.push(...page.items);
      if (page.next_offset === undefined || items.length >= max) return { items, total: page.total };
      offset = page.next_offset;
    }
  }

  claim(review_id: string, who: Who): Promise<Review> {
    return this.call("claim_review", { review_id, ...who });
  }

  post(review_id: string, role: string, body: string, who: Who, idempotency_key: string): Promise<unknown> {
    return this.call("post_message", { review_id, role, body, idempotency_key, ...who });
  }

  patch(review_id: string, role: string, diff: string, description: string, who: Who, idempotency_key: string): Promise<{ patch: Patch }> {
    return this.call("submit_patch", { review_id, role, diff, idempotency_key, ...(description === "" ? {} : { description }), ...who });
  }

  decide(review_id: string, decision: string, reason: string, claim_generation: number, who: Who, idempotency_key: string): Promise<unknown> {
    return this.call("submit_verdict", { review_id, decision, claim_generation, idempotency_key, ...(reason === "" ? {} : { reason }), ...who });
  }

  close(review_id: string): Promise<unknown> {
    return this.call("close_review", { review_id });
  }

  judge(review_id: string, patch_id: string, isAccepted: boolean): Promise<unknown> {
    return this.call(isAccepted ? "accept_patch" : "reject_patch", { review_id, patch_id });
  }
}

/** Without `[auth]` the chosen name; with it nothing: the caller is the reviewer. */
export interface Who {
  reviewer_id?: string;
}
