//! Audit records.

use std::fmt;

use sha2::{Digest, Sha256};

use super::codec;
use crate::digest::sha256;

/// Far more than a lane has records, and within the range of every store.
pub const SEQ_MAX: u64 = (1 << 56) - 1;

/// Node, lane and number, which identify a record permanently.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordKey {
    /// The data directory's random name.
    pub node: String,
    /// One writer, which is one run of a process. Chains are per lane.
    pub lane: i64,
    /// From 1, without holes except where a gap record says so.
    pub seq: u64,
}

/// `<node>.<lane>.<seq>`
impl fmt::Display for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.node, self.lane, self.seq)
    }
}

/// The surface of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    Http,
    Stdio,
    /// Operations called over REST.
    Rest,
    /// Operations called over plain JSON-RPC.
    Rpc,
    /// The admin API.
    Admin,
    /// Records of the audit itself: starts, anchors, gaps.
    Gateway,
}

impl Surface {
    pub const ALL: [Self; 6] = [
        Self::Http,
        Self::Stdio,
        Self::Rest,
        Self::Rpc,
        Self::Admin,
        Self::Gateway,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Stdio => "stdio",
            Self::Rest => "rest",
            Self::Rpc => "rpc",
            Self::Admin => "admin",
            Self::Gateway => "gateway",
        }
    }
}

/// The durability of a record at the moment its reply leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Guarantee {
    /// In a bounded ring; the oldest may be dropped.
    Memory,
    /// In a file; survives kill -9.
    #[default]
    Spool,
    /// As `Spool`, and an intent was fsynced before the backend saw the call.
    Sync,
}

impl Guarantee {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Spool => "spool",
            Self::Sync => "sync",
        }
    }
}

/// A record to be written, borrowed from its request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Draft<'a> {
    pub at_ms: u64,
    pub request_id: &'a str,
    pub surface: &'a str,
    pub revision: &'a str,
    pub caller: &'a str,
    pub role: &'a str,
    pub tenant: &'a str,
    pub method: &'a str,
    pub backend: &'a str,
    pub operation: &'a str,
    /// `allow` or `deny`.
    pub decision: &'a str,
    pub outcome: &'a str,
    /// The kind of fault, if any.
    pub kind: &'a str,
    pub latency_us: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub args_digest: Option<[u8; 32]>,
    pub args: Option<&'a str>,
    pub policy_version: u64,
    pub guarantee: Guarantee,
    /// The number of the intent that this completes; 0 for none.
    pub intent: u64,
}

impl Draft<'_> {
    pub fn to_record(&self) -> Record {
        Record {
            at_ms: self.at_ms,
            request_id: self.request_id.to_owned(),
            surface: self.surface.to_owned(),
            revision: self.revision.to_owned(),
            caller: self.caller.to_owned(),
            role: self.role.to_owned(),
            tenant: self.tenant.to_owned(),
            method: self.method.to_owned(),
            backend: self.backend.to_owned(),
            operation: self.operation.to_owned(),
            decision: self.decision.to_owned(),
            outcome: self.outcome.to_owned(),
            kind: self.kind.to_owned(),
            latency_us: self.latency_us,
            bytes_in: self.bytes_in,
            bytes_out: self.bytes_out,
            args_digest: self.args_digest,
            args: self.args.map(str::to_owned),
            policy_version: self.policy_version,
            guarantee: self.guarantee,
            intent: self.intent,
        }
    }
}

/// The owned form, as read from a spool or a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub at_ms: u64,
    pub request_id: String,
    pub surface: String,
    pub revision: String,
    pub caller: String,
    pub role: String,
    pub tenant: String,
    pub method: String,
    pub backend: String,
    pub operation: String,
    pub decision: String,
    pub outcome: String,
    pub kind: String,
    pub latency_us: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub args_digest: Option<[u8; 32]>,
    pub args: Option<String>,
    pub policy_version: u64,
    pub guarantee: Guarantee,
    pub intent: u64,
}

impl Record {
    pub fn draft(&self) -> Draft<'_> {
        Draft {
            at_ms: self.at_ms,
            request_id: &self.request_id,
            surface: &self.surface,
            revision: &self.revision,
            caller: &self.caller,
            role: &self.role,
            tenant: &self.tenant,
            method: &self.method,
            backend: &self.backend,
            operation: &self.operation,
            decision: &self.decision,
            outcome: &self.outcome,
            kind: &self.kind,
            latency_us: self.latency_us,
            bytes_in: self.bytes_in,
            bytes_out: self.bytes_out,
            args_digest: self.args_digest,
            args: self.args.as_deref(),
            policy_version: self.policy_version,
            guarantee: self.guarantee,
            intent: self.intent,
        }
    }
}

/// A record with its hash in the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub key: RecordKey,
    pub record: Record,
    pub hash: [u8; 32],
}

impl Stored {
    /// Whether the hash follows `before` and covers the whole record.
    pub fn follows(&self, before: &[u8; 32], scratch: &mut Vec<u8>) -> bool {
        let draft = self.record.draft();
        scratch.clear();
        codec::encode(&draft, scratch);
        self.key.seq <= SEQ_MAX
            && chain(before, self.key.seq, scratch) == self.hash
            && codec::is_lossless(&draft)
    }
}

/// The hash before a lane's first record.
pub fn genesis(node: &str, lane: i64) -> [u8; 32] {
    let start = Sha256::new().chain_update(b"sentinel audit lane\0");
    let named = start.chain_update(node).chain_update(lane.to_le_bytes());
    named.finalize().into()
}

/// Encodes a record that follows `before` into `scratch`; returns its hash and its bytes.
pub fn link<'a>(
    before: &[u8; 32],
    seq: u64,
    draft: &Draft<'_>,
    scratch: &'a mut Vec<u8>,
) -> ([u8; 32], &'a [u8]) {
    scratch.clear();
    // One buffer: SHA-256 over whole blocks is faster than three updates.
    scratch.extend_from_slice(before);
    scratch.extend_from_slice(&position(seq));
    let begin = scratch.len();
    codec::encode(draft, scratch);
    (sha256(scratch), &scratch[begin..])
}

/// The hash of an encoded record that follows `before`.
pub fn chain(before: &[u8; 32], seq: u64, encoded: &[u8]) -> [u8; 32] {
    let hash = Sha256::new().chain_update(before);
    let hash = hash.chain_update(position(seq)).chain_update(encoded);
    hash.finalize().into()
}

/// The bytes between the previous hash and the record: its number, and the format in the last byte,
/// which `SEQ_MAX` leaves free.
fn position(seq: u64) -> [u8; 8] {
    (seq | u64::from(codec::FORMAT) << 56).to_le_bytes()
}
