// Discussion in threads. A message belongs to a line if it begins with its place, as agents and people write it:
// `src/checkout.rs:7`, or `src/checkout.rs:7 (before)` for a line that the patch removes, each optionally with `of patch 1a2b3c4d`.
// Messages about the same place are one thread; all others are the general one. The gateway keeps plain messages: whoever
// reads them elsewhere sees the place in words.

import type { Message } from "./documents";

export interface Place {
  path: string;
  line: number;
  side: "before" | "after";
  /** The first 8 digits of the patch's id; without it, the original proposal. */
  patch: string | undefined;
}

export interface Post extends Message {
  place: Place | undefined;
  /** The body without its place. */
  text: string;
}

const PLACE = /^(?:On\s+)?(`?)([^\s`:][^`\n:]{0,1023}):(\d{1,9})( \(before\))?( of patch [0-9a-f]{8})?\1( \(before\))?( of patch [0-9a-f]{8})?[:,]?(?=\s|$)/;

/** `paths` are those that the patches touch: a time or a URL at the beginning is no place. */
export function readPlace(body: string, paths: ReadonlySet<string>): { place: Place | undefined; text: string } {
  const match = PLACE.exec(body);
  const path = match?.[2];
  if (match === null || path === undefined || !paths.has(path)) return { place: undefined, text: body };
  const patch = (match[5] ?? match[7])?.slice(" of patch ".length);
  const isBefore = (match[4] ?? match[6]) !== undefined;
  return { place: { path, line: Number(match[3]), side: isBefore ? "before" : "after", patch }, text: body.slice(match[0].length).trimStart() };
}

export function writePlace(place: Place, text: string): string {
  const side = place.side === "before" ? " (before)" : "";
  const patch = place.patch === undefined ? "" : ` of patch ${place.patch}`;
  return `\`${place.path}:${place.line}\`${side}${patch}\n\n${text}`;
}

export function placeKey(place: Place): string {
  return `${place.patch ?? ""}\n${place.side}\n${place.line}\n${place.path}`;
}

export interface Thread {
  key: string;
  place: Place;
  posts: Post[];
}

export interface Discussion {
  general: Post[];
  threads: Map<string, Thread>;
}

export function discussionOf(messages: readonly Message[], paths: ReadonlySet<string>): Discussion {
  const discussion: Discussion = { general: [], threads: new Map() };
  for (const message of messages) {
    const { place, text } = readPlace(message.body, paths);
    const post: Post = { ...message, place, text };
    if (place === undefined) {
      discussion.general.push(post);
      continue;
    }
    const key = placeKey(place);
    const thread = discussion.threads.get(key);
    if (thread === undefined) discussion.threads.set(key, { key, place, posts: [post] });
    else thread.posts.push(post);
  }
  return discussion;
}
