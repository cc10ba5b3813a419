// Whether a value is what a schema demands, place by place.
//
// The validator is given a copy of the schema without what would make it give up: patterns that do not compile, references
// that lead nowhere, keywords of a wrong type. It still can be slow on purpose (patterns that backtrack, alternatives of
// alternatives), so pages run this in a worker with a time limit: see `checker.ts`.

import { Validator } from "@cfworker/json-schema";
import type { OutputUnit, SchemaDraft } from "@cfworker/json-schema";
import { parseJson } from "../../ui/json-parse";
import { plainOf, setMember } from "../json/value";

export interface Issue {
  /** JSON Pointer of the place. */
  pointer: string;
  message: string;
  keyword: string;
}

export interface Checked {
  issues: Issue[];
  /** What was not checked, and why. */
  notes: string[];
}

type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
type Members = { [key: string]: Json };

/** Issues of one value; more are not shown. */
const ISSUES_MAX = 100;
const DEPTH_MAX = 100;
const PATTERN_CHARS_MAX = 1_000;

const SUBSCHEMA = new Set([
  "additionalItems", "unevaluatedItems", "contains", "additionalProperties", "unevaluatedProperties", "propertyNames", "not", "if", "then", "else",
]);
const SUBSCHEMAS = new Set(["prefixItems", "allOf", "anyOf", "oneOf"]);
const SCHEMA_MAPS = new Set(["$defs", "definitions", "properties", "patternProperties", "dependentSchemas"]);
const COUNTS = new Set(["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains"]);
const NUMBERS = new Set(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]);
const DATA = new Set(["const", "default", "enum", "examples", "example"]);
const TYPES = new Set(["null", "boolean", "object", "array", "number", "string", "integer"]);

function isMembers(value: unknown): value is Members {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

class Sanitizer {
  readonly notes = new Set<string>();
  constructor(readonly root: Json) {}

  schema(value: Json, depth: number): Json {
    if (typeof value === "boolean") return value;
    if (!isMembers(value) || depth > DEPTH_MAX) return true;
    const out: Members = {};
    for (const [keyword, each] of Object.entries(value)) {
      const kept = this.keyword(keyword, each, depth, value);
      if (kept !== undefined) setMember(out, keyword, kept);
    }
    return out;
  }

  private keyword(keyword: string, value: Json, depth: number, whole: Members): Json | undefined {
    if (DATA.has(keyword)) return keyword === "enum" && !Array.isArray(value) ? undefined : value;
    if (SUBSCHEMA.has(keyword)) return this.schema(value, depth + 1);
    if (SUBSCHEMAS.has(keyword)) return Array.isArray(value) ? value.map((each) => this.schema(each, depth + 1)) : undefined;
    if (SCHEMA_MAPS.has(keyword)) return isMembers(value) ? this.map(keyword, value, depth) : undefined;
    if (keyword === "items") return Array.isArray(value) ? value.map((each) => this.schema(each, depth + 1)) : this.schema(value, depth + 1);
    if (keyword === "dependencies") {
      if (!isMembers(value)) return undefined;
      const entries = Object.entries(value).map(([name, each]): [string, Json] => [name, Array.isArray(each) ? strings(each) : this.schema(each, depth + 1)]);
      return Object.fromEntries(entries);
    }
    if (keyword === "dependentRequired") {
      return isMembers(value) ? Object.fromEntries(Object.entries(value).map(([name, each]) => [name, strings(each)])) : undefined;
    }
    if (keyword === "type") {
      const types = (Array.isArray(value) ? value : [value]).filter((type) => typeof type === "string" && TYPES.has(type));
      return types.length === 0 ? undefined : types.length === 1 ? types[0] : types;
    }
    if (keyword === "required") return Array.isArray(value) ? strings(value) : undefined;
    if (COUNTS.has(keyword)) return typeof value === "number" && value >= 0 ? value : undefined;
    if (keyword === "multipleOf") return typeof value === "number" && value > 0 ? value : undefined;
    if (NUMBERS.has(keyword)) return this.bound(keyword, value, whole);
    if (keyword === "pattern") return typeof value === "string" && this.isPattern(value) ? value : undefined;
    if (keyword === "format") return typeof value === "string" ? value : undefined;
    if (keyword === "uniqueItems") return value === true ? true : undefined;
    if (keyword === "$ref" || keyword === "$dynamicRef" || keyword === "$recursiveRef") return this.reference(value);
    // The base of references: only those that stay in the document are followed.
    if (keyword === "$anchor" || keyword === "$dynamicAnchor") return typeof value === "string" ? value : undefined;
    return undefined;
  }

  private bound(keyword: string, value: Json, whole: Members): Json | undefined {
    if (typeof value === "number") return value;
    // Draft 4.
    if (value === true && keyword.startsWith("exclusive")) return whole[keyword === "exclusiveMinimum" ? "minimum" : "maximum"];
    return undefined;
  }

  private map(keyword: string, value: Members, depth: number): Members {
    const out: Members = {};
    for (const [name, each] of Object.entries(value)) {
      if (keyword === "patternProperties" && !this.isPattern(name)) continue;
      setMember(out, name, this.schema(each, depth + 1));
    }
    return out;
  }

  private isPattern(pattern: string): boolean {
    try {
      if (pattern.length > PATTERN_CHARS_MAX) throw new Error("too long");
      new RegExp(pattern, "u");
      return true;
    } catch {
      this.notes.add(`The pattern ${pattern.slice(0, 80)} is none of JavaScript; only the gateway checks it.`);
      return false;
    }
  }

  private reference(value: Json): Json | undefined {
    if (typeof value === "string" && value.startsWith("#") && isThere(this.root, value.slice(1))) return value;
    this.notes.add(`The reference ${String(value).slice(0, 120)} leads out of the schema, or nowhere; only the gateway checks it.`);
    return undefined;
  }
}

function strings(value: Json): string[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === "string") : [];
}

function isThere(root: Json, fragment: string): boolean {
  if (fragment === "") return true;
  // Names of anchors: the validator finds them, or says that it cannot.
  if (!fragment.startsWith("/")) return JSON.stringify(root).includes(`nchor":${JSON.stringify(fragment)}`);
  let found: Json | undefined = root;
  for (const step of fragment.slice(1).split("/")) {
    let key = step;
    try {
      key = decodeURIComponent(step);
    } catch {
      // Taken as it is.
    }
    key = key.replace(/~1/g, "/").replace(/~0/g, "~");
    if (Array.isArray(found)) found = found[Number(key)];
    else found = isMembers(found) && Object.hasOwn(found, key) ? found[key] : undefined;
  }
  return typeof found === "boolean" || isMembers(found);
}

/** Only what these say is a mistake of the value; the others repeat that something below is wrong. */
const REPEATING = new Set([
  "$ref", "$recursiveRef", "$dynamicRef", "allOf", "properties", "patternProperties", "additionalProperties", "items", "prefixItems", "additionalItems",
  "if", "dependentSchemas", "unevaluatedItems", "unevaluatedProperties",
]);

export class Checker {
  private readonly validator: Validator | undefined;
  private readonly notes: string[];
  private readonly schema: Json;

  /** `text` is the schema. */
  constructor(text: string) {
    const node = parseJson(text);
    const root = node === undefined ? true : (plainOf(node) as Json);
    const sanitizer = new Sanitizer(root);
    this.schema = sanitizer.schema(root, 0);
    this.notes = [...sanitizer.notes];
    try {
      this.validator = new Validator(this.schema as Members, draftOf(root), false);
    } catch (error) {
      this.notes.push(`The schema cannot be used for a check here: ${messageOf(error)}`);
    }
  }

  /** `text` is the value. */
  check(text: string): Checked {
    const node = parseJson(text);
    if (node === undefined || this.validator === undefined) return { issues: [], notes: this.notes };
    try {
      const { valid, errors } = this.validator.validate(plainOf(node));
      const issues = valid ? [] : issuesOf(errors).slice(0, ISSUES_MAX);
      return { issues, notes: this.notes };
    } catch (error) {
      return { issues: [], notes: [...this.notes, `Only the gateway checks this: ${messageOf(error)}`] };
    }
  }
}

function messageOf(error: unknown): string {
  const message = error instanceof RangeError ? "it leads too deep" : error instanceof Error ? error.message : String(error);
  return message.split("\n")[0]?.slice(0, 200) ?? "";
}

/** That of the schema; without one it is the newest, as for the gateway. Draft 4 was made newer by the copy. */
function draftOf(root: Json): SchemaDraft {
  const named = isMembers(root) && typeof root["$schema"] === "string" ? root["$schema"] : "";
  if (/draft-0?[467]/.test(named)) return "7";
  return named.includes("2019-09") ? "2019-09" : "2020-12";
}

function pointerOf(location: string): string {
  return location.replace(/^#/, "");
}

/** One message for each mistake: of alternatives, those of the one that was most likely meant. */
function issuesOf(found: readonly OutputUnit[]): Issue[] {
  // Of `false` the validator names the value as the place in the schema; it stands behind the keyword that it belongs to.
  const errors = found.map((error, index) =>
    error.keyword === "false" ? { ...error, keywordLocation: `${found[index - 1]?.keywordLocation ?? ""}/false` } : error,
  );
  const hidden = new Set<OutputUnit>();
  const issues: Issue[] = [];
  for (const error of errors) {
    if (error.keyword !== "anyOf" && error.keyword !== "oneOf") continue;
    const own = errors.filter((each) => each !== error && each.keywordLocation.startsWith(`${error.keywordLocation}/`) && isBelow(each, error));
    const isTooMany = /\((\d+) matches\)/.exec(error.error)?.[1];
    if (isTooMany !== undefined && isTooMany !== "0") {
      own.forEach((each) => hidden.add(each));
      continue;
    }
    const meant = likeliest(error, own);
    for (const each of own) if (!each.keywordLocation.startsWith(`${error.keywordLocation}/${meant}/`)) hidden.add(each);
    if (own.some((each) => !hidden.has(each) && !REPEATING.has(each.keyword))) hidden.add(error);
  }
  const seen = new Set<string>();
  const said = errors.filter((error) => !hidden.has(error) && !REPEATING.has(error.keyword));
  for (const error of said) {
    // The validator takes a member that is wrong for one that has no schema.
    if (error.keyword === "false" && said.some((other) => other.keyword !== "false" && isBelow(other, error))) continue;
    const issue = inWords(error);
    const key = `${issue.pointer} ${issue.message}`;
    if (!seen.has(key)) issues.push(issue);
    seen.add(key);
  }
  return issues;
}

function isBelow(error: OutputUnit, top: OutputUnit): boolean {
  return error.instanceLocation === top.instanceLocation || error.instanceLocation.startsWith(`${top.instanceLocation}/`);
}

/** The alternative that fails least: not by its type or by the constant that tells it apart, and in the fewest places. */
function likeliest(top: OutputUnit, errors: readonly OutputUnit[]): string {
  const costs = new Map<string, number>();
  for (const error of errors) {
    const index = error.keywordLocation.slice(top.keywordLocation.length + 1).split("/")[0] ?? "";
    const isTelling = ["type", "const", "enum", "false"].includes(error.keyword);
    const isNear = error.instanceLocation.split("/").length <= top.instanceLocation.split("/").length + 1;
    const cost = REPEATING.has(error.keyword) ? 0 : isTelling && isNear ? 100 : 1;
    costs.set(index, (costs.get(index) ?? 0) + cost);
  }
  let best = "";
  let least = Number.POSITIVE_INFINITY;
  for (const [index, cost] of costs) if (cost < least) [best, least] = [index, cost];
  return best;
}

function inWords(error: OutputUnit): Issue {
  const pointer = pointerOf(error.instanceLocation);
  const { keyword } = error;
  const said = error.error;
  const at = (message: string, place = pointer): Issue => ({ pointer: place, message, keyword });
  const quoted = /"(.*?)"/s.exec(said)?.[1] ?? "";
  switch (keyword) {
    case "required": {
      const name = /property "(.*)"\.$/s.exec(said)?.[1] ?? quoted;
      return at("This is required.", `${pointer}/${name.replace(/~/g, "~0").replace(/\//g, "~1")}`);
    }
    case "type": {
      const [, is, wanted] = /Instance type "(.*?)" is invalid\. Expected "(.*)"\.$/s.exec(said) ?? [];
      return at(`This is ${article(is ?? "?")}; it has to be ${(wanted ?? "?").split('", "').map(article).join(" or ")}.`);
    }
    case "enum":
      return at(`This has to be one of ${said.replace(/^Instance does not match any of \[?/, "").replace(/\]?\.$/, "").slice(0, 200)}.`);
    case "const":
      return at(`This has to be ${said.replace(/^Instance does not match /, "").replace(/\.$/, "").slice(0, 200)}.`);
    case "false":
      return at("There is no such member.");
    case "format":
      return at(`This is no ${quoted}.`);
    case "pattern":
      return at("This does not match the pattern.");
    case "not":
      return at("This is what it must not be.");
    case "anyOf":
      return at("This is none of the alternatives.");
    case "oneOf":
      return at(/\([1-9]/.test(said) ? "This fits more than one alternative; it has to fit one." : "This is none of the alternatives.");
    case "uniqueItems":
      return at("An item is there twice.");
    default:
      return at(said.replace(/^String is/, "This is").replace(/^Instance/, "This").replace(/ {2,}/g, " "));
  }
}

function article(type: string): string {
  if (type === "null") return "null";
  return /^[aeio]/.test(type) ? `an ${type}` : `a ${type}`;
}
