// Config: what is in force and where it comes from, the text of the file, and reloading it.

import { RefreshCw } from "lucide-react";
import { useMemo, useState } from "react";
import { refetchAll, useAction, useQuery } from "../../api/use-query";
import { ConfigKeys, sourceWord } from "../../lib/control/config-keys";
import { loadConfig, loadConfigFile, reload } from "../../lib/control/contract";
import type { ConfigKey, Reloaded } from "../../lib/control/contract";
import { Callout, NotHere, ReloadLines, isMissing } from "../../lib/control/parts";
import { plural } from "../../lib/control/words";
import { Button, EmptyState, ErrorState, Json, Loading, PageHeader, SearchInput, Select, Tabs, Text, Toolbar } from "../../ui";
import type { SelectOption } from "../../ui";
import { useParam, useParamSet } from "../../shell/use-param";
import { mistakesOf } from "./check";
import styles from "./config.module.css";
import { Edit } from "./edit";
import { Mistakes } from "./mistakes";

type Tab = "keys" | "edit";

/** Another may edit the file; the page notices without being asked. */
const ASK_EVERY_MS = 10_000;

export default function Config() {
  const file = useQuery("admin/config/file", loadConfigFile, { everyMs: ASK_EVERY_MS });
  const [tab, setTab] = useParam("tab", "keys");
  const [result, setResult] = useState<Reloaded | undefined>(undefined);
  const reloading = useAction(async () => {
    setResult(undefined);
    const reloaded = await reload();
    done(reloaded);
  });
  const done = (reloaded: Reloaded) => {
    setResult(reloaded);
    // Every page may show something that was configured.
    refetchAll();
  };
  const shown: Tab = tab === "edit" ? "edit" : "keys";
  const path = file.data?.path ?? "";
  return (
    <>
      <PageHeader
        title="Config"
        description={file.data === undefined ? "The configuration that is in force." : path === "" ? "There is no configuration file: everything is as by default." : <Text value={path} mono max={300} />}
        actions={
          <Button icon={<RefreshCw size={14} aria-hidden />} busy={reloading.isRunning} onClick={() => void reloading.run()} disabled={file.data !== undefined && path === ""}>
            Reload
          </Button>
        }
      />
      <div className={styles.results}>
        {result !== undefined && (
          <Callout
            tone={result.restart_needed.length > 0 || result.notices.length > 0 ? "warn" : "ok"}
            title="The configuration was reloaded"
            isNews
            actions={
              <Button size="s" onClick={() => setResult(undefined)}>
                Close
              </Button>
            }
          >
            <ReloadLines reloaded={result} tense="did" />
          </Callout>
        )}
        {reloading.error !== undefined &&
          (mistakesOf(reloading.error).length > 0 ? (
            <Callout
              tone="error"
              title="Not reloaded: the file has mistakes, and everything stays as it is"
              isNews
              actions={
                <Button size="s" onClick={reloading.reset}>
                  Close
                </Button>
              }
            >
              <Mistakes mistakes={mistakesOf(reloading.error)} />
            </Callout>
          ) : (
            <ErrorState error={reloading.error} compact onRetry={() => void reloading.run()} />
          ))}
      </div>
      {isMissing(file.error) && file.data === undefined ? (
        <OnlyInForce />
      ) : (
        <Tabs<Tab>
          label="Configuration"
          value={shown}
          onChange={setTab}
          items={[
            { value: "keys", label: "In force", ...(file.data !== undefined && { count: file.data.keys.length }) },
            { value: "edit", label: "Edit the file" },
          ]}
        >
          {file.error !== undefined && file.data === undefined && <ErrorState error={file.error} onRetry={file.refetch} />}
          {file.isLoading && <Loading />}
          {file.data !== undefined && shown === "keys" && <InForce keys={file.data.keys} />}
          {shown === "edit" && <Edit file={file} onApplied={done} />}
        </Tabs>
      )}
    </>
  );
}

type Source = "all" | ConfigKey["source"];

const SOURCES: readonly SelectOption<Source>[] = [
  { value: "all", label: "From anywhere" },
  ...(["file", "environment", "command_line", "default"] as const).map((source) => ({ value: source, label: `From: ${sourceWord(source)}` })),
];

function InForce({ keys }: { keys: readonly ConfigKey[] }) {
  const [params, setParams] = useParamSet();
  const search = params.get("q") ?? "";
  const source = (params.get("source") ?? "all") as Source;
  const section = params.get("section") ?? "";
  const sections = useMemo(() => [...new Set(keys.map((key) => sectionOf(key.key)))], [keys]);
  const wanted = search.trim().toLowerCase();
  const shown = useMemo(
    () =>
      keys.filter(
        (key) =>
          (source === "all" || key.source === source) &&
          (section === "" || sectionOf(key.key) === section) &&
          (wanted === "" || key.key.toLowerCase().includes(wanted) || (key.variable ?? "").toLowerCase().includes(wanted) || JSON.stringify(key.value).toLowerCase().includes(wanted)),
      ),
    [keys, source, section, wanted],
  );
  return (
    <>
      <Toolbar label="Filters">
        <SearchInput label="Search keys and values" value={search} onChange={(q) => setParams({ q })} />
        <Select<string>
          aria-label="Section"
          value={section}
          onChange={(next) => setParams({ section: next })}
          options={[{ value: "", label: "All sections" }, ...sections.map((each) => ({ value: each, label: each }))]}
        />
        <Select<Source> aria-label="Source" value={source} onChange={(next) => setParams({ source: next === "all" ? "" : next })} options={SOURCES} />
      </Toolbar>
      {shown.length < keys.length && <p className={styles.count}>{plural(shown.length, "key")} of {keys.length}</p>}
      <ConfigKeys
        keys={shown}
        empty={<EmptyState title="No key is like that" actions={<Button onClick={() => setParams({ q: "", source: "", section: "" })}>Show all</Button>} />}
      />
      <p className={styles.count}>Credentials are shown by the name of their variable only.</p>
    </>
  );
}

/** `limits`, `backends.lab`, `rbac.roles.viewer`: what belongs together. */
function sectionOf(key: string): string {
  const parts = key.split(".");
  if (parts[0] === "backends") return parts.slice(0, 2).join(".");
  if (parts[0] === "rbac") return parts.slice(0, 3).join(".");
  return parts[0] ?? "";
}

/** Of a gateway that does not say where values come from. */
function OnlyInForce() {
  const config = useQuery("admin/config", loadConfig);
  return (
    <div className={styles.edit}>
      <NotHere what="where values come from" />
      {config.error !== undefined && config.data === undefined && <ErrorState error={config.error} onRetry={config.refetch} />}
      {config.isLoading && <Loading />}
      {config.data !== undefined && <Json value={config.data} depth={1} maxHeight={720} label="Configuration in force" />}
    </div>
  );
}
