// The endpoints of the admin API that these pages use, by name: types, and one function for each request.
//
// Whatever they throw is a `Problem`. Not here: words for people (`words.ts`), state of React (`state.ts`).

import { answer, api } from "../../api/client";
import type { components, paths } from "../../api/schema";

type Schemas = components["schemas"];

export type AuditRecord = Schemas["AuditRecord"];
export type BackendStatus = Schemas["BackendStatus"];
export type CatalogEntry = Schemas["CatalogEntry"];
export type Checked = Schemas["PostConfigCheckAnswer"];
export type CircuitNow = Schemas["CircuitNow"];
export type ClientFile = Schemas["ClientFile"];
export type ConfigFile = Schemas["GetConfigFileAnswer"];
export type ConfigKey = Schemas["ConfigKey"];
export type ConfigMistake = Schemas["ConfigMistake"];
export type ImportedServer = Schemas["ImportedServer"];
export type ImportRequest = Schemas["PostImportRequest"];
export type Key = Schemas["Key"];
export type Killed = Schemas["Killed"];
export type LimitsNow = Schemas["GetLimitsAnswer"];
export type PinnedTool = Schemas["PinnedTool"];
export type RateBucket = Schemas["RateBucket"];
export type Reason = Schemas["Reason"];
export type Reloaded = Schemas["Reloaded"];
export type RoleSummary = Schemas["RoleSummary"];
export type Scope = Schemas["Scope"];
export type SkippedLines = Schemas["SkippedLines"];
export type StderrLine = Schemas["StderrLine"];
export type Verdict = Schemas["Verdict"];
export type Why = Schemas["GetWhyAnswer"];

type Query<P extends keyof paths> = paths[P] extends { get: { parameters: { query?: infer Q } } } ? NonNullable<Q> : never;
export type RecordsQuery = Query<"/admin/api/audit">;
export type WhyQuery = Query<"/admin/api/why">;

export const loadBackends = (signal: AbortSignal) => answer(api.GET("/admin/api/backends", { signal }));
export const loadStatus = (signal: AbortSignal) => answer(api.GET("/admin/api/status", { signal }));
export const loadConfig = (signal: AbortSignal) => answer(api.GET("/admin/api/config", { signal }));
export const loadKeys = (signal: AbortSignal) => answer(api.GET("/admin/api/keys", { signal }));
export const loadCatalog = (signal: AbortSignal) => answer(api.GET("/admin/api/catalog", { signal }));
export const loadPins = (signal?: AbortSignal) => answer(api.GET("/admin/api/pins", signal === undefined ? {} : { signal }));
export const loadRoles = (signal: AbortSignal) => answer(api.GET("/admin/api/roles", { signal }));
export const loadLimits = (signal: AbortSignal) => answer(api.GET("/admin/api/limits", { signal }));
export const loadConfigFile = (signal?: AbortSignal) => answer(api.GET("/admin/api/config/file", signal === undefined ? {} : { signal }));
export const loadFound = (signal: AbortSignal) => answer(api.GET("/admin/api/import", { signal }));
export const loadWhy = (query: WhyQuery, signal: AbortSignal) => answer(api.GET("/admin/api/why", { params: { query }, signal }));
export const loadRecords = (query: RecordsQuery, signal: AbortSignal) => answer(api.GET("/admin/api/audit", { params: { query }, signal }));
/** What the callers of one backend did in the last hour. */
export const loadHour = (backend: string, signal: AbortSignal) => answer(api.GET("/admin/api/usage", { params: { query: { by: "backend", since: "1h", backend } }, signal }));

export const kill = (scope: Scope, name: string, reason: string) => answer(api.POST("/admin/api/kill", { body: { scope, name, reason } }));
export const revive = (scope: Scope, name: string) => answer(api.POST("/admin/api/revive", { body: { scope, name, reason: "" } }));
export const restart = (backend: string) => answer(api.POST("/admin/api/restart", { body: { backend } }));
export const stop = (backend: string, reason: string) => answer(api.POST("/admin/api/backends/stop", { body: { backend, reason } }));
export const start = (backend: string) => answer(api.POST("/admin/api/backends/start", { body: { backend, reason: "" } }));
export const reload = () => answer(api.POST("/admin/api/reload", { body: {} }));
export const approve = (backend: string, tool: string | null) => answer(api.POST("/admin/api/pins", { body: { backend, tool } }));
export const createKey = (name: string, role: string, expires_in_s: number | null) => answer(api.POST("/admin/api/keys", { body: { name, role, expires_in_s } }));
export const revokeKey = (id: string) => answer(api.POST("/admin/api/keys/revoke", { body: { id } }));
export const checkConfig = (text: string, signal: AbortSignal | null = null) => answer(api.POST("/admin/api/config/check", { body: { text }, signal }));
export const replaceConfig = (text: string, digest: string) => answer(api.POST("/admin/api/config/file", { body: { text, digest } }));
export const importServers = (body: ImportRequest, signal: AbortSignal | null = null) => answer(api.POST("/admin/api/import", { body, signal }));
