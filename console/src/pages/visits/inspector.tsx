// The inspector of the catalog on something that a visited server offers: MCP of either era, at the visit's own endpoint.

import { useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { send } from "../../api/client";
import type { Way } from "../../lib/calls/run";
import { CallStore } from "../../lib/calls/store";
import { SchemaDocument } from "../../lib/form/flatten";
import { initial } from "../../lib/form/initial";
import { memberOf } from "../../lib/json/edit";
import { nodeOf, parseValue, valueOf } from "../../lib/json/value";
import { LegacySession } from "../../lib/mcp/legacy";
import type { CallListener } from "../../lib/mcp/types";
import type { Offered } from "../../lib/visits/offer";
import type { JsonNode } from "../../ui/json-parse";
import { callOf } from "../catalog/detail";
import { useDraft } from "../catalog/form/use-draft";
import { Inspector } from "../catalog/inspector";
import type { InspectorState } from "../catalog/inspector";

const WAYS: readonly Way[] = ["modern", "legacy"];
/** A schema whose text is longer gets no form; the inspector says so. */
const FORM_CHARS_MAX = 1_500_000;

function destroys({ definition }: Offered): boolean {
  const hint = memberOf(memberOf(definition, "annotations"), "destructiveHint");
  return hint !== undefined && valueOf(hint) === true;
}

/** A session with the visited server, opened by the first call that needs one and ended with the page. */
function useVisitSession(endpoint: string) {
  const held = useRef<Promise<LegacySession> | undefined>(undefined);
  useEffect(() => {
    return () => {
      void held.current?.then((session) => session.close()).catch(() => undefined);
      held.current = undefined;
    };
  }, [endpoint]);
  return useCallback(
    (listener: CallListener, signal: AbortSignal, isAgain: boolean) => {
      if (isAgain) held.current = undefined;
      const opening = (held.current ??= LegacySession.open(endpoint, send, listener, signal));
      opening.catch(() => {
        if (held.current === opening) held.current = undefined;
      });
      return opening;
    },
    [endpoint],
  );
}

export function VisitInspector({ item, endpoint }: { item: Offered; endpoint: string }) {
  const { schemaText, toTarget, verb } = useMemo(() => callOf(item, item.definition), [item]);
  const [way, setWay] = useState<Way>("modern");
  const document = useMemo(() => new SchemaDocument(schemaText.length > FORM_CHARS_MAX ? true : parseValue(schemaText)), [schemaText]);
  const begin = useCallback((): JsonNode => initial(document, document.root) ?? nodeOf({}), [document]);
  const draftState = useDraft(schemaText, begin);
  const [store] = useState(() => new CallStore());
  useEffect(() => () => store.cancel(), [store]);
  const call = useSyncExternalStore(store.subscribe, store.current);
  const session = useVisitSession(endpoint);
  const start = useCallback((input: JsonNode) => store.start({ target: toTarget(input), input, way, paths: { mcp: endpoint, rest: null, rpc: null }, send, session }), [store, toTarget, way, endpoint, session]);
  const state: InspectorState = { draftState, document, way, setWay, ways: WAYS, call, start, cancel: () => store.cancel(), reset: () => draftState.replace(begin()), schemaText };
  const title = item.kind === "resources" ? "Read" : item.kind === "templates" ? "Variables" : "Arguments";
  return <Inspector state={state} verb={verb} title={title} isDestructive={item.kind === "tools" && destroys(item)} />;
}
