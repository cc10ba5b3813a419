// What a visited server offers: its lists, read page by page.

import { memberOf } from "../json/edit";
import { nodeOf } from "../json/value";
import { ModernClient } from "../mcp/modern";
import { McpError, SILENT } from "../mcp/types";
import type { Send } from "../mcp/types";
import type { JsonNode } from "../../ui/json-parse";

export type OfferKind = "tools" | "resources" | "templates" | "prompts";

export interface Offered {
  kind: OfferKind;
  /** The name of a tool or a prompt, the URI of a resource, the template of a template. */
  name: string;
  title: string;
  description: string;
  definition: JsonNode;
}

export interface Offer {
  items: readonly Offered[];
  /** Lists that could not be read, and why. */
  problems: readonly string[];
  /** A list was longer than is read. */
  isCut: boolean;
}

/** Of one list; a catalog beyond it is not looked at here. */
const ITEMS_MAX = 5_000;
const PAGES_MAX = 50;

const LISTS: readonly { kind: OfferKind; method: string; member: string; name: string }[] = [
  { kind: "tools", method: "tools/list", member: "tools", name: "name" },
  { kind: "resources", method: "resources/list", member: "resources", name: "uri" },
  { kind: "templates", method: "resources/templates/list", member: "resourceTemplates", name: "uriTemplate" },
  { kind: "prompts", method: "prompts/list", member: "prompts", name: "name" },
];

function textAt(node: JsonNode, key: string): string {
  const found = memberOf(node, key);
  return found?.kind === "string" ? found.value : "";
}

/** JSON-RPC: the server has no such list. */
const METHOD_NOT_FOUND = -32601;

export async function loadOffer(endpoint: string, send: Send, signal: AbortSignal): Promise<Offer> {
  const client = new ModernClient(endpoint, send);
  // Nobody waits at these requests to answer a question.
  client.capabilities = {};
  const items: Offered[] = [];
  const problems: string[] = [];
  let isCut = false;
  for (const { kind, method, member, name } of LISTS) {
    try {
      let cursor: string | undefined;
      let count = 0;
      for (let page = 0; page < PAGES_MAX; page += 1) {
        const params = cursor === undefined ? [] : ([["cursor", nodeOf(cursor)]] as const);
        const result = await client.call(method, params, { listener: SILENT, signal });
        const listed = memberOf(result, member);
        for (const definition of listed?.kind === "array" ? listed.items : []) {
          if (count >= ITEMS_MAX) break;
          count += 1;
          items.push({ kind, name: textAt(definition, name), title: textAt(definition, "title") || (name === "name" ? "" : textAt(definition, "name")), description: textAt(definition, "description"), definition });
        }
        const next = memberOf(result, "nextCursor");
        if (next?.kind !== "string" || next.value === cursor) break;
        if (count >= ITEMS_MAX || page === PAGES_MAX - 1) {
          isCut = true;
          break;
        }
        cursor = next.value;
      }
    } catch (error) {
      if (signal.aborted) throw error;
      if (error instanceof McpError && error.code === METHOD_NOT_FOUND) continue;
      problems.push(`${method}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  return { items, problems, isCut };
}

export function findOffered(items: readonly Offered[], words: string): readonly Offered[] {
  const parts = words.toLowerCase().split(/\s+/).filter((part) => part !== "");
  if (parts.length === 0) return items;
  return items.filter((item) => {
    const text = `${item.name}\n${item.title}\n${item.description}`.toLowerCase();
    return parts.every((part) => text.includes(part));
  });
}
