// One entry of the catalog: what it is, and the inspector that calls it.

import { Braces } from "lucide-react";
import { useCallback, useMemo } from "react";
import { Link, useLocation } from "wouter";
import { answer, api, send } from "../../api/client";
import { useSession } from "../../api/session";
import { useQuery } from "../../api/use-query";
import { Badge, Bytes, Code, DefinitionList, EmptyState, ErrorState, InlineCode, LinkButton, Loading, PageHeader, Status, Tabs, Text, formatCount } from "../../ui";
import { parseJson, printJson } from "../../ui/json-parse";
import type { JsonNode } from "../../ui/json-parse";
import { useParam } from "../../shell/use-param";
import { memberOf } from "../../lib/json/edit";
import { nodeOf, printValue, valueOf } from "../../lib/json/value";
import { promptSchema, templateSchema } from "../../lib/calls/arguments";
import type { PastCall } from "../../lib/calls/history";
import type { Target } from "../../lib/calls/run";
import { expand } from "../../lib/calls/uri-template";
import { KIND_WORDS, hrefOf, keyOf, switchOf } from "../../lib/catalog/entries";
import type { Catalog, Entry, Kind, Killed } from "../../lib/catalog/entries";
import { titleOf } from "../../lib/catalog/search";
import { ModernClient } from "../../lib/mcp/modern";
import { SILENT } from "../../lib/mcp/types";
import { KIND_ICONS, lastList } from "./common";
import { CopyView } from "./copy-view";
import { AccessPart, DefinitionView, Part, useDefinition } from "./definition-view";
import type { Complete } from "./form/context";
import { HistoryView } from "./history-view";
import { Inspector, keepDraft, useInspector } from "./inspector";
import { JsonEditor } from "./json-view";
import { useCatalog, useKilled } from "./use-catalog";
import { Watch } from "./watch";
import styles from "./detail.module.css";

/** A link may bring arguments; longer ones are no link. */
const GIVEN_CHARS_MAX = 32_000;

export function Detail({ kind, name }: { kind: Kind; name: string }) {
  const { data: catalog, error, refetch } = useCatalog();
  const killed = useKilled();
  const back = { href: lastList(), label: "Catalog" };
  if (catalog === undefined) {
    return (
      <>
        <PageHeader title={name} back={back} />
        {error === undefined ? <Loading label="Reading the catalog…" /> : <ErrorState error={error} onRetry={refetch} />}
      </>
    );
  }
  const entry = catalog.byKey.get(keyOf(kind, name));
  // A resource need not be listed: links of results lead to such ones.
  if (entry === undefined && kind === "resources") return <EntryView key={name} catalog={catalog} entry={unlisted(name)} killed={killed} isListed={false} />;
  if (entry === undefined) {
    return (
      <>
        <PageHeader title={name} back={back} />
        <EmptyState title={`There is no such ${KIND_WORDS[kind].one.toLowerCase()}`} actions={<LinkButton href={`/catalog?q=${encodeURIComponent(name.slice(0, 100))}`}>Search the catalog</LinkButton>}>
          It may be gone, or you may not see it. Names are case-sensitive.
        </EmptyState>
      </>
    );
  }
  return <EntryView key={keyOf(kind, name)} catalog={catalog} entry={entry} killed={killed} isListed />;
}

function unlisted(uri: string): Entry {
  return {
    kind: "resources", name: uri, shortName: undefined, title: undefined, description: undefined, backends: [], tags: [], isReadOnly: undefined, isDestructive: undefined,
    item: undefined, place: -1, tokens: undefined, pin: undefined, isHeld: false, callers: undefined, seers: undefined, ownName: undefined,
  };
}

/** The definition of what the caller's own view does not have, for admins. */
function useHiddenDefinition(entry: Entry, isListed: boolean): JsonNode | undefined {
  const { isAdmin } = useSession();
  const isHidden = isListed && entry.item === undefined && isAdmin;
  const query = useQuery(isHidden ? "catalog definitions" : null, (signal) => answer(api.GET("/admin/api/catalog", { params: { query: { definitions: true } }, signal })));
  return useMemo(() => {
    const found = query.data?.find((each) => each.name === entry.name && each.own_name === entry.ownName);
    return found?.definition === undefined ? undefined : nodeOf(found.definition);
  }, [query.data, entry]);
}

type Panel = "json" | "definition" | "copy" | "history";

function EntryView({ catalog, entry, killed, isListed }: { catalog: Catalog; entry: Entry; killed: readonly Killed[]; isListed: boolean }) {
  const own = useDefinition(catalog, entry);
  const hidden = useHiddenDefinition(entry, isListed);
  const definition = own ?? hidden;
  const off = switchOf(entry, killed);
  const [panel, setPanel] = useParam("view", entry.kind === "resources" ? "definition" : "json");
  const [given] = useParam("input");
  const [, navigate] = useLocation();
  const { schemaText, toTarget, verb } = useMemo(() => callOf(entry, definition), [entry, definition]);
  const state = useInspector(keyOf(entry.kind, entry.name), schemaText, toTarget, given.length > 0 && given.length <= GIVEN_CHARS_MAX ? given : undefined);
  const complete = useCompletion(entry);
  const { draft, replace } = state.draftState;
  const target = toTarget(draft.node);

  const items: { value: Panel; label: string }[] = [
    ...(entry.kind === "resources" ? [] : [{ value: "json" as const, label: "JSON" }]),
    { value: "definition", label: "Definition" },
    { value: "copy", label: "Copy as" },
    { value: "history", label: "History" },
  ];
  const shown = items.some(({ value }) => value === panel) ? (panel as Panel) : "definition";

  const onReplay = (past: PastCall) => {
    const input = parseJson(past.input ?? "");
    if (input === undefined) return;
    if (entry.kind !== "resources" && entry.kind !== "templates") replace(input);
    state.start(input);
  };
  const onEdit = (past: PastCall) => {
    const input = past.input ?? "{}";
    const node = parseJson(input);
    if (past.kind === entry.kind && past.name === entry.name) {
      if (node !== undefined) replace(node);
      return;
    }
    keepDraft(keyOf(past.kind, past.name), input);
    navigate(hrefOf(past.kind, past.name));
  };
  return (
    <>
      <PageHeader title={entry.name} back={{ href: lastList(), label: "Catalog" }} description={<Marks entry={entry} off={off} isListed={isListed} />} />
      {titleOf(entry) !== "" && titleOf(entry) !== entry.name && (
        <p className={styles.title}>
          <Text value={titleOf(entry)} max={200} />
        </p>
      )}
      {entry.description !== undefined && (
        <div className={styles.description}>
          <Text value={entry.description} max={600} block />
        </div>
      )}
      <div className={styles.columns}>
        <Inspector
          state={state}
          verb={verb}
          title={entry.kind === "resources" ? "Read" : entry.kind === "templates" ? "Variables" : "Arguments"}
          complete={complete}
          isDestructive={entry.isDestructive === true}
          before={entry.kind === "resources" || entry.kind === "templates" ? <Address entry={entry} target={target} /> : undefined}
        />
        <aside className={styles.side} aria-label="About it">
          <Tabs<Panel> label="About it" items={items} value={shown} onChange={setPanel}>
            {shown === "json" && <JsonEditor draftState={state.draftState} />}
            {shown === "definition" && (
              <div className={styles.panel}>
                {entry.kind !== "tools" && <Facts entry={entry} definition={definition} />}
                {(entry.kind === "resources" || entry.kind === "templates") && <Watch uri={target.name} way={state.way} onUpdate={() => state.start(draft.node)} />}
                <AccessPart entry={entry} />
                {definition === undefined ? <p className={styles.dim}>{isListed ? "The definition is not shown to callers." : "It is not in any list: links lead to it."}</p> : <DefinitionView entry={entry} definition={definition} />}
              </div>
            )}
            {shown === "copy" && <CopyView target={target} input={draft.node} />}
            {shown === "history" && <HistoryView name={target.name} onReplay={onReplay} onEdit={onEdit} />}
          </Tabs>
        </aside>
      </div>
    </>
  );
}

/** What is asked for, and how arguments become a call. */
export function callOf(entry: Pick<Entry, "kind" | "name">, definition: JsonNode | undefined): { schemaText: string; toTarget: (input: JsonNode) => Target; verb: string } {
  const { name } = entry;
  switch (entry.kind) {
    case "tools": {
      const schema = memberOf(definition, "inputSchema");
      const value = schema === undefined ? undefined : valueOf(schema);
      return { schemaText: schema === undefined ? '{"type":"object"}' : printJson(schema), toTarget: () => ({ kind: "tools", name, schema: value }), verb: "Call" };
    }
    case "prompts": {
      const args = memberOf(definition, "arguments");
      return { schemaText: printValue(promptSchema(args === undefined ? undefined : valueOf(args))), toTarget: () => ({ kind: "prompts", name }), verb: "Get" };
    }
    case "templates":
      return { schemaText: printValue(templateSchema(name)), toTarget: (input) => ({ kind: "resources", name: filled(name, input) }), verb: "Read" };
    case "resources":
      return { schemaText: '{"type":"object","additionalProperties":false}', toTarget: () => ({ kind: "resources", name }), verb: "Read" };
  }
}

function filled(template: string, input: JsonNode): string {
  const values: Record<string, string> = {};
  if (input.kind === "object") for (const [key, value] of input.entries) if (value.kind === "string") values[key] = value.value;
  return expand(template, values);
}

/** Proposals are made by MCP only. */
const COMPLETE_MS_MAX = 8_000;

function useCompletion(entry: Entry): Complete | undefined {
  const { session } = useSession();
  const { mcp } = session.paths;
  const { kind, name } = entry;
  const complete = useCallback<Complete>(
    async (argument, value, signal) => {
      const client = new ModernClient(mcp ?? "/mcp", send);
      const ref = kind === "prompts" ? { type: "ref/prompt", name } : { type: "ref/resource", uri: name };
      const bounded = AbortSignal.any([signal, AbortSignal.timeout(COMPLETE_MS_MAX)]);
      const params = [["ref", nodeOf(ref)], ["argument", nodeOf({ name: argument, value })]] as const;
      const result = await client.call("completion/complete", params, { listener: SILENT, signal: bounded });
      const values = memberOf(memberOf(result, "completion"), "values");
      return values?.kind === "array" ? values.items.flatMap((item) => (item.kind === "string" ? [item.value] : [])).slice(0, 100) : [];
    },
    [mcp, kind, name],
  );
  return mcp !== null && (kind === "prompts" || kind === "templates") ? complete : undefined;
}

function Address({ entry, target }: { entry: Entry; target: Target }) {
  return (
    <div className={styles.address}>
      <Code value={target.name} label={entry.kind === "templates" ? "The URI that is read" : "URI"} />
    </div>
  );
}

function Facts({ entry, definition }: { entry: Entry; definition: JsonNode | undefined }) {
  const text = (key: string) => {
    const found = memberOf(definition, key);
    return found?.kind === "string" ? <Text value={found.value} max={120} /> : undefined;
  };
  const size = memberOf(definition, "size");
  const items = [
    ["Name", entry.kind === "prompts" ? undefined : text("name")],
    ["Type", text("mimeType")],
    ["Size", size?.kind === "number" ? <Bytes value={Number(size.text)} /> : undefined],
  ] as const;
  if (items.every(([, value]) => value === undefined)) return null;
  return (
    <Part title="About it">
      <DefinitionList items={items} />
    </Part>
  );
}

/** What it is and how it stands, in badges. */
function Marks({ entry, off, isListed }: { entry: Entry; off: Killed | undefined; isListed: boolean }) {
  const { isAdmin } = useSession();
  const Icon = KIND_ICONS[entry.kind];
  return (
    <span className={styles.marks}>
      <Badge icon={<Icon size={12} aria-hidden />}>{KIND_WORDS[entry.kind].one}</Badge>
      {entry.backends.slice(0, 5).map((backend) =>
        isAdmin ? (
          <Link key={backend} href={`/backends/${encodeURIComponent(backend)}`} className={styles.backend}>
            <Text value={backend} max={60} />
          </Link>
        ) : (
          <Text key={backend} value={backend} max={60} />
        ),
      )}
      {entry.isReadOnly === true && <Badge title="The server says that it changes nothing">read-only</Badge>}
      {entry.isDestructive === true && (
        <Badge tone="warn" title="The server says that it may destroy something">
          destructive
        </Badge>
      )}
      {entry.tags.slice(0, 6).map((tag) => (
        <Badge key={tag}>
          <Text value={tag} max={40} />
        </Badge>
      ))}
      {entry.tokens !== undefined && entry.tokens > 0 && (
        <span className={styles.tokens} title="What its definition costs a model, about">
          {formatCount(entry.tokens)} tokens
        </span>
      )}
      {entry.pin === "pinned" && <Badge tone="ok">pinned</Badge>}
      {(entry.pin === "changed" || entry.pin === "new" || entry.isHeld) && (
        <Link href={`/pins?q=${encodeURIComponent(entry.name)}`}>
          <Status tone="warn">{entry.isHeld ? "held back" : entry.pin === "new" ? "new since it was pinned" : "changed since it was pinned"}</Status>
        </Link>
      )}
      {off !== undefined && (
        <Link href="/switches">
          <Status tone="error" {...(off.reason && { title: off.reason.slice(0, 200) })}>
            switched off
          </Status>
        </Link>
      )}
      {off?.reason !== undefined && off.reason !== "" && (
        <span className={styles.reason}>
          <Text value={off.reason} max={120} />
        </span>
      )}
      {!isListed && <Badge>not listed</Badge>}
      {entry.kind === "tools" && entry.item !== undefined && Array.isArray(entry.item["method"]) && (
        <span className={styles.braces} title="Called with these verbs over REST">
          <Braces size={12} aria-hidden /> <InlineCode>{(entry.item["method"] as unknown[]).map(String).join(", ")}</InlineCode>
        </span>
      )}
    </span>
  );
}
