// Arguments while they are written, and what is wrong with them: checked shortly after each change, and before a call.

import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { JsonNode } from "../../../ui/json-parse";
import type { Issue } from "../../../lib/form/check";
import { SchemaChecker } from "../../../lib/form/checker";
import { draftOf, edited, ownIssues, typed } from "../../../lib/form/draft";
import type { Draft } from "../../../lib/form/draft";
import type { Path } from "../../../lib/json/edit";
import { compact } from "../../../lib/json/value";
import { Issues } from "./context";

/** After the last keystroke. */
const CHECK_AFTER_MS = 200;

export interface DraftState {
  draft: Draft;
  issues: Issues;
  /** What of the check could not be done. */
  notes: readonly string[];
  /** Everything that is wrong at the moment, with what is only missing once a call was tried. */
  found: readonly Issue[];
  edit: (path: Path, value: JsonNode | undefined) => void;
  type: (text: string) => void;
  replace: (node: JsonNode) => void;
  /** Checks now, and shows everything. */
  check: () => Promise<readonly Issue[]>;
  /** Shows what somebody else found wrong, until the next change. */
  show: (issues: readonly Issue[]) => void;
}

export function useDraft(schema: string, start: () => JsonNode): DraftState {
  const [draft, setDraft] = useState<Draft>(() => draftOf(start()));
  const [issues] = useState(() => new Issues());
  const [notes, setNotes] = useState<readonly string[]>([]);
  const [found, setFound] = useState<readonly Issue[]>([]);
  const wasTried = useRef(false);
  const latest = useRef(draft);
  latest.current = draft;
  const checker = useMemo(() => new SchemaChecker(schema), [schema]);
  useEffect(() => () => checker.close(), [checker]);

  const run = useCallback(async (): Promise<readonly Issue[] | undefined> => {
    const checkedDraft = latest.current;
    const own = ownIssues(checkedDraft);
    const checked = await checker.check(compact(checkedDraft.node));
    // Another change came meanwhile; its own check tells.
    if (checked === undefined || latest.current.node !== checkedDraft.node) return undefined;
    const pointers = new Set(own.map(({ pointer }) => pointer));
    const all = [...own, ...checked.issues.filter(({ pointer }) => !pointers.has(pointer))];
    const shown = wasTried.current ? all : all.filter(({ keyword }) => keyword !== "required" && keyword !== "number");
    issues.replace(shown);
    setFound(shown);
    setNotes(checked.notes);
    return all;
  }, [checker, issues]);

  useEffect(() => {
    const timer = window.setTimeout(() => void run(), CHECK_AFTER_MS);
    return () => window.clearTimeout(timer);
  }, [draft.node, run]);

  const edit = useCallback((path: Path, value: JsonNode | undefined) => setDraft((before) => edited(before, path, value)), []);
  const type = useCallback((text: string) => setDraft((before) => typed(before, text)), []);
  const replace = useCallback(
    (node: JsonNode) => {
      wasTried.current = false;
      issues.clear();
      setFound([]);
      setDraft(draftOf(node));
    },
    [issues],
  );
  const check = useCallback(async () => {
    wasTried.current = true;
    const blocked = issues.blockers().map((pointer): Issue => ({ pointer, message: "This is no JSON.", keyword: "json" }));
    // Nothing changes while a call begins, so the answer is of this draft; a worker that had to be ended found nothing.
    const all = (await run()) ?? (await run()) ?? [];
    return [...blocked, ...all];
  }, [issues, run]);
  const show = useCallback(
    (list: readonly Issue[]) => {
      wasTried.current = true;
      issues.replace(list);
      setFound(list);
    },
    [issues],
  );
  return { draft, issues, notes, found, edit, type, replace, check, show };
}
