// A call as text for somewhere else: a shell, another MCP client, a program.
//
// No credential is in it: where callers sign in, it is read from `SENTINEL_TOKEN`.

import type { JsonNode } from "../../ui/json-parse";
import { printJson } from "../../ui/json-parse";
import { compact, nodeOf, parseValue } from "../json/value";
import { object } from "../mcp/exchange";
import { headerValue, parameterHeaders } from "../mcp/headers";
import { VERSION } from "../mcp/modern";
import { CLIENT_INFO } from "../mcp/types";
import { mcpMethod, mcpParams, restPath, rpcRequest } from "./run";
import type { Paths, Target } from "./run";

export type Form = "curl" | "curl-mcp" | "curl-rpc" | "mcp" | "cli" | "typescript" | "python";

export const FORMS: readonly { form: Form; label: string }[] = [
  { form: "curl", label: "curl (REST)" },
  { form: "curl-mcp", label: "curl (MCP)" },
  { form: "curl-rpc", label: "curl (JSON-RPC)" },
  { form: "mcp", label: "MCP JSON" },
  { form: "cli", label: "sentinel" },
  { form: "typescript", label: "TypeScript" },
  { form: "python", label: "Python" },
];

export interface CopyOptions {
  target: Target;
  input: JsonNode;
  /** `http://127.0.0.1:9200` */
  origin: string;
  paths: Paths;
  /** Whether callers have to say who they are. */
  guarded: boolean;
}

/** One word of a POSIX shell, whatever is in it. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replace(/'/g, `'\\''`)}'`;
}

const TOKEN_HEADER = '"Authorization: Bearer $SENTINEL_TOKEN"';

function curl(url: string, headers: readonly (readonly [string, string])[], body: string | undefined, guarded: boolean): string {
  const lines = [`curl -s ${shellWord(url)}`];
  if (guarded) lines.push(`-H ${TOKEN_HEADER}`);
  for (const [name, value] of headers) lines.push(`-H ${shellWord(`${name}: ${value}`)}`);
  if (body !== undefined) lines.push(`-d ${shellWord(body)}`);
  return lines.join(" \\\n  ");
}

const JSON_TYPE = ["Content-Type", "application/json"] as const;

/** The request of MCP 2026-07-28, which needs nothing before it. */
function mcpBody({ target, input }: CopyOptions): JsonNode {
  const meta = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": { name: CLIENT_INFO.name, version: CLIENT_INFO.version },
  };
  return object([
    ["jsonrpc", nodeOf("2.0")],
    ["id", nodeOf(1)],
    ["method", nodeOf(mcpMethod(target))],
    ["params", object([...mcpParams(target, input), ["_meta", nodeOf(meta)]])],
  ]);
}

export function copyAs(form: Form, options: CopyOptions): string {
  const { target, input, origin, paths, guarded } = options;
  const isResource = target.kind === "resources";
  switch (form) {
    case "curl": {
      const url = origin + restPath(target, paths.rest ?? "/api");
      return isResource ? curl(url, [], undefined, guarded) : curl(url, [JSON_TYPE], compact(input), guarded);
    }
    case "curl-mcp": {
      const headers: (readonly [string, string])[] = [
        JSON_TYPE,
        ["Accept", "application/json, text/event-stream"],
        ["MCP-Protocol-Version", VERSION],
        ["Mcp-Method", mcpMethod(target)],
        ["Mcp-Name", headerValue(target.name)],
        ...(target.kind === "tools" ? parameterHeaders(target.schema, input) : []),
      ];
      return curl(origin + (paths.mcp ?? "/mcp"), headers, compact(mcpBody(options)), guarded);
    }
    case "curl-rpc": {
      const { method, params } = rpcRequest(target, input);
      const body = object([["jsonrpc", nodeOf("2.0")], ["id", nodeOf(1)], ["method", nodeOf(method)], ["params", params]]);
      return curl(origin + (paths.rpc ?? "/rpc"), [JSON_TYPE], compact(body), guarded);
    }
    case "mcp":
      return printJson(object([["method", nodeOf(mcpMethod(target))], ["params", object(mcpParams(target, input))]]));
    case "cli": {
      const where = ` --url ${shellWord(origin + (paths.mcp ?? "/mcp"))}`;
      const before = guarded ? "# the token is read from SENTINEL_TOKEN\n" : "";
      if (target.kind === "tools") {
        const name = target.name.startsWith("-") ? `-- ${shellWord(target.name)}` : shellWord(target.name);
        return `${before}sentinel call${where} ${name} ${shellWord(compact(input))}`;
      }
      return `# sentinel call is for tools; this lists what there is\n${before}sentinel ${target.kind}${where}`;
    }
    case "typescript":
      return typescript(options);
    case "python":
      return python(options);
  }
}

function isEmpty(input: JsonNode): boolean {
  return input.kind === "object" && input.entries.length === 0;
}

/** JSON is TypeScript, but for numbers of more digits than a double has. */
function losesDigits(node: JsonNode): boolean {
  if (node.kind === "number") return typeof parseValue(node.text) !== "number";
  if (node.kind === "array") return node.items.some(losesDigits);
  return node.kind === "object" && node.entries.some(([, value]) => losesDigits(value));
}

function typescript({ target, input, origin, guarded }: CopyOptions): string {
  const token = guarded ? ", token: () => process.env.SENTINEL_TOKEN!" : "";
  const name = JSON.stringify(target.name);
  const rest = isEmpty(input) ? "" : `, ${printJson(input)}`;
  const call = { tools: `client.call(${name}${rest})`, prompts: `client.prompt(${name}${rest})`, resources: `client.read(${name})` }[target.kind];
  const lines = [
    "// sentinel client typescript -o sentinel.ts",
    'import { createClient } from "./sentinel.ts";',
    "",
    `const client = createClient({ baseUrl: ${JSON.stringify(origin)}${token} });`,
  ];
  if (losesDigits(input)) lines.push("// JavaScript's numbers have fewer digits than some of these.");
  return [...lines, `const result = await ${call};`, "console.log(result);"].join("\n");
}

const KEYWORDS = new Set(
  ("False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or " +
    "pass raise return try while with yield").split(" "),
);

/** The member that a generated client has for an operation. */
export function pythonMember(name: string): string {
  let member = name.replace(/[^A-Za-z0-9]/gu, "_").replace(/^_+/, "");
  if (!/^[A-Za-z]/.test(member)) member = `t_${member}`;
  return (KEYWORDS.has(member) ? `${member}_` : member).slice(0, 80);
}

/** A literal of Python. */
export function pythonLiteral(node: JsonNode, indent = ""): string {
  const inner = `${indent}    `;
  if (node.kind === "string") return JSON.stringify(node.value);
  if (node.kind === "number") return node.text === "" ? "None" : node.text;
  if (node.kind === "word") return { true: "True", false: "False", null: "None" }[node.text];
  if (node.kind === "array") {
    if (node.items.length === 0) return "[]";
    return `[\n${node.items.map((item) => inner + pythonLiteral(item, inner)).join(",\n")},\n${indent}]`;
  }
  if (node.entries.length === 0) return "{}";
  return `{\n${node.entries.map(([key, value]) => `${inner}${JSON.stringify(key)}: ${pythonLiteral(value, inner)}`).join(",\n")},\n${indent}}`;
}

function python({ target, input, origin, guarded }: CopyOptions): string {
  const token = guarded ? ', token=os.environ["SENTINEL_TOKEN"]' : "";
  const rest = isEmpty(input) ? "" : pythonLiteral(input, "    ");
  const member = pythonMember(target.name);
  const call = { tools: `client.tools.${member}(${rest})`, prompts: `client.prompts.${member}(${rest})`, resources: `client.read(${JSON.stringify(target.name)})` }[target.kind];
  return [
    "# sentinel client python -o sentinel_client.py",
    ...(guarded ? ["import os", ""] : []),
    "from sentinel_client import Client",
    "",
    `with Client(${JSON.stringify(origin)}${token}) as client:`,
    `    result = ${call}`,
    "    print(result)",
  ].join("\n");
}
