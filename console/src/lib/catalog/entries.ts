// What the gateway offers, as one list: the caller's own view (`GET /api/catalog`), and for admins also what is held back or
// switched off (`GET /admin/api/catalog`).

import type { components } from "../../api/schema";

export type Kind = "tools" | "resources" | "templates" | "prompts";
export type AdminEntry = components["schemas"]["CatalogEntry"];
export type Killed = components["schemas"]["Killed"];
export type PinState = "none" | "pinned" | "changed" | "new";

export const KINDS: readonly Kind[] = ["tools", "resources", "templates", "prompts"];
export const KIND_WORDS: Readonly<Record<Kind, { one: string; many: string }>> = {
  tools: { one: "Tool", many: "Tools" },
  resources: { one: "Resource", many: "Resources" },
  templates: { one: "Template", many: "Templates" },
  prompts: { one: "Prompt", many: "Prompts" },
};

type Item = Readonly<Record<string, unknown>>;

export interface Entry {
  kind: Kind;
  /** The name of a tool or a prompt, the URI of a resource, the template of a template. */
  name: string;
  /** Resources and templates have a name beside their URI. */
  shortName: string | undefined;
  title: string | undefined;
  description: string | undefined;
  backends: readonly string[];
  tags: readonly string[];
  isReadOnly: boolean | undefined;
  isDestructive: boolean | undefined;
  /** As it was listed; `undefined`: the caller does not see it. */
  item: Item | undefined;
  /** Of `items` of the catalog, for its text. */
  place: number;
  /** What its definition costs a model, about. `undefined`: not known to this caller. */
  tokens: number | undefined;
  pin: PinState | undefined;
  isHeld: boolean;
  /** Roles that may call it; `undefined`: not known to this caller. */
  callers: readonly string[] | undefined;
  seers: readonly string[] | undefined;
  ownName: string | undefined;
}

export interface Catalog {
  entries: readonly Entry[];
  byKey: ReadonlyMap<string, Entry>;
  /** As it arrived: numbers in definitions keep their digits. */
  text: string;
  /** Whether `tokens`, `pin` and the like are known. */
  isAdmin: boolean;
}

export function keyOf(kind: Kind, name: string): string {
  return `${kind} ${name}`;
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

function texts(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === "string") : [];
}

function record(value: unknown): Item {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Item) : {};
}

function flag(value: unknown): boolean | undefined {
  return typeof value === "boolean" ? value : undefined;
}

/** Where the lists of the catalog are, by the names that they have there. */
const LISTS: readonly (readonly [string, Kind])[] = [
  ["tools", "tools"], ["resources", "resources"], ["resourceTemplates", "templates"], ["prompts", "prompts"],
];

function nameOf(kind: Kind, item: Item): string | undefined {
  if (kind === "resources") return text(item["uri"]);
  return kind === "templates" ? text(item["uriTemplate"]) : text(item["name"]);
}

export function readCatalog(own: string, admin: readonly AdminEntry[] | undefined): Catalog {
  const lists = record(JSON.parse(own));
  const byKey = new Map<string, Entry>();
  for (const [member, kind] of LISTS) {
    const list = lists[member];
    (Array.isArray(list) ? list : []).forEach((each: unknown, place) => {
      const item = record(each);
      const name = nameOf(kind, item);
      // Several backends may have the same resource; the first is who is asked.
      if (name === undefined || byKey.has(keyOf(kind, name))) return;
      byKey.set(keyOf(kind, name), entryOf(kind, name, item, place));
    });
  }
  for (const each of admin ?? []) {
    const kind = LISTS.find(([member]) => member === each.kind)?.[1];
    if (kind === undefined) continue;
    const key = keyOf(kind, each.name);
    const known = byKey.get(key) ?? entryOf(kind, each.name, undefined, -1);
    byKey.set(key, withAdmin(known, each));
  }
  return { entries: [...byKey.values()], byKey, text: own, isAdmin: admin !== undefined };
}

function entryOf(kind: Kind, name: string, item: Item | undefined, place: number): Entry {
  const annotations = record(item?.["annotations"]);
  const backend = text(item?.["backend"]);
  const tags = texts(record(item?.["_meta"])["tags"]);
  return {
    kind,
    name,
    shortName: kind === "resources" || kind === "templates" ? text(item?.["name"]) : undefined,
    title: text(item?.["title"]) ?? text(annotations["title"]),
    description: text(item?.["description"]),
    backends: backend === undefined ? [] : [backend],
    tags,
    isReadOnly: flag(annotations["readOnlyHint"]),
    isDestructive: flag(annotations["destructiveHint"]),
    item,
    place,
    tokens: undefined,
    pin: undefined,
    isHeld: false,
    callers: undefined,
    seers: undefined,
    ownName: undefined,
  };
}

function withAdmin(entry: Entry, admin: AdminEntry): Entry {
  const backends = entry.backends.includes(admin.backend) ? entry.backends : [...entry.backends, admin.backend];
  // Of a resource that several backends have, the first says what it costs.
  const isFirst = entry.ownName === undefined;
  return {
    ...entry,
    backends,
    ownName: entry.ownName ?? admin.own_name,
    title: entry.title ?? text(admin.title),
    description: entry.description ?? text(admin.description),
    tokens: isFirst ? (admin.tokens ?? undefined) : entry.tokens,
    pin: isFirst ? (admin.pin ?? undefined) : entry.pin,
    isHeld: entry.isHeld || admin.held,
    callers: isFirst ? admin.roles_call : entry.callers,
    seers: isFirst ? admin.roles_see : entry.seers,
  };
}

/** The text of a definition as the gateway wrote it, with what `GET /api/catalog` adds. */
export function definitionText(catalog: Catalog, entry: Entry): string | undefined {
  if (entry.item === undefined) return undefined;
  const member = LISTS.find(([, kind]) => kind === entry.kind)?.[0] ?? "";
  const span = itemSpans(catalog.text).get(member)?.[entry.place];
  return span === undefined ? JSON.stringify(entry.item) : catalog.text.slice(span[0], span[1]);
}

let spansOf: { text: string; spans: Map<string, [number, number][]> } | undefined;

/** Where the items of each list are in the text. Looked for once, when the first definition is shown. */
export function itemSpans(text: string): Map<string, [number, number][]> {
  if (spansOf?.text === text) return spansOf.spans;
  const spans = new Map<string, [number, number][]>();
  let depth = 0;
  let list: [number, number][] | undefined;
  let start = 0;
  let lastString = "";
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === 34) {
      const end = endOfString(text, at);
      if (depth === 1) lastString = text.slice(at + 1, end);
      at = end;
    } else if (code === 123 || code === 91) {
      depth += 1;
      if (depth === 2 && code === 91) spans.set(lastString, (list = []));
      if (depth === 3) start = at;
    } else if (code === 125 || code === 93) {
      if (depth === 3) list?.push([start, at + 1]);
      depth -= 1;
    }
  }
  spansOf = { text, spans };
  return spans;
}

function endOfString(text: string, start: number): number {
  let end = start;
  for (;;) {
    end = text.indexOf('"', end + 1);
    if (end < 0) return text.length;
    let slashes = 0;
    while (text.charCodeAt(end - 1 - slashes) === 92) slashes += 1;
    if (slashes % 2 === 0) return end;
  }
}

/** The switch that turns an entry off, if there is one. */
export function switchOf(entry: Entry, killed: readonly Killed[]): Killed | undefined {
  return killed.find((each) => {
    if (each.scope === "all") return true;
    if (each.scope === "backend") return entry.backends.length > 0 && entry.backends.every((backend) => backend === each.name);
    if (each.scope !== "tool") return false;
    const name = each.name ?? "";
    if (name === entry.name) return true;
    return entry.backends.some((backend) => name.startsWith(`${backend}.`) && isGlob(name.slice(backend.length + 1), entry.ownName ?? entry.name));
  });
}

/** `*` stands for any characters, `?` for one. */
export function isGlob(pattern: string, name: string): boolean {
  let [at, star, resume] = [0, -1, 0];
  let index = 0;
  while (index < name.length) {
    if (at < pattern.length && (pattern[at] === "?" || pattern[at] === name[index]) && pattern[at] !== "*") {
      at += 1;
      index += 1;
    } else if (at < pattern.length && pattern[at] === "*") {
      star = at;
      resume = index;
      at += 1;
    } else if (star >= 0) {
      at = star + 1;
      resume += 1;
      index = resume;
    } else {
      return false;
    }
  }
  while (pattern[at] === "*") at += 1;
  return at === pattern.length;
}

/** The address of an entry, below `/console`. */
export function hrefOf(kind: Kind, name: string): string {
  // Browsers resolve these two segments of a path, however they are written.
  if (name === "." || name === "..") return `/catalog/${kind}/_?name=${name}`;
  return `/catalog/${kind}/${encodeURIComponent(name)}`;
}
