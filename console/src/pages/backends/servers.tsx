// Servers of a client's JSON, to choose from: what each would be as a backend, and what stands in its way.

import type { ImportedServer } from "../../lib/control/contract";
import { Words } from "../../lib/control/parts";
import { Badge, Checkbox, Code, InlineCode, Text, ToneIcon, visible } from "../../ui";
import styles from "./backends.module.css";

export function canBeAdded(server: ImportedServer): boolean {
  return (server.problem ?? "") === "" && (server.known ?? "") === "";
}

interface Props {
  servers: readonly ImportedServer[];
  chosen: ReadonlySet<string>;
  onChoose: (name: string, isChosen: boolean) => void;
}

export function Servers({ servers, chosen, onChoose }: Props) {
  return (
    <ul aria-label="Servers">
      {servers.map((server) => (
        <Server key={server.name} server={server} isChosen={chosen.has(server.name)} onChoose={(isChosen) => onChoose(server.name, isChosen)} />
      ))}
    </ul>
  );
}

function Server({ server, isChosen, onChoose }: { server: ImportedServer; isChosen: boolean; onChoose: (isChosen: boolean) => void }) {
  const isFree = canBeAdded(server);
  return (
    <li className={styles.server}>
      <div className={styles.comingHead}>
        <Checkbox label={visible(server.name)} checked={isChosen && isFree} disabled={!isFree} onChange={onChoose} />
        {server.original !== server.name && (
          <span className={styles.dim}>
            there: <Text value={server.original} max={60} />
          </span>
        )}
        {(server.known ?? "") !== "" && <Badge tone="off">is the backend {visible(server.known ?? "")} already</Badge>}
      </div>
      <div className={styles.serverMore}>
        <Text value={server.summary} mono max={200} />
        <div className={styles.notes}>
          {(server.problem ?? "") !== "" && (
            <span>
              <Badge tone="error">cannot be added</Badge> <Words value={server.problem ?? ""} />
            </span>
          )}
          {server.variables.map((variable) => (
            <span key={variable.name}>
              <ToneIcon tone={variable.set ? "ok" : "warn"} size={12} /> Reads <InlineCode>{variable.name}</InlineCode>
              {variable.set ? ", which the gateway has." : variable.literal ? ", whose value stands in the text as it is." : ", which the gateway does not have: set it before the gateway starts."}
            </span>
          ))}
          {server.warnings.map((warning, index) => (
            <span key={index}>
              <ToneIcon tone="warn" size={12} /> <Words value={warning} />
            </span>
          ))}
        </div>
        <details className={styles.more}>
          <summary>As TOML</summary>
          <Code value={server.toml} label={`TOML of ${visible(server.name)}`} maxHeight={240} />
        </details>
      </div>
    </li>
  );
}
