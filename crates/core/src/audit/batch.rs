//! Batches of records on the way into a store, in the spool's encoding.
//!
//! Records stay bytes until a store binds them to its statement: nothing is copied or allocated per record, and a
//! retry uses the same bytes.

use std::ops::Range;
use std::sync::Arc;

use super::codec::{self, Corrupt};
use super::record::{Draft, RecordKey, Stored};

/// Records of one lane, in the order of their numbers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Batch {
    pub node: Arc<str>,
    pub lane: i64,
    bytes: Arc<Vec<u8>>,
    rows: Arc<Vec<Row>>,
}

#[derive(Clone, Debug)]
struct Row {
    seq: u64,
    at: Range<usize>,
    hash: [u8; 32],
}

/// One record, borrowed from the batch.
#[derive(Clone, Copy, Debug)]
pub struct Entered<'a> {
    pub seq: u64,
    pub draft: Draft<'a>,
    pub hash: &'a [u8; 32],
}

impl Entered<'_> {
    pub fn to_stored(&self, node: &str, lane: i64) -> Stored {
        Stored {
            key: RecordKey {
                node: node.to_owned(),
                lane,
                seq: self.seq,
            },
            record: self.draft.to_record(),
            hash: *self.hash,
        }
    }
}

/// Builds a batch over bytes that hold records at known positions.
#[derive(Debug, Default)]
pub struct Gathering {
    rows: Vec<Row>,
    scratch: Vec<u8>,
}

impl Gathering {
    /// Adds the record encoded at `at` and returns it. Refused unless these bytes are the record's only encoding:
    /// verification encodes the stored record again and compares hashes.
    pub fn add<'a>(
        &mut self,
        bytes: &'a [u8],
        at: Range<usize>,
        seq: u64,
        hash: [u8; 32],
    ) -> Result<Draft<'a>, Corrupt> {
        let encoded = bytes.get(at.clone()).ok_or(Corrupt)?;
        let draft = codec::decode(encoded)?;
        self.scratch.clear();
        codec::encode(&draft, &mut self.scratch);
        if self.scratch != encoded {
            return Err(Corrupt);
        }
        self.rows.push(Row { seq, at, hash });
        Ok(draft)
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn over(self, bytes: Vec<u8>, node: Arc<str>, lane: i64) -> Batch {
        Batch {
            node,
            lane,
            bytes: Arc::new(bytes),
            rows: Arc::new(self.rows),
        }
    }
}

impl Batch {
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Number and hash of the last record.
    pub fn last(&self) -> Option<(u64, &[u8; 32])> {
        self.rows.last().map(|row| (row.seq, &row.hash))
    }

    pub fn records(&self) -> impl ExactSizeIterator<Item = Entered<'_>> {
        let draft = |row: &Row| codec::decode(&self.bytes[row.at.clone()]);
        self.rows.iter().map(move |row| Entered {
            seq: row.seq,
            draft: draft(row).expect("it was read when it was added"),
            hash: &row.hash,
        })
    }

    /// A batch of decoded records, for tests and repairs. They must be of one lane.
    pub fn of(records: &[Stored]) -> Self {
        let mut bytes = Vec::new();
        let mut rows = Vec::new();
        for Stored { key, record, hash } in records {
            let begin = bytes.len();
            codec::encode(&record.draft(), &mut bytes);
            rows.push(Row {
                seq: key.seq,
                at: begin..bytes.len(),
                hash: *hash,
            });
        }
        let first = records.first().map(|stored| &stored.key);
        Self {
            node: first.map_or("", |key| &key.node).into(),
            lane: first.map_or(0, |key| key.lane),
            bytes: Arc::new(bytes),
            rows: Arc::new(rows),
        }
    }
}
