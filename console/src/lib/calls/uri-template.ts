// URI templates (RFC 6570) as resources have them: which variables there are, and the URI that values make of it.

interface Expression {
  operator: string;
  variables: { name: string; prefix: number | undefined; explode: boolean }[];
}

const EXPRESSION = /\{([+#./;?&]?)([^{}]*)\}/g;
/** More is no template that somebody fills in. */
const VARIABLES_MAX = 50;

function expressionOf(operator: string, list: string): Expression {
  const variables = list.split(",").slice(0, VARIABLES_MAX).map((text) => {
    const [, name = "", prefix, explode] = /^([^:*]*)(?::(\d{1,4}))?(\*)?$/.exec(text.trim()) ?? [];
    return { name: name || text.trim(), prefix: prefix === undefined ? undefined : Number(prefix), explode: explode === "*" };
  });
  return { operator, variables };
}

export function variablesOf(template: string): string[] {
  const names = new Set<string>();
  for (const [, operator = "", list = ""] of template.matchAll(EXPRESSION)) {
    for (const { name } of expressionOf(operator, list).variables) if (name !== "") names.add(name);
  }
  return [...names].slice(0, VARIABLES_MAX);
}

/** Those that are a part of the path, and not of a query that may be absent. */
export function pathVariablesOf(template: string): string[] {
  const names = new Set<string>();
  for (const [, operator = "", list = ""] of template.matchAll(EXPRESSION)) {
    if (operator !== "" && "?&;#".includes(operator)) continue;
    for (const { name } of expressionOf(operator, list).variables) if (name !== "") names.add(name);
  }
  return [...names].slice(0, VARIABLES_MAX);
}

const FIRST: Readonly<Record<string, string>> = { "": "", "+": "", "#": "#", ".": ".", "/": "/", ";": ";", "?": "?", "&": "&" };
const BETWEEN: Readonly<Record<string, string>> = { "": ",", "+": ",", "#": ",", ".": ".", "/": "/", ";": ";", "?": "&", "&": "&" };

function encode(text: string, isReservedKept: boolean): string {
  const encoded = encodeURIComponent(text).replace(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`);
  if (!isReservedKept) return encoded;
  return encoded.replace(/%(3A|2F|3F|23|5B|5D|40|21|24|26|27|28|29|2A|2B|2C|3B|3D)/g, (code) => decodeURIComponent(code));
}

/** A variable without a value is left out. */
export function expand(template: string, values: Readonly<Record<string, string>>): string {
  return template.replace(EXPRESSION, (_, operator: string, list: string) => {
    const isNamed = ";?&".includes(operator) && operator !== "";
    const parts: string[] = [];
    for (const { name, prefix } of expressionOf(operator, list).variables) {
      const value = Object.hasOwn(values, name) ? values[name] : undefined;
      if (value === undefined || value === "") continue;
      const text = encode(prefix === undefined ? value : [...value].slice(0, prefix).join(""), operator === "+" || operator === "#");
      parts.push(isNamed ? `${name}=${text}` : text);
    }
    return parts.length === 0 ? "" : (FIRST[operator] ?? "") + parts.join(BETWEEN[operator] ?? ",");
  });
}
