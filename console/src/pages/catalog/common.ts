// What the list and the details of the catalog share.

import { FileText, MessageSquareText, Puzzle, Wrench } from "lucide-react";

export const KIND_ICONS = { tools: Wrench, resources: FileText, templates: Puzzle, prompts: MessageSquareText } as const;

let lastSearch = "";

/** Remembers how the list was left. */
export function keepList(search: string): void {
  lastSearch = search;
}

/** The address of the list as it was left. */
export function lastList(): string {
  return lastSearch === "" ? "/catalog" : `/catalog?${lastSearch}`;
}
