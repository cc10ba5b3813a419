// Who called, with the name of the API key where it was one: records have its id, `key:56f1e0fecc9c`.

import { useMemo } from "react";
import { answer, api } from "../../api/client";
import { useSession } from "../../api/session";
import { useQuery } from "../../api/use-query";
import { Text } from "../../ui";
import styles from "./caller-name.module.css";

/** Callers of records, with the names of their keys. */
export type CallerNames = ReadonlyMap<string, string>;

const NONE: CallerNames = new Map();

/** Only for admins. A gateway without keys has no names of them. */
export function useCallerNames(): CallerNames {
  const { session, isAdmin } = useSession();
  const { data } = useQuery(session.guarded && isAdmin ? "caller-names" : null, async (signal) => (await answer(api.GET("/admin/api/keys", { signal }))).keys);
  return useMemo(() => (data === undefined ? NONE : new Map(data.map(({ id, name }) => [`key:${id}`, name]))), [data]);
}

/** Beside the name of a key it says that it is one: other callers choose names of their own. */
export function CallerName({ caller, names }: { caller: string; names: CallerNames }) {
  const name = names.get(caller);
  if (name === undefined) return <Text value={caller} line />;
  return (
    <span className={styles.caller} title={caller}>
      <Text value={name} line />
      <span className={styles.mark}>key</span>
    </span>
  );
}
