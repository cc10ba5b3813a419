// Small marks about a backend: its circuit, and when it is tried next.

import type { BackendStatus, CircuitNow } from "../../lib/control/contract";
import { distance } from "../../lib/control/words";
import { Badge } from "../../ui";
import styles from "./backends.module.css";

const CIRCUITS = { closed: "circuit closed", open: "circuit open", half_open: "circuit half open" } as const;

export function CircuitStatus({ circuit }: { circuit: CircuitNow }) {
  const tone = circuit.state === "open" ? "error" : circuit.state === "half_open" ? "warn" : "ok";
  return (
    <Badge tone={tone} title={circuitMeaning(circuit)}>
      {CIRCUITS[circuit.state]}
    </Badge>
  );
}

export function circuitMeaning(circuit: CircuitNow): string {
  if (circuit.threshold === 0) return "It never opens.";
  if (circuit.state === "closed") return `It opens after ${circuit.threshold} failures in a row; there are ${circuit.failures} now.`;
  if (circuit.state === "half_open") return "One call is let through; its result closes or opens the circuit.";
  const when = circuit.retry_after_ms === null ? "soon" : distance(circuit.retry_after_ms, 0);
  return `Calls are refused after ${circuit.failures} failures in a row. One is let through ${when}.`;
}

export function Retry({ backend }: { backend: BackendStatus }) {
  if (backend.retry_after_ms === null) return null;
  return <span className={styles.dim}>tried again {distance(backend.retry_after_ms, 0)}</span>;
}
