//! JSON form of a record, the same on the command line and in the admin API.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::moment;
use super::record::Stored;

/// The whole record as one JSON object on one line.
#[derive(Serialize, JsonSchema)]
struct Shown<'a> {
    node: &'a str,
    lane: i64,
    seq: u64,
    at: String,
    at_ms: u64,
    request_id: AsSent<'a>,
    surface: &'a str,
    revision: &'a str,
    caller: &'a str,
    role: &'a str,
    tenant: &'a str,
    method: &'a str,
    backend: &'a str,
    operation: &'a str,
    decision: &'a str,
    outcome: &'a str,
    kind: &'a str,
    latency_us: u64,
    bytes_in: u64,
    bytes_out: u64,
    args_digest: Option<String>,
    args: AsSent<'a>,
    policy_version: u64,
    guarantee: &'a str,
    intent: u64,
    hash: String,
}

impl JsonSchema for Stored {
    fn schema_name() -> Cow<'static, str> {
        "AuditRecord".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Shown::json_schema(generator)
    }
}

impl Serialize for Stored {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (key, record) = (&self.key, &self.record);
        let id = Some(&*record.request_id).filter(|id| !id.is_empty());
        let shown = Shown {
            node: &key.node,
            lane: key.lane,
            seq: key.seq,
            at: moment::show(record.at_ms),
            at_ms: record.at_ms,
            request_id: AsSent(id),
            surface: &record.surface,
            revision: &record.revision,
            caller: &record.caller,
            role: &record.role,
            tenant: &record.tenant,
            method: &record.method,
            backend: &record.backend,
            operation: &record.operation,
            decision: &record.decision,
            outcome: &record.outcome,
            kind: &record.kind,
            latency_us: record.latency_us,
            bytes_in: record.bytes_in,
            bytes_out: record.bytes_out,
            args_digest: record.args_digest.map(|digest| hex(&digest)),
            args: AsSent(record.args.as_deref()),
            policy_version: record.policy_version,
            guarantee: record.guarantee.as_str(),
            intent: record.intent,
            hash: hex(&self.hash),
        };
        shown.serialize(serializer)
    }
}

/// JSON as a client sent it, with the spelling of its numbers. Shown as a string where it is no longer valid because
/// it was truncated, or where readers may fail on it: unpaired surrogates, unbounded numbers, depth.
#[derive(JsonSchema)]
struct AsSent<'a>(#[schemars(with = "Value")] Option<&'a str>);

impl Serialize for AsSent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(text) = self.0 else {
            return serializer.serialize_none();
        };
        // Line breaks occur between values only, and a record is one line.
        let line = match text.contains(['\n', '\r']) {
            true => Cow::Owned(text.replace(['\n', '\r'], " ")),
            false => Cow::Borrowed(text),
        };
        let raw = serde_json::from_str::<&RawValue>(&line).ok();
        match raw.filter(|raw| serde_json::from_str::<Value>(raw.get()).is_ok()) {
            Some(raw) => raw.serialize(serializer),
            None => text.serialize(serializer),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::record::{Record, RecordKey};
    use super::*;

    fn shown(request_id: &str, args: Option<&str>) -> String {
        let stored = Stored {
            key: RecordKey {
                node: "n".to_owned(),
                lane: 2,
                seq: 1,
            },
            record: Record {
                request_id: request_id.to_owned(),
                args: args.map(str::to_owned),
                ..Record::default()
            },
            hash: [7; 32],
        };
        serde_json::to_string(&stored).unwrap()
    }

    /// P-A06: whoever reads an export can make the digest of arguments that were sent on one line again.
    #[test]
    fn p_a06_ids_and_arguments_are_shown_as_they_were_sent() {
        let args = r#"{"amount": 12345678901234567890.10, "a":-0,"b":1e2,"c":"\u0041"}"#;
        let line = shown("12345678901234567890123", Some(args));
        assert!(line.contains(&format!(r#""args":{args},"#)), "{line}");
        let id = r#""request_id":12345678901234567890123,"#;
        assert!(line.contains(id), "{line}");
    }

    #[test]
    fn a_record_is_one_line_of_json_whatever_was_sent() {
        let parsed = |line: &str| -> Value {
            assert!(!line.contains(['\n', '\r']), "{line}");
            serde_json::from_str(line).unwrap()
        };
        let line = parsed(&shown("\"a\"", Some("{\r\n  \"a\": \"b\\n\"\n}")));
        assert_eq!(line["request_id"], "a");
        assert_eq!(line["args"]["a"], "b\n");
        // Neither was there; the id was cut, and the arguments are none.
        let line = parsed(&shown("", None));
        assert_eq!(
            (&line["request_id"], &line["args"]),
            (&Value::Null, &Value::Null)
        );
        let line = parsed(&shown("\"cut\n", Some("not\nJSON")));
        assert_eq!(line["request_id"], "\"cut\n");
        assert_eq!(line["args"], "not\nJSON");
        let deep = "[".repeat(200) + &"]".repeat(200);
        for sent in [r#""\ud800""#, "1e999", &deep] {
            let line = parsed(&shown(sent, Some(sent)));
            assert_eq!(
                (&line["request_id"], &line["args"]),
                (&sent.into(), &sent.into())
            );
        }
    }
}
