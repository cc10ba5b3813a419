// The endpoints of the admin API that these pages use, by name: types, and one function for each request.
//
// Whatever they throw is a `Problem`. Not here: words for people (`words.ts`), state of React (`state.ts`).

import { answer, api, request } from "../../api/client";
import type { components } from "../../api/schema";

type Schemas = components["schemas"];

export type BackendStatus = Schemas["BackendStatus"];
export type Killed = Schemas["Killed"];
export type Scope = Schemas["Scope"];
export type Key = Schemas["Key"];
export type AuditRecord = Schemas["AuditRecord"];

export type PinState = "none" | "pinned" | "changed" | "new";

export interface CatalogEntry {
  backend: string;
  kind?: string | null;
  own_name: string;
  name: string;
  held: boolean;
  title?: string | null;
  description?: string | null;
  tokens?: number;
  pin?: PinState;
  roles_call?: string[];
  roles_see?: string[];
  definition?: unknown;
}

export interface Reloaded {
  added: string[];
  removed: string[];
  replaced: string[];
  kept: string[];
  changed: string[];
  restart_needed: string[];
  notices: string[];
}

export interface RoleSummary {
  name: string;
  permissions: string[];
  denied: string[];
  confirm: string[];
  builtin: boolean;
  sees: number;
  calls: number;
}

export type Verdict = "passed" | "refused" | "waited" | "skipped";

export interface Reason {
  step: string;
  verdict: Verdict;
  rule?: string | null;
  text: string;
}

export interface Why {
  operation: string;
  backend?: string | null;
  kind?: string | null;
  caller?: string | null;
  role: string;
  see: boolean;
  call: boolean;
  reasons: Reason[];
}

export interface RateBucket {
  caller: string;
  backend: string;
  tool: string;
  limit: number;
  burst: number;
  remaining: number;
  renews_in_ms: number;
  full_in_ms: number;
}

export interface Places {
  max: number;
  queue_max: number;
  queue_timeout_ms: number;
  active: number;
  queued: number;
  backends: { name: string; max: number; queue_max: number; active: number; queued: number }[];
}

export interface CircuitNow {
  backend: string;
  state: "closed" | "open" | "half_open";
  failures: number;
  threshold: number;
  retry_after_ms?: number | null;
}

export interface LimitsNow {
  rates: { default_rpm: number; burst: number; per_tool: Record<string, number>; shared: boolean };
  buckets: RateBucket[];
  buckets_total: number;
  admission?: Places | null;
  circuits: CircuitNow[];
  sessions: { open: number; max: number };
  streams: { open: number; max: number; per_caller_max: number };
}

export interface ConfigKey {
  key: string;
  value: unknown;
  source: "file" | "default" | "environment" | "command_line";
  line?: number | null;
  variable?: string | null;
  restart: boolean;
}

export interface ConfigFile {
  path?: string | null;
  text?: string | null;
  digest?: string | null;
  writable: boolean;
  problem?: string | null;
  keys: ConfigKey[];
}

export interface ConfigMistake {
  message: string;
  key?: string | null;
  line?: number | null;
  column?: number | null;
  suggestion?: string | null;
}

export interface Checked {
  mistakes: ConfigMistake[];
  plan?: Reloaded | null;
}

export interface ImportedServer {
  name: string;
  original: string;
  summary: string;
  toml: string;
  problem?: string | null;
  known?: string | null;
  variables: { name: string; set: boolean; literal: boolean }[];
  warnings: string[];
}

export interface ClientFile {
  path: string;
  client: string;
  problem?: string | null;
  servers: ImportedServer[];
}

export interface ImportAnswer {
  servers: ImportedServer[];
  added: string[];
  reloaded?: Reloaded | null;
  backends: BackendStatus[];
}

export interface PinnedTool {
  backend: string;
  tool: string;
  difference: "words" | "shape" | "both" | "new" | "unknown" | null;
  held: boolean;
  at: number;
  approved: boolean;
  approved_definition?: unknown;
  offered_definition?: unknown;
}

async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  const response = await request(path, signal === undefined ? {} : { signal });
  return (await response.json()) as T;
}

async function post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const response = await request(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    ...(signal !== undefined && { signal }),
  });
  return (await response.json()) as T;
}

export const loadBackends = (signal: AbortSignal) => answer(api.GET("/admin/api/backends", { signal }));
export const loadStatus = (signal: AbortSignal) => answer(api.GET("/admin/api/status", { signal }));
export const loadConfig = (signal: AbortSignal) => answer(api.GET("/admin/api/config", { signal }));
export const loadKeys = (signal: AbortSignal) => answer(api.GET("/admin/api/keys", { signal }));

export const loadCatalog = (signal: AbortSignal) => get<CatalogEntry[]>("/admin/api/catalog", signal);
export const loadPins = (signal?: AbortSignal) => get<{ pins: PinnedTool[] }>("/admin/api/pins", signal);
export const loadRoles = (signal: AbortSignal) => get<{ roles: RoleSummary[] }>("/admin/api/roles", signal);
export const loadLimits = (signal: AbortSignal) => get<LimitsNow>("/admin/api/limits", signal);
export const loadConfigFile = (signal?: AbortSignal) => get<ConfigFile>("/admin/api/config/file", signal);
export const loadFound = (signal: AbortSignal) => get<{ files: ClientFile[] }>("/admin/api/import", signal);

export function loadWhy(query: Record<string, string>, signal: AbortSignal): Promise<Why> {
  return get<Why>(`/admin/api/why?${new URLSearchParams(query)}`, signal);
}

export function loadRecords(query: Record<string, string>, signal: AbortSignal): Promise<{ records: AuditRecord[]; next: string | null }> {
  return get(`/admin/api/audit?${new URLSearchParams(query)}`, signal);
}

export const kill = (scope: Scope, name: string, reason: string) => answer(api.POST("/admin/api/kill", { body: { scope, name, reason } }));
export const revive = (scope: Scope, name: string) => answer(api.POST("/admin/api/revive", { body: { scope, name, reason: "" } }));
export const restart = (backend: string) => answer(api.POST("/admin/api/restart", { body: { backend } }));
export const stop = (backend: string, reason: string) => post<BackendStatus>("/admin/api/backends/stop", { backend, reason });
export const start = (backend: string) => post<BackendStatus>("/admin/api/backends/start", { backend });
export const reload = () => post<Reloaded>("/admin/api/reload", {});
export const approve = (backend: string, tool?: string) => answer(api.POST("/admin/api/pins", { body: { backend, ...(tool !== undefined && { tool }) } }));
export const createKey = (name: string, role: string, expires_in_s: number | null) =>
  answer(api.POST("/admin/api/keys", { body: { name, role, expires_in_s } }));
export const revokeKey = (id: string) => answer(api.POST("/admin/api/keys/revoke", { body: { id } }));
export const checkConfig = (text: string, signal?: AbortSignal) => post<Checked>("/admin/api/config/check", { text }, signal);
export const replaceConfig = (text: string, digest: string) => post<Reloaded>("/admin/api/config/file", { text, digest });

export interface ImportRequest {
  text: string;
  names?: string[];
  apply?: boolean;
  digest?: string;
  literals?: boolean;
}

export const importServers = (request: ImportRequest, signal?: AbortSignal) => post<ImportAnswer>("/admin/api/import", request, signal);
