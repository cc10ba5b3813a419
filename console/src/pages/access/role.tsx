// One role: its permissions and denials, and what they mean.

import { Link } from "wouter";
import type { RoleSummary } from "../../lib/control/contract";
import { plural } from "../../lib/control/words";
import { DefinitionList, Drawer, InlineCode, LinkButton, visible } from "../../ui";
import styles from "./access.module.css";
import { permissionMeaning } from "./matrix-rows";

export function RoleDrawer({ role, onClose }: { role: RoleSummary | undefined; onClose: () => void }) {
  if (role === undefined) return null;
  const name = visible(role.name);
  return (
    <Drawer
      open
      onClose={onClose}
      title={`The role ${name}`}
      description={role.builtin ? "It exists without configuration." : undefined}
      footer={
        <>
          <LinkButton href={`/config?q=${encodeURIComponent(`rbac.roles.${role.name}`)}`}>Configuration</LinkButton>
          <LinkButton href={`/keys?q=${encodeURIComponent(role.name)}`}>Keys with it</LinkButton>
        </>
      }
    >
      <div className={styles.stack}>
        <DefinitionList
          items={[
            ["Sees", plural(role.sees, "operation")],
            ["Calls", plural(role.calls, "operation")],
          ]}
        />
        <Entries title="Permissions" entries={role.permissions} empty="It has none, so it sees nothing." meaning={permissionMeaning} />
        <Entries title="Denied" entries={role.denied} empty="Nothing is denied." note="Neither seen nor called, whatever the permissions say." />
        <Entries title="To confirm" entries={role.confirm} empty="It confirms no calls." note="Each call of these has to be confirmed." />
        <p className={styles.dim}>
          <Link href="/access?tab=why">Ask why</Link> it may call one operation, or may not.
        </p>
      </div>
    </Drawer>
  );
}

interface EntriesProps {
  title: string;
  entries: readonly string[];
  empty: string;
  /** What all of them mean, or what each does. */
  note?: string;
  meaning?: (entry: string) => string;
}

function Entries({ title, entries, empty, note, meaning }: EntriesProps) {
  return (
    <section aria-label={title} className={styles.entries}>
      <h3>{title}</h3>
      {entries.length === 0 ? <p className={styles.dim}>{empty}</p> : note !== undefined && <p className={styles.dim}>{note}</p>}
      <ul>
        {entries.map((entry) => (
          <li key={entry}>
            <InlineCode>{entry}</InlineCode>
            {meaning !== undefined && <div className={styles.dim}>{visible(meaning(entry))}</div>}
          </li>
        ))}
      </ul>
    </section>
  );
}
