// What is pasted where so that a client uses a key. Pure.

export interface Snippet {
  id: string;
  label: string;
  /** Where it goes. */
  hint: string;
  text: string;
}

interface Place {
  /** `http://host:port`, where this page came from. */
  origin: string;
  /** Paths of the surfaces; absent ones are switched off. */
  mcp: string | null;
  rest: string | null;
  key: string;
}

function json(value: unknown): string {
  return JSON.stringify(value, undefined, 2);
}

export function snippets({ origin, mcp, rest, key }: Place): Snippet[] {
  const url = `${origin}${mcp ?? ""}`;
  const headers = { Authorization: `Bearer ${key}` };
  const clients: Snippet[] = [
    {
      id: "claude",
      label: "Claude Code",
      hint: "In a terminal.",
      text: `claude mcp add --transport http sentinel ${url} --header "Authorization: Bearer ${key}"`,
    },
    { id: "vscode", label: "VS Code", hint: ".vscode/mcp.json", text: json({ servers: { sentinel: { type: "http", url, headers } } }) },
    { id: "cursor", label: "Cursor", hint: ".cursor/mcp.json", text: json({ mcpServers: { sentinel: { url, headers } } }) },
    { id: "other", label: "Others", hint: "The client's file of MCP servers.", text: json({ mcpServers: { sentinel: { type: "http", url, headers } } }) },
  ];
  const curl: Snippet = { id: "curl", label: "curl", hint: "Lists what this key may use, over REST.", text: `curl -s ${origin}${rest ?? ""}/catalog -H "Authorization: Bearer ${key}"` };
  return [...(mcp === null ? [] : clients), ...(rest === null ? [] : [curl])];
}
