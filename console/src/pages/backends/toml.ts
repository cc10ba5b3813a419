// Writes a backend as its table of the configuration file. Pure.

export type Kind = "stdio" | "http" | "openapi" | "postgres";

export interface Draft {
  kind: Kind;
  name: string;
  /** stdio: the program. */
  command: string;
  /** stdio: one argument a line. */
  args: string;
  /** stdio: `NAME=VARIABLE` a line: the value of VARIABLE of the gateway is passed as NAME. */
  env: string;
  /** http: the URL. */
  url: string;
  /** http and openapi: the variable with the value of `Authorization`, or the bearer token. */
  credential: string;
  /** openapi: a file or a URL. */
  spec: string;
  base_url: string;
  /** postgres: the variable with the connection URL. */
  url_env: string;
  schema: string;
}

export const EMPTY: Draft = { kind: "stdio", name: "", command: "", args: "", env: "", url: "", credential: "", spec: "", base_url: "", url_env: "", schema: "" };

/** What the gateway takes for a name. */
export const NAME = /^[a-z0-9-]{1,32}$/;
const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** A basic string. JSON's escapes are TOML's, but for DEL, which JSON leaves as it is. */
export function quoted(text: string): string {
  return JSON.stringify(text).replaceAll("\u007f", "\\u007f");
}

function lines(text: string): string[] {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
}

export type Mistakes = Partial<Record<keyof Draft, string>>;

/** What is missing or cannot be right. */
export function mistakesOf(draft: Draft): Mistakes {
  const mistakes: Mistakes = {};
  const need = (key: keyof Draft, text: string) => {
    if (draft[key].trim() === "") mistakes[key] = text;
  };
  if (!NAME.test(draft.name)) mistakes.name = "Lower-case letters, digits and hyphens, at most 32.";
  if (draft.kind === "stdio") {
    need("command", "The program to start.");
    for (const line of lines(draft.env)) {
      const [name = "", variable = ""] = line.split("=", 2);
      if (!VARIABLE.test(name.trim()) || !VARIABLE.test(variable.trim())) mistakes.env = `“${line}” is not NAME=VARIABLE.`;
    }
  }
  if (draft.kind === "http") need("url", "The address of the server.");
  if (draft.kind === "openapi") need("spec", "A file or a URL.");
  if (draft.kind === "postgres") need("url_env", "The variable with the connection URL.");
  for (const key of ["credential", "url_env"] as const) {
    if (draft[key].trim() !== "" && !VARIABLE.test(draft[key].trim())) mistakes[key] = "The name of a variable, not its value.";
  }
  return mistakes;
}

/** The table of a draft without mistakes. */
export function tomlOf(draft: Draft): string {
  const out = ["[[backends]]", `name = ${quoted(draft.name)}`, `type = ${quoted(draft.kind)}`];
  const add = (key: string, value: string) => {
    if (value.trim() !== "") out.push(`${key} = ${quoted(value.trim())}`);
  };
  if (draft.kind === "stdio") {
    add("command", draft.command);
    const args = lines(draft.args);
    if (args.length > 0) out.push(`args = [${args.map(quoted).join(", ")}]`);
    const env = lines(draft.env).map((line) => line.split("=", 2).map((part) => part.trim()));
    if (env.length > 0) out.push(`env = { ${env.map(([name, variable]) => `${name}_ENV = ${quoted(variable ?? "")}`).join(", ")} }`);
  }
  if (draft.kind === "http") {
    add("url", draft.url);
    if (draft.credential.trim() !== "") out.push(`headers = { Authorization_ENV = ${quoted(draft.credential.trim())} }`);
  }
  if (draft.kind === "openapi") {
    add("spec", draft.spec);
    add("base_url", draft.base_url);
    if (draft.credential.trim() !== "") out.push("[backends.auth]", `bearer_env = ${quoted(draft.credential.trim())}`);
  }
  if (draft.kind === "postgres") {
    add("url_env", draft.url_env);
    add("schema", draft.schema);
  }
  return `${out.join("\n")}\n`;
}

/** The text of the file with further tables at its end. */
export function appended(text: string, tables: readonly string[]): string {
  const before = text === "" || text.endsWith("\n") ? text : `${text}\n`;
  return `${before}${tables.map((table) => `\n${table.trim()}\n`).join("")}`;
}
