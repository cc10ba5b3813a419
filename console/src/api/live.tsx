// What the gateway says of itself each second: one stream for the whole page, `GET /admin/api/live`.
//
// Callers who are no admins have no such stream; for them the session is asked for now and then, so that the page still
// says whether the gateway answers.

import { createContext, useContext, useEffect, useMemo, useRef, useState } from "react";
import type { ReactNode } from "react";
import type { components } from "./schema";
import { send } from "./client";
import { useSession } from "./session";
import { useStream } from "./stream";
import type { StreamState } from "./stream";

/** Totals are since the start; pages make differences. */
export type Overview = components["schemas"]["Overview"];

export interface Live {
  state: StreamState;
  /** The newest; kept while the gateway is away. */
  overview: Overview | undefined;
  /** The last five minutes, oldest first. */
  history: readonly Overview[];
}

/** Five minutes, at one a second. */
const HISTORY_MAX = 300;
/** A second is the pace; after so many of silence the connection is given up. */
const SILENCE_MAX_MS = 10_000;
const ASK_EVERY_MS = 15_000;

const Context = createContext<Live>({ state: "connecting", overview: undefined, history: [] });

export function useLive(): Live {
  return useContext(Context);
}

export function LiveProvider({ children }: { children: ReactNode }) {
  const { isAdmin, refresh, session } = useSession();
  const [history, setHistory] = useState<readonly Overview[]>([]);
  const stream = useStream(isAdmin ? "/admin/api/live" : null, {
    silenceMaxMs: SILENCE_MAX_MS,
    onEvents: (events) => {
      const arrived: Overview[] = [];
      for (const { event, data } of events) {
        if (event === "overview") arrived.push(JSON.parse(data) as Overview);
      }
      const last = arrived.at(-1);
      if (last === undefined) return;
      setHistory((before) => {
        // Totals begin again with a restart; differences over it would be wrong.
        const same = before.at(-1)?.boot_id === last.boot_id ? before : [];
        return [...same, ...arrived.filter((each) => each.boot_id === last.boot_id)].slice(-HISTORY_MAX);
      });
    },
  });
  const overview = history.at(-1);

  // The gateway restarted: the session says so too, and every query asks again.
  const bootId = overview?.boot_id;
  useEffect(() => {
    if (bootId !== undefined && bootId !== session.boot_id) refresh();
  }, [bootId, session.boot_id, refresh]);

  const isAsking = !isAdmin || stream.state === "closed";
  const asked = useAnswers(isAsking, refresh);
  const state = isAsking ? asked : stream.state;
  const live = useMemo<Live>(() => ({ state, overview, history }), [state, overview, history]);
  return <Context value={live}>{children}</Context>;
}

/** Whether the gateway answers, where there is no stream that shows it. */
function useAnswers(isAsking: boolean, onReturn: () => void): StreamState {
  const [state, setState] = useState<StreamState>("connecting");
  const wasOffline = useRef(false);
  useEffect(() => {
    if (!isAsking) return;
    const controller = new AbortController();
    const ask = async () => {
      if (document.hidden) return;
      try {
        await send("/console/api/session", { signal: controller.signal });
        if (wasOffline.current) onReturn();
        wasOffline.current = false;
        setState("live");
      } catch {
        if (controller.signal.aborted) return;
        wasOffline.current = true;
        setState("offline");
      }
    };
    void ask();
    const timer = window.setInterval(() => void ask(), ASK_EVERY_MS);
    return () => {
      controller.abort();
      window.clearInterval(timer);
    };
  }, [isAsking, onReturn]);
  return state;
}
