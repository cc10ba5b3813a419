// Schemas for what has none of its own: the arguments of prompts, and the variables of templates.

import type { Members, Value } from "../json/value";
import { member, setMember, textMember } from "../json/value";
import { pathVariablesOf, variablesOf } from "./uri-template";

/** Arguments of prompts are texts. */
export function promptSchema(args: Value | undefined): Value {
  const properties: Members = {};
  const required: string[] = [];
  for (const argument of Array.isArray(args) ? args : []) {
    const name = textMember(argument, "name");
    if (name === undefined) continue;
    const schema: Members = { type: "string" };
    for (const word of ["title", "description"]) {
      const text = textMember(argument, word);
      if (text !== undefined) schema[word] = text;
    }
    setMember(properties, name, schema);
    if (member(argument, "required") === true) required.push(name);
  }
  return { type: "object", properties, required, additionalProperties: false };
}

/** What is in the path of a template has to be there; what is in its query may be left out. */
export function templateSchema(template: string): Value {
  const properties: Members = {};
  for (const name of variablesOf(template)) setMember(properties, name, { type: "string" });
  return { type: "object", properties, required: pathVariablesOf(template), additionalProperties: false };
}
