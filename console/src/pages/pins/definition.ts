// A tool's definition in the parts that an operator compares: what models read, and what callers must send. Pure.

export interface Part {
  label: string;
  before: string;
  after: string;
}

export interface Compared {
  changed: Part[];
  /** The labels of what is the same on both sides. */
  same: string[];
}

const LABELS: readonly (readonly [string, string])[] = [
  ["title", "Title"],
  ["description", "Description"],
  ["inputSchema", "Input schema"],
  ["outputSchema", "Output schema"],
  ["annotations", "Annotations"],
];

/** Object members in one order, so that only their content is compared. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  return Object.fromEntries(entries.map(([name, member]) => [name, sorted(member)]));
}

/** As an operator reads it: texts as they are, everything else as indented JSON. */
export function printed(value: unknown): string {
  if (value === undefined) return "";
  if (typeof value === "string") return value;
  return JSON.stringify(sorted(value), undefined, 2);
}

function members(definition: unknown): Record<string, unknown> {
  return typeof definition === "object" && definition !== null && !Array.isArray(definition) ? (definition as Record<string, unknown>) : {};
}

/** What differs, part by part. Members that have no label of their own are one part together. */
export function compared(approved: unknown, offered: unknown): Compared {
  const [before, after] = [members(approved), members(offered)];
  const known = new Set(["name", ...LABELS.map(([name]) => name)]);
  const rest = (of: Record<string, unknown>) => {
    const others = Object.entries(of).filter(([name]) => !known.has(name));
    return others.length === 0 ? "" : printed(Object.fromEntries(others));
  };
  const parts: Part[] = [
    ...LABELS.map(([name, label]) => ({ label, before: printed(before[name]), after: printed(after[name]) })),
    { label: "Other members", before: rest(before), after: rest(after) },
  ];
  const present = parts.filter((part) => part.before !== "" || part.after !== "");
  return { changed: present.filter((part) => part.before !== part.after), same: present.filter((part) => part.before === part.after).map((part) => part.label) };
}

/** Whether two definitions say the same. */
export function isSame(one: unknown, other: unknown): boolean {
  return printed(one) === printed(other);
}
