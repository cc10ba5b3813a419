// What the gateway says in codes, as words for people. Pure, and without React.

import type { Tone } from "../../ui/tone";
import type { BackendStatus, Killed, Reloaded } from "./contract";

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

/** `a, b and 3 more`. */
export function listed(names: readonly string[], max = 4): string {
  if (names.length <= max) {
    const last = names.at(-1) ?? "";
    return names.length < 2 ? last : `${names.slice(0, -1).join(", ")} and ${last}`;
  }
  return `${names.slice(0, max).join(", ")} and ${(names.length - max).toLocaleString("en")} more`;
}

export interface Health {
  tone: Tone;
  word: string;
  /** What that state means. */
  meaning: string;
}

const HEALTHS: Readonly<Record<string, Health>> = {
  up: { tone: "ok", word: "up", meaning: "It answers." },
  starting: { tone: "info", word: "starting", meaning: "It was started and did not answer yet." },
  asleep: { tone: "off", word: "asleep", meaning: "It is started by the next call." },
  failing: { tone: "warn", word: "failing", meaning: "Health checks fail; its operations are still in the catalog." },
  down: { tone: "error", word: "down", meaning: "It does not answer; calls are refused." },
  stopped: { tone: "off", word: "stopped", meaning: "An operator stopped it; calls are refused until it is started." },
};

export function healthOf(backend: Pick<BackendStatus, "health">): Health {
  return HEALTHS[backend.health] ?? { tone: "neutral", word: backend.health, meaning: "" };
}

export function needsAttention(backend: BackendStatus): boolean {
  return backend.health === "down" || backend.health === "failing" || (backend.problem ?? "") !== "";
}

const KINDS: Readonly<Record<string, string>> = {
  stdio: "program",
  http: "MCP over HTTP",
  openapi: "HTTP API",
  postgres: "PostgreSQL",
  builtin: "built in",
};

export function kindOf(type: string): string {
  return KINDS[type] ?? type;
}

/** What an operator can do about a backend that does not work. */
export function advice(backend: BackendStatus): string {
  if (backend.health === "stopped") return "Start it when it is wanted again.";
  const again =
    backend.retry_after_ms === null
      ? "The gateway tries it again by itself; “Restart” tries at once."
      : `The gateway tries it again ${distance(backend.retry_after_ms, 0)}; “Restart” tries at once.`;
  const first: Readonly<Record<string, string>> = {
    stdio: "Read its standard error, and check its command and environment in the configuration.",
    http: "Check that a server listens at its address, and that this machine reaches it.",
    openapi: "Check that its description and its API can be reached from this machine.",
    postgres: "Check that the database runs, and that the login of its connection URL works.",
  };
  return `${first[backend.type] ?? "Look at the log of the gateway."} ${again}`;
}

/** One line about a reload, or about what one would do. */
export interface Line {
  tone: Tone;
  text: string;
}

const TENSES = {
  did: { added: "Added", removed: "Removed", replaced: "Restarted", changed: "Changed", nothing: "Nothing is different." },
  would: {
    added: "Adds",
    removed: "Removes",
    replaced: "Restarts",
    changed: "Changes",
    nothing: "Nothing would be different.",
  },
} as const;

/** What a reload did (`did`) or would do (`would`), the most important first. */
export function reloadLines(reloaded: Reloaded, tense: keyof typeof TENSES): Line[] {
  const words = TENSES[tense];
  const lines: Line[] = [];
  const about = (tone: Tone, verb: string, backends: readonly string[]) => {
    if (backends.length > 0) lines.push({ tone, text: `${verb} ${backends.length === 1 ? "the backend" : "the backends"} ${listed(backends, 12)}.` });
  };
  about("ok", words.added, reloaded.added);
  about("warn", words.removed, reloaded.removed);
  about("info", words.replaced, reloaded.replaced);
  if (reloaded.changed.length > 0) lines.push({ tone: "info", text: `${words.changed} ${listed(reloaded.changed, 12)}.` });
  if (reloaded.restart_needed.length > 0) {
    lines.push({ tone: "warn", text: `Takes effect when the gateway starts again: ${listed(reloaded.restart_needed, 12)}.` });
  }
  for (const notice of reloaded.notices) lines.push({ tone: "warn", text: notice });
  if (lines.length === 0) lines.push({ tone: "ok", text: words.nothing });
  if (reloaded.kept.length > 0) lines.push({ tone: "neutral", text: `${plural(reloaded.kept.length, "backend stays as it is", "backends stay as they are")}.` });
  return lines;
}

/** A reload in one sentence. */
export function reloadSentence(reloaded: Reloaded): string {
  return reloadLines(reloaded, "did")
    .filter((line) => line.tone !== "neutral")
    .map((line) => line.text)
    .join(" ");
}

/** What is switched off, as the object of a sentence. */
export function switched(one: Pick<Killed, "scope" | "name">): string {
  if (one.scope === "all") return "everything";
  if (one.scope === "backend") return `the backend ${one.name}`;
  if (one.scope === "caller") return `the caller ${one.name}`;
  return one.name.includes("*") ? `operations like ${one.name}` : one.name;
}

/** A moment that is expected, or was, in words: `in 29 days`, `3 hours ago`. One unit is enough. */
export function distance(ms: number, now: number): string {
  const s = Math.round(Math.abs(ms - now) / 1000);
  const [count, unit] =
    s < 60 ? [s, "second"] : s < 3_600 ? [Math.floor(s / 60), "minute"] : s < 172_800 ? [Math.floor(s / 3_600), "hour"] : [Math.floor(s / 86_400), "day"];
  const words = plural(count as number, unit as string);
  return ms >= now ? `in ${words}` : `${words} ago`;
}
