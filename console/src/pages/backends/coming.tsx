// Backends that were just added, and how they come up.

import { LoaderCircle } from "lucide-react";
import { useBackends, backendHref } from "../../lib/control/state";
import type { Reloaded } from "../../lib/control/contract";
import { ReloadLines } from "../../lib/control/parts";
import { advice, healthOf, plural } from "../../lib/control/words";
import { LinkButton, Status, Text } from "../../ui";
import styles from "./backends.module.css";

export function Coming({ names, reloaded }: { names: readonly string[]; reloaded: Reloaded | null }) {
  const { backends } = useBackends();
  return (
    <div className={styles.stack}>
      {reloaded !== null && <ReloadLines reloaded={reloaded} tense="did" />}
      <div role="status" aria-label="Added backends">
        {names.map((name) => {
          const backend = backends?.find((each) => each.name === name);
          const health = backend === undefined ? undefined : healthOf(backend);
          const isTrying = backend === undefined || backend.health === "starting";
          return (
            <div key={name} className={styles.coming}>
              <div className={styles.comingHead}>
                <span className={styles.comingName}>
                  <Text value={name} />
                </span>
                {isTrying ? (
                  <Status tone="info">starting</Status>
                ) : (
                  <Status tone={health?.tone ?? "neutral"}>
                    {health?.word}
                    {backend.health === "up" && ` with ${plural(backend.tools, "tool")}`}
                  </Status>
                )}
                {isTrying && <LoaderCircle size={14} aria-hidden />}
                {backend !== undefined && !isTrying && (
                  <span className={styles.push}>
                    <LinkButton size="s" href={backend.health === "up" ? `${backendHref(name)}?tab=operations` : backendHref(name)}>
                      {backend.health === "up" ? "Its operations" : "Look at it"}
                    </LinkButton>
                  </span>
                )}
              </div>
              {backend !== undefined && (backend.problem ?? "") !== "" && (
                <div className={styles.notes}>
                  <Text value={backend.problem ?? ""} max={300} />
                  <span>{advice(backend)}</span>
                </div>
              )}
            </div>
          );
        })}
      </div>
    </div>
  );
}
