// Errors of the gateway: problem documents (RFC 9457), and what stands in for one where none arrived.

import type { components } from "./schema";

export type ProblemDocument = components["schemas"]["Problem"];

/** An answer larger than this is no problem document. */
const DOCUMENT_BYTES_MAX = 1 << 20;

/** `offline`: no answer arrived. `unreadable`: an answer that is not what the endpoint answers. */
export type LocalCode = "offline" | "unreadable";

export class Problem extends Error {
  override readonly name = "Problem";
  readonly status: number;
  readonly code: string;
  readonly title: string;
  readonly detail: string;
  readonly hint: string;
  /** Names this occurrence in the gateway's log. */
  readonly instance: string | undefined;
  readonly retryable: boolean;
  readonly retryAfterMs: number | undefined;
  readonly issues: readonly { pointer: string; message: string; keyword?: string }[];
  /** Every member as it arrived. */
  readonly document: Readonly<Record<string, unknown>>;

  constructor(status: number, document: Record<string, unknown>) {
    const text = (key: string) => (typeof document[key] === "string" ? (document[key] as string) : "");
    super(text("detail") || text("title") || `HTTP ${status}`);
    this.status = status;
    this.code = text("code") || `http_${status}`;
    this.title = text("title") || "The request failed";
    this.detail = text("detail");
    this.hint = text("hint");
    this.instance = text("instance") || undefined;
    this.retryable = document["retryable"] === true;
    const after = document["retry_after_ms"];
    this.retryAfterMs = typeof after === "number" ? after : undefined;
    this.issues = Array.isArray(document["issues"]) ? (document["issues"] as Problem["issues"]) : [];
    this.document = document;
  }

  static local(code: LocalCode, title: string, detail: string, hint: string): Problem {
    return new Problem(0, { code, title, detail, hint, retryable: true });
  }

  /** No answer arrived. */
  static offline(cause: unknown): Problem {
    const detail = cause instanceof Error ? cause.message : "The connection failed.";
    return Problem.local("offline", "The gateway does not answer", detail, "Is it running? The page tries again by itself.");
  }
}

/** Reads the problem of an answer that is no success. */
export async function problemOf(response: Response): Promise<Problem> {
  const isJson = /^application\/(problem\+)?json/.test(response.headers.get("content-type") ?? "");
  const text = await response.text().catch(() => "");
  if (isJson && text.length <= DOCUMENT_BYTES_MAX) {
    try {
      const document: unknown = JSON.parse(text);
      if (typeof document === "object" && document !== null && !Array.isArray(document)) {
        return new Problem(response.status, document as Record<string, unknown>);
      }
    } catch {
      // What is not JSON is shown as text.
    }
  }
  const title = `HTTP ${response.status} ${response.statusText}`.trim();
  return new Problem(response.status, { title, detail: text.slice(0, 2000) });
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

/** Whatever was thrown, as a problem. */
export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  const detail = error instanceof Error ? error.message : String(error);
  return Problem.local("unreadable", "Something failed in this page", detail, "Reload the page.");
}
