// Arguments while they are written: as JSON text and as what a form shows, kept in step.
//
// An edit in the form prints the text anew. A change of the text is read; while it cannot be read, the form shows what could
// be read last. A number that is not written to its end (`1e`) is in both.

import type { JsonNode } from "../../ui/json-parse";
import { printJson, readJson } from "../../ui/json-parse";
import { memberOf, nodeAt, pointerOf, put, repeatedMembers, unfinishedNumbers } from "../json/edit";
import type { Path } from "../json/edit";
import { isNumber } from "../json/value";
import type { Issue } from "./check";

export interface Draft {
  node: JsonNode;
  text: string;
  /** Where the text could not be read; the node is older then. */
  mistake: { line: number; column: number } | undefined;
}

export function draftOf(node: JsonNode): Draft {
  return { node, text: printJson(node), mistake: undefined };
}

/** An edit of the form. */
export function edited(draft: Draft, path: Path, value: JsonNode | undefined): Draft {
  return draftOf(put(draft.node, path, value) ?? { kind: "object", entries: [] });
}

/** A change of the text. */
export function typed(draft: Draft, text: string): Draft {
  if (text.trim() === "") return { node: { kind: "object", entries: [] }, text, mistake: undefined };
  const { node, at } = readJson(text);
  if (node !== undefined) return { node, text, mistake: undefined };
  const before = text.slice(0, at);
  return { node: draft.node, text, mistake: { line: before.split("\n").length, column: before.length - before.lastIndexOf("\n") } };
}

/** What is wrong before a schema is looked at. */
export function ownIssues(draft: Draft): Issue[] {
  return unfinishedNumbers(draft.node, isNumber).map(({ path, text }) => ({
    pointer: pointerOf(path),
    message: text === "" ? "A number is missing." : "This is no number.",
    keyword: "number",
  }));
}

/** What the text says and the form does not show. */
export function notShown(draft: Draft): string[] {
  const repeated = repeatedMembers(draft.node);
  return repeated.length === 0 ? [] : [`A member is there twice; the form shows the last: ${[...new Set(repeated)].join(", ")}.`];
}

export { memberOf, nodeAt };
