// What every field of a form needs: how to change the value, and what is wrong at its place.
//
// The object stays the same while the form is used, so that a keystroke draws one field anew.

import { createContext, useCallback, useContext, useSyncExternalStore } from "react";
import type { JsonNode } from "../../../ui/json-parse";
import type { Issue } from "../../../lib/form/check";
import type { SchemaDocument } from "../../../lib/form/flatten";
import type { Path } from "../../../lib/json/edit";

/** Values that a server proposes for the text of a field. */
export type Complete = (name: string, value: string, signal: AbortSignal) => Promise<string[]>;

/** What is wrong, by place; fields look only at their own. */
export class Issues {
  private byPointer = new Map<string, string>();
  private readonly blocked = new Map<string, string>();
  private readonly listeners = new Set<() => void>();

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  at(pointer: string): string {
    return this.blocked.get(pointer) ?? this.byPointer.get(pointer) ?? "";
  }

  replace(issues: readonly Issue[]): void {
    const next = new Map<string, string>();
    for (const { pointer, message } of issues) {
      const before = next.get(pointer);
      next.set(pointer, before === undefined ? message : `${before} ${message}`);
    }
    this.byPointer = next;
    this.listeners.forEach((listener) => listener());
  }

  /** A field holds text that is not a value yet. */
  block(pointer: string, message: string | undefined): void {
    if (message === undefined) this.blocked.delete(pointer);
    else this.blocked.set(pointer, message);
    this.listeners.forEach((listener) => listener());
  }

  /** Places of text that is not a value yet. */
  blockers(): string[] {
    return [...this.blocked.keys()];
  }

  clear(): void {
    this.blocked.clear();
    this.replace([]);
  }
}

export interface FormState {
  document: SchemaDocument;
  edit: (path: Path, value: JsonNode | undefined) => void;
  issues: Issues;
  complete: Complete | undefined;
  /** Questions to people name fields by their titles, arguments by their names. */
  hasTitles: boolean;
}

const Context = createContext<FormState | null>(null);
export const FormProvider = Context.Provider;

export function useForm(): FormState {
  const state = useContext(Context);
  if (state === null) throw new Error("a field outside of a form");
  return state;
}

export function useIssue(pointer: string): string {
  const { issues } = useForm();
  return useSyncExternalStore(issues.subscribe, useCallback(() => issues.at(pointer), [issues, pointer]));
}
