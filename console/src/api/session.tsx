// Who uses the console, and which gateway it talks to.

import { createContext, useCallback, useContext, useEffect, useMemo, useRef } from "react";
import type { ReactNode } from "react";
import { answer, api, onUnauthenticated } from "./client";
import { Problem } from "./problem";
import type { paths } from "./schema";
import { forgetAll, refetchAll, useQuery } from "./use-query";

export type Session = paths["/console/api/session"]["get"]["responses"]["200"]["content"]["application/json"];
export type Caller = NonNullable<Session["caller"]>;

export interface SessionState {
  session: Session;
  /** `null`: nobody is signed in. */
  caller: Caller | null;
  isAdmin: boolean;
  signIn: (credential: string) => Promise<void>;
  signOut: () => Promise<void>;
  /** Asks again who is signed in, and whether the gateway restarted. */
  refresh: () => void;
}

const Context = createContext<SessionState | null>(null);

const PATH = "/console/api/session";

function load(signal: AbortSignal): Promise<Session> {
  return answer(api.GET(PATH, { signal }));
}

/** The session of the page. Only below `SessionProvider`, which renders its children once it is known. */
export function useSession(): SessionState {
  const state = useContext(Context);
  if (state === null) throw new Error("useSession outside of SessionProvider");
  return state;
}

interface Props {
  /** While nothing is known: `problem` says why. */
  fallback: (problem: Problem | undefined, retry: () => void) => ReactNode;
  children: ReactNode;
}

export function SessionProvider({ fallback, children }: Props) {
  const { data: session, error, refetch, setData } = useQuery<Session>("session", load);
  useEffect(() => onUnauthenticated(refetch), [refetch]);

  // Another start of the gateway may have another catalog, configuration and audit store.
  const boot = useRef<string | undefined>(undefined);
  const bootId = session?.boot_id;
  useEffect(() => {
    if (bootId === undefined) return;
    const isOther = boot.current !== undefined && boot.current !== bootId;
    boot.current = bootId;
    if (isOther) refetchAll();
  }, [bootId]);

  const signIn = useCallback(
    async (credential: string) => {
      const signedIn = await answer(api.POST(PATH, { body: { credential } }));
      refetchAll();
      setData(signedIn);
    },
    [setData],
  );
  const signOut = useCallback(async () => {
    const signedOut = await answer(api.DELETE(PATH));
    // The pages go before they ask for anything as nobody.
    forgetAll();
    setData(signedOut);
  }, [setData]);

  const state = useMemo<SessionState | null>(() => {
    if (session === undefined) return null;
    const caller = session.caller ?? null;
    return { session, caller, isAdmin: caller?.is_admin === true, signIn, signOut, refresh: refetch };
  }, [session, signIn, signOut, refetch]);
  if (state === null) return fallback(error, refetch);
  return <Context value={state}>{children}</Context>;
}
