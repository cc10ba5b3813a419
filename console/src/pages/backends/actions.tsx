// What an operator does to a backend: restart, stop, start, switch off. One dialog at a time; the result is said in words.

import { OctagonX, Play, Power, RotateCw, Square } from "lucide-react";
import { useState } from "react";
import type { ReactNode } from "react";
import { start, stop } from "../../lib/control/contract";
import type { BackendStatus, Scope } from "../../lib/control/contract";
import { SwitchOffDialog, switchOn } from "../../lib/control/parts";
import { useSwitches } from "../../lib/control/state";
import { healthOf, plural } from "../../lib/control/words";
import { ConfirmDialog, toast, toastProblem } from "../../ui";
import type { MenuAction } from "../../ui";
import { restartInWords } from "./restart";

export function saidOf(verb: string, backend: BackendStatus): { title: string; detail: string; tone: "ok" | "warn" } {
  const health = healthOf(backend);
  const isGood = backend.health !== "down" && backend.health !== "failing";
  return { title: `${backend.name} was ${verb} and is ${health.word}`, detail: backend.problem ?? "", tone: isGood ? "ok" : "warn" };
}

export interface BackendActions {
  /** What can be done to this one, for a menu. */
  items: (backend: BackendStatus) => MenuAction[];
  restart: (backend: BackendStatus) => void;
  stop: (backend: BackendStatus) => void;
  start: (backend: BackendStatus) => void;
  isBusy: (name: string) => boolean;
  isOff: (name: string) => boolean;
  /** Why it is off, where that was said. */
  whyOff: (name: string) => string;
  switchOff: (name: string) => void;
  switchOn: (name: string) => void;
  dialogs: ReactNode;
}

export function isBuiltin(backend: BackendStatus): boolean {
  return backend.type === "builtin";
}

export function useBackendActions(onChange: () => void): BackendActions {
  const [busy, setBusy] = useState<ReadonlySet<string>>(new Set());
  const [asked, setAsked] = useState<{ what: "restart" | "stop"; backend: BackendStatus } | undefined>(undefined);
  const [off, setOff] = useState<{ scope: Scope; name: string } | undefined>(undefined);
  const { all: switches, refetch } = useSwitches();
  const changed = () => {
    refetch();
    onChange();
  };
  const during = async (name: string, work: () => Promise<void>) => {
    setBusy((before) => new Set(before).add(name));
    try {
      await work();
    } catch (error) {
      toastProblem(error);
    } finally {
      setBusy((before) => new Set([...before].filter((each) => each !== name)));
      changed();
    }
  };
  const entry = (name: string) => switches?.find((one) => one.scope === "backend" && one.name === name);
  const isAtRunTime = (name: string) => switches?.some((one) => one.scope === "backend" && one.name === name && one.source === "runtime") === true;

  const runRestart = (backend: BackendStatus) => void during(backend.name, () => restartInWords(backend.name));
  const runStart = (backend: BackendStatus) =>
    void during(backend.name, async () => {
      toast(saidOf("started", await start(backend.name)));
    });
  const askRestart = (backend: BackendStatus) => {
    // Without calls nothing is lost.
    if (backend.active + backend.queued === 0) runRestart(backend);
    else setAsked({ what: "restart", backend });
  };
  const askStop = (backend: BackendStatus) => setAsked({ what: "stop", backend });
  const askOff = (name: string) => setOff({ scope: "backend", name });
  const runOn = (name: string) => void switchOn("backend", name, changed).catch(toastProblem);

  const items = (backend: BackendStatus): MenuAction[] => {
    const isStopped = backend.health === "stopped";
    const isIdle = !busy.has(backend.name);
    const runs: MenuAction[] = isBuiltin(backend)
      ? []
      : [
          { label: "Restart", icon: <RotateCw size={14} />, onSelect: () => askRestart(backend), disabled: !isIdle || isStopped },
          isStopped
            ? { label: "Start", icon: <Play size={14} />, onSelect: () => runStart(backend), disabled: !isIdle }
            : { label: "Stop…", icon: <Square size={14} />, onSelect: () => askStop(backend), disabled: !isIdle },
        ];
    const switching: MenuAction = isAtRunTime(backend.name)
      ? { label: "Switch on again", icon: <Power size={14} />, onSelect: () => runOn(backend.name) }
      : { label: "Switch off…", icon: <OctagonX size={14} />, danger: true, onSelect: () => askOff(backend.name) };
    return [...runs, switching];
  };

  const calls = asked === undefined ? 0 : asked.backend.active + asked.backend.queued;
  const loss = calls === 0 ? "No call is in flight." : `${plural(calls, "call")} of it ${calls === 1 ? "is" : "are"} in flight and may fail.`;
  const dialogs = (
    <>
      <ConfirmDialog
        open={asked?.what === "restart"}
        onClose={() => setAsked(undefined)}
        title={`Restart ${asked?.backend.name ?? ""}?`}
        confirmLabel="Restart"
        onConfirm={() => {
          if (asked !== undefined) runRestart(asked.backend);
          return Promise.resolve();
        }}
      >
        <p>{loss}</p>
      </ConfirmDialog>
      <ConfirmDialog
        open={asked?.what === "stop"}
        onClose={() => setAsked(undefined)}
        title={`Stop ${asked?.backend.name ?? ""}?`}
        confirmLabel="Stop"
        danger
        reason="optional"
        onConfirm={async (reason) => {
          if (asked === undefined) return;
          toast(saidOf("stopped", await stop(asked.backend.name, reason)));
          changed();
        }}
      >
        <p>Its program or connection ends, and calls of it are refused with the reason, until somebody starts it or the gateway starts again. {loss}</p>
      </ConfirmDialog>
      <SwitchOffDialog target={off} onClose={() => setOff(undefined)} onChange={changed} />
    </>
  );
  return {
    items,
    restart: askRestart,
    stop: askStop,
    start: runStart,
    isBusy: (name) => busy.has(name),
    isOff: (name) => entry(name) !== undefined,
    whyOff: (name) => entry(name)?.reason ?? "",
    switchOff: askOff,
    switchOn: runOn,
    dialogs,
  };
}
