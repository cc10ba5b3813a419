//! A record for programs to read: the same from the command line and the admin API.

use serde_json::{Value, json};

use super::moment;
use super::record::Stored;

impl Stored {
    /// The whole record as one JSON object.
    pub fn to_json(&self) -> Value {
        let record = &self.record;
        let id = serde_json::from_str::<Value>(&record.request_id).unwrap_or(Value::Null);
        let args = record
            .args
            .as_deref()
            .map(|args| serde_json::from_str::<Value>(args).unwrap_or_else(|_| args.into()));
        json!({
            "node": self.key.node, "lane": self.key.lane, "seq": self.key.seq,
            "at": moment::show(record.at_ms), "at_ms": record.at_ms,
            "request_id": id, "surface": record.surface, "revision": record.revision,
            "caller": record.caller, "role": record.role, "tenant": record.tenant,
            "method": record.method, "backend": record.backend, "operation": record.operation,
            "decision": record.decision, "outcome": record.outcome, "kind": record.kind,
            "latency_us": record.latency_us, "bytes_in": record.bytes_in, "bytes_out": record.bytes_out,
            "args_digest": record.args_digest.map(|digest| hex(&digest)), "args": args,
            "policy_version": record.policy_version, "guarantee": record.guarantee.as_str(),
            "intent": record.intent, "hash": hex(&self.hash),
        })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
