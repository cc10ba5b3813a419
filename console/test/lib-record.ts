// A record for unit tests, with what a test says of it.

import type { AuditRecord } from "../src/lib/records/record";

export function sample(some: Partial<AuditRecord> = {}): AuditRecord {
  return {
    node: "86efa02ddf6872aa",
    lane: 2,
    seq: 1,
    at: "2026-11-19T20:07:12.689Z",
    at_ms: 1_795_118_832_689,
    request_id: null,
    surface: "rest",
    revision: "",
    caller: "dev",
    role: "developer",
    tenant: "",
    method: "tools/call",
    backend: "lab",
    operation: "lab__fail",
    decision: "allow",
    outcome: "error",
    kind: "backend_error",
    latency_us: 1984,
    bytes_in: 25,
    bytes_out: 320,
    args_digest: "46d512928f5c85866453b8fcfe1cdf9160ab29f1dc5e7f6f01740eb2785bd366",
    args: { text: "the disk is full" },
    policy_version: 0,
    guarantee: "spool",
    intent: 0,
    hash: "00",
    ...some,
  };
}
