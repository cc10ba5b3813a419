// What several of these pages know: backends as they are now, what is switched off, and which key of the configuration has it.

import { useMemo } from "react";
import { useLive } from "../../api/live";
import type { Problem } from "../../api/problem";
import { useQuery } from "../../api/use-query";
import { loadBackends, loadConfig, loadStatus } from "./contract";
import type { BackendStatus, Killed, Scope } from "./contract";

export interface Backends {
  backends: readonly BackendStatus[] | undefined;
  error: Problem | undefined;
  refetch: () => void;
}

/** Without the stream of `live.tsx`, so that a gateway without it is still usable. */
const ASK_EVERY_MS = 2_000;

/** Of the live stream where there is one. */
export function useBackends(): Backends {
  const { overview, state } = useLive();
  const isLive = overview !== undefined && state !== "closed";
  const asked = useQuery(isLive ? null : "admin/backends", loadBackends, { everyMs: ASK_EVERY_MS });
  return { backends: isLive ? overview.backends : asked.data, error: isLive ? undefined : asked.error, refetch: asked.refetch };
}

export interface SwitchedOff extends Killed {
  /** What is in the configuration cannot be switched on from here. */
  source: "runtime" | "configuration";
}

interface KillSection {
  disabled_tools?: string[];
  disabled_backends?: string[];
  disabled_callers?: string[];
  everything?: boolean;
}

function configured(config: Record<string, unknown> | undefined): SwitchedOff[] {
  const section = (config?.["kill_switch"] ?? {}) as KillSection;
  const of = (scope: Scope, names: readonly string[] = []): SwitchedOff[] => names.map((name) => ({ scope, name, reason: "", source: "configuration" }));
  return [
    ...of("all", section.everything === true ? [""] : []),
    ...of("backend", section.disabled_backends),
    ...of("tool", section.disabled_tools),
    ...of("caller", section.disabled_callers),
  ];
}

export interface Switches {
  all: readonly SwitchedOff[] | undefined;
  error: Problem | undefined;
  refetch: () => void;
}

/** Everything that is off, at run time and by the configuration. */
export function useSwitches(): Switches {
  const { overview, state } = useLive();
  const isLive = overview !== undefined && state !== "closed";
  const status = useQuery(isLive ? null : "admin/status", loadStatus, { everyMs: ASK_EVERY_MS });
  const config = useQuery("admin/config", loadConfig);
  const killed = isLive ? overview.killed : status.data?.killed;
  const all = useMemo(
    () => killed && [...configured(config.data), ...killed.map((one): SwitchedOff => ({ ...one, source: "runtime" }))],
    [killed, config.data],
  );
  const refetch = () => {
    status.refetch();
    config.refetch();
  };
  return { all, error: status.error ?? config.error, refetch };
}

/** The address that shows records of the audit log with these filters. */
export function traffic(filters: Record<string, string>): string {
  return `/traffic?${new URLSearchParams(filters)}`;
}

export function backendHref(name: string): string {
  return `/backends/${encodeURIComponent(name)}`;
}

/** Where the catalog shows an operation. */
export function operationHref(operation: { kind?: string | null; name: string }): string {
  const kind = operation.kind === "resources" || operation.kind === "resourceTemplates" ? "resources" : operation.kind === "prompts" ? "prompts" : "tools";
  return `/catalog/${kind}/${encodeURIComponent(operation.name)}`;
}
