// Updates of a resource, as MCP tells them: by `subscriptions/listen` (2026-07-28), or by `resources/subscribe` in a session.

import { Radio } from "lucide-react";
import { useEffect, useState } from "react";
import { send } from "../../api/client";
import { asProblem, isAbort } from "../../api/problem";
import { useSession } from "../../api/session";
import { Switch, Text, Time, formatCount, toastProblem } from "../../ui";
import { nodeOf } from "../../lib/json/value";
import { onSessionNotification, sessionFor } from "../../lib/calls/sessions";
import type { Way } from "../../lib/calls/run";
import { ModernClient } from "../../lib/mcp/modern";
import { SILENT } from "../../lib/mcp/types";
import styles from "./detail.module.css";

/** Updates that are listed. */
const SHOWN_MAX = 20;

interface Update {
  atMs: number;
  uri: string;
}

/** Watches while it is switched on; `onUpdate` is told of each. */
export function Watch({ uri, way, onUpdate }: { uri: string; way: Way; onUpdate: () => void }) {
  const { session } = useSession();
  const [isOn, setOn] = useState(false);
  const [rereads, setRereads] = useState(true);
  const [updates, setUpdates] = useState<readonly Update[]>([]);
  const [count, setCount] = useState(0);
  const [state, setState] = useState<"starting" | "watching" | "refused">("starting");
  const mcp = session.paths.mcp;
  const isLegacy = way === "legacy";
  const [latest] = useState<{ onUpdate: () => void }>({ onUpdate });
  useEffect(() => {
    latest.onUpdate = () => {
      if (rereads) onUpdate();
    };
  });

  useEffect(() => {
    if (!isOn || mcp === null) return;
    const controller = new AbortController();
    const { signal } = controller;
    setState("starting");
    setUpdates([]);
    setCount(0);
    const heard = (updated: unknown) => {
      setCount((before) => before + 1);
      setUpdates((before) => [{ atMs: Date.now(), uri: typeof updated === "string" ? updated : "" }, ...before].slice(0, SHOWN_MAX));
      latest.onUpdate();
    };
    const failed = (error: unknown) => {
      if (signal.aborted || isAbort(error)) return;
      setState("refused");
      setOn(false);
      toastProblem(asProblem(error));
    };
    const stop = isLegacy ? subscribe(mcp, uri, signal, heard, () => setState("watching"), failed) : listen(mcp, uri, signal, heard, () => setState("watching"), failed);
    return () => {
      controller.abort();
      stop();
    };
  }, [isOn, mcp, uri, isLegacy, latest]);

  if (mcp === null) return null;
  return (
    <div className={styles.watch}>
      <Switch label="Watch for updates" hint={`By MCP ${isLegacy ? "2025-11-25: resources/subscribe" : "2026-07-28: subscriptions/listen"}`} checked={isOn} onChange={setOn} />
      {isOn && <Switch label="Read it again at each update" checked={rereads} onChange={setRereads} />}
      {isOn && (
        <div className={styles.dim} role="status">
          <Radio size={13} aria-hidden /> {state === "watching" ? (count === 0 ? "Watching; no update yet." : `${formatCount(count)} ${count === 1 ? "update" : "updates"}`) : "Beginning to watch…"}
        </div>
      )}
      {updates.length > 0 && (
        <ol className={styles.updates} aria-label="Updates, newest first">
          {updates.map((update, index) => (
            <li key={`${update.atMs}-${index}`} className={styles.dim}>
              <Time ms={update.atMs} /> {update.uri !== uri && <Text value={update.uri} max={100} mono />}
            </li>
          ))}
        </ol>
      )}
    </div>
  );
}

type Heard = (uri: unknown) => void;

function listen(mcp: string, uri: string, signal: AbortSignal, heard: Heard, began: () => void, failed: (error: unknown) => void): () => void {
  const client = new ModernClient(mcp, send);
  client
    .listen(
      { resourceSubscriptions: [uri] },
      (method, params) => {
        if (method === "notifications/subscriptions/acknowledged") began();
        if (method === "notifications/resources/updated") heard(params["uri"]);
      },
      { listener: SILENT, signal },
    )
    .then(() => failed(new Error("The gateway ended the subscription.")), failed);
  return () => undefined;
}

function subscribe(mcp: string, uri: string, signal: AbortSignal, heard: Heard, began: () => void, failed: (error: unknown) => void): () => void {
  const params = [["uri", nodeOf(uri)]] as const;
  const stop = onSessionNotification((method, said) => {
    if (method === "notifications/resources/updated") heard(said["uri"]);
  });
  const opened = sessionFor(mcp, send, SILENT, signal, false);
  opened.then((session) => session.call("resources/subscribe", params, { listener: SILENT, signal })).then(began, failed);
  return () => {
    stop();
    void opened.then((session) => session.call("resources/unsubscribe", params, { listener: SILENT, signal: AbortSignal.timeout(10_000) })).catch(() => undefined);
  };
}
