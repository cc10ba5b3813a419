// What to paste into each client so that it reaches this gateway.
//
// The formats are those that the clients document, and the importer of the gateway reads most of them back. A client that
// only starts programs gets a bridge to HTTP.

export interface Target {
  /** What the client will call the server. */
  name: string;
  /** The endpoint of MCP. */
  mcp: string | undefined;
  /** Bases of the other surfaces; `undefined` where they are not served. */
  rest: string | undefined;
  rpc: string | undefined;
  /** The endpoint is one backend's. */
  isOne: boolean;
  /** With `[auth]`: the key, or what stands in for it. */
  key: string | undefined;
}

export interface Snippet {
  /** Where it goes: a file, a shell. */
  where: string;
  text: string;
}

export interface Client {
  id: string;
  label: string;
  /** What is to be known before or after. */
  note?: string;
  snippets: Snippet[];
}

/** Stands in for a key that is not known. */
export const KEY_PLACEHOLDER = "YOUR_KEY";
/** The variable that snippets read the key from, where a client wants it there. */
const KEY_VARIABLE = "SENTINEL_KEY";

function json(value: unknown): string {
  return JSON.stringify(value, null, 2);
}

/** One word of a POSIX shell. */
export function shell(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** The name of a server as every client takes it. */
export function serverName(backend: string | undefined): string {
  return backend === undefined ? "sentinel" : `sentinel-${backend.replace(/[^A-Za-z0-9_-]/g, "-")}`;
}

function isLoopback(url: string): boolean {
  const { hostname } = new URL(url);
  return hostname === "localhost" || hostname === "[::1]" || /^127\./.test(hostname);
}

export function clientsOf(target: Target): Client[] {
  return [...(target.mcp === undefined ? [] : mcpClients({ ...target, mcp: target.mcp })), ...programs(target)];
}

function mcpClients({ name, mcp, key }: Target & { mcp: string }): Client[] {
  const bearer = key === undefined ? undefined : `Bearer ${key}`;
  const headers = bearer === undefined ? {} : { headers: { Authorization: bearer } };
  const header = bearer === undefined ? "" : ` --header ${shell(`Authorization: ${bearer}`)}`;
  const servers = (server: object) => json({ mcpServers: { [name]: server } });
  const isPlain = mcp.startsWith("http:") && !isLoopback(mcp);
  return [
    {
      id: "claude-code",
      label: "Claude Code",
      note: "The command adds it for you in this project; --scope user for all. The file shares it with everybody who works on the project.",
      snippets: [
        { where: "Shell", text: `claude mcp add --transport http ${name} ${shell(mcp)}${header}` },
        { where: ".mcp.json", text: servers({ type: "http", url: mcp, ...headers }) },
      ],
    },
    {
      id: "codex",
      label: "Codex",
      note: key === undefined ? "The command writes the same lines to the file." : `Codex takes the key from the environment: start it where ${KEY_VARIABLE} is set.`,
      snippets: [
        ...(key === undefined ? [{ where: "Shell", text: `codex mcp add ${name} --url ${shell(mcp)}` }] : []),
        {
          where: "~/.codex/config.toml",
          text: [`[mcp_servers.${name}]`, `url = ${JSON.stringify(mcp)}`, ...(key === undefined ? [] : [`bearer_token_env_var = "${KEY_VARIABLE}"`])].join("\n"),
        },
        ...(key === undefined ? [] : [{ where: "Shell", text: `export ${KEY_VARIABLE}=${shell(key)}` }]),
      ],
    },
    {
      id: "cursor",
      label: "Cursor",
      note: "In ~/.cursor/mcp.json it is there in every project.",
      snippets: [{ where: ".cursor/mcp.json", text: servers({ url: mcp, ...headers }) }],
    },
    {
      id: "vscode",
      label: "VS Code",
      note: key === undefined ? "The command “MCP: Open User Configuration” opens the file for all workspaces." : "VS Code asks for the key once and keeps it, so that it is not in the file.",
      snippets: [
        {
          where: ".vscode/mcp.json",
          text: json({
            ...(key === undefined ? {} : { inputs: [{ type: "promptString", id: "sentinel-key", description: "Key of Sentinel Gateway", password: true }] }),
            servers: { [name]: { type: "http", url: mcp, ...(key === undefined ? {} : { headers: { Authorization: "Bearer ${input:sentinel-key}" } }) } },
          }),
        },
        ...(key === undefined ? [] : [{ where: "When it asks", text: key }]),
      ],
    },
    {
      id: "claude-desktop",
      label: "Claude Desktop",
      note: "Its file names programs that it starts: mcp-remote bridges to this address, and needs Node.js. Restart Claude Desktop afterwards. On macOS the file is in ~/Library/Application Support/Claude, on Windows in %APPDATA%\\Claude.",
      snippets: [
        {
          where: "claude_desktop_config.json",
          text: servers({
            command: "npx",
            args: ["-y", "mcp-remote", mcp, ...(isPlain ? ["--allow-http"] : []), ...(bearer === undefined ? [] : ["--header", "Authorization:${AUTH_HEADER}"])],
            ...(bearer === undefined ? {} : { env: { AUTH_HEADER: bearer } }),
          }),
        },
      ],
    },
    {
      id: "windsurf",
      label: "Windsurf",
      snippets: [{ where: "~/.codeium/windsurf/mcp_config.json", text: servers({ serverUrl: mcp, ...headers }) }],
    },
    {
      id: "zed",
      label: "Zed",
      note: "The action “zed: open settings file” opens the file.",
      snippets: [{ where: "settings.json", text: json({ context_servers: { [name]: { url: mcp, ...headers } } }) }],
    },
    {
      id: "cline",
      label: "Cline",
      note: "MCP Servers, Configure, “Configure MCP Servers” opens the file.",
      snippets: [{ where: "cline_mcp_settings.json", text: servers({ type: "streamableHttp", url: mcp, ...headers }) }],
    },
    {
      id: "gemini",
      label: "Gemini CLI",
      note: "The command writes to this project; --scope user writes to ~/.gemini/settings.json.",
      snippets: [
        { where: "Shell", text: `gemini mcp add --transport http${header} ${name} ${shell(mcp)}` },
        { where: ".gemini/settings.json", text: servers({ httpUrl: mcp, ...headers }) },
      ],
    },
    {
      id: "other",
      label: "Another client",
      note: "Most clients read this form. One that only starts programs can run a gateway of its own: sentinel stdio --config FILE.",
      snippets: [{ where: "JSON", text: servers({ type: "http", url: mcp, ...headers }) }],
    },
  ];
}

function programs({ mcp, rest, rpc, key, isOne }: Target): Client[] {
  const auth = key === undefined ? "" : ` \\\n  -H ${shell(`Authorization: Bearer ${key}`)}`;
  const meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": { name: "curl", version: "1" },
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  const curl: Snippet[] = [];
  if (mcp !== undefined) {
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list", params: { _meta: meta } });
    curl.push({
      where: "MCP 2026-07-28",
      text: `curl -s ${shell(mcp)}${auth} \\\n  -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \\\n  -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/list' \\\n  -d ${shell(body)}`,
    });
  }
  // REST and JSON-RPC serve everything together.
  if (rest !== undefined && !isOne) curl.push({ where: "REST", text: `curl -s ${shell(`${rest}/catalog`)}${auth}` });
  if (rpc !== undefined && !isOne) {
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "rpc.discover" });
    curl.push({ where: "JSON-RPC", text: `curl -s ${shell(rpc)}${auth} \\\n  -H 'Content-Type: application/json' -d ${shell(body)}` });
  }
  const all: Client[] = curl.length === 0 ? [] : [{ id: "curl", label: "curl", note: "Each lists what there is.", snippets: curl }];
  if (mcp === undefined) return all;
  const url = JSON.stringify(mcp);
  return [
    ...all,
    {
      id: "python",
      label: "Python SDK",
      note: "Of mcp 2: pip install mcp",
      snippets: [{ where: "Python", text: key === undefined ? python(url) : pythonWithKey(url, key) }],
    },
    {
      id: "typescript",
      label: "TypeScript SDK",
      note: "npm install @modelcontextprotocol/sdk",
      snippets: [{ where: "TypeScript", text: typescript(url, key) }],
    },
  ];
}

const LIST_TOOLS = `        for tool in (await client.list_tools()).tools:
            print(tool.name)


asyncio.run(main())`;

function python(url: string): string {
  return `import asyncio

from mcp import Client


async def main():
    async with Client(${url}) as client:
${LIST_TOOLS}`;
}

function pythonWithKey(url: string, key: string): string {
  return `import asyncio

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


async def main():
    http = httpx2.AsyncClient(headers={"Authorization": ${JSON.stringify(`Bearer ${key}`)}}, timeout=60)
    async with http, Client(streamable_http_client(${url}, http_client=http)) as client:
${LIST_TOOLS}`;
}

function typescript(url: string, key: string | undefined): string {
  const options = key === undefined ? "" : `, {\n  requestInit: { headers: { Authorization: ${JSON.stringify(`Bearer ${key}`)} } },\n}`;
  return `import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const client = new Client({ name: "my-program", version: "1.0.0" });
await client.connect(new StreamableHTTPClientTransport(new URL(${url})${options}));
for (const tool of (await client.listTools()).tools) console.log(tool.name);
await client.close();`;
}
