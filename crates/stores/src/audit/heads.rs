//! The head of each lane (the last record known to be in the store), in small files in the data directory.
//!
//! A hash chain reveals changed or removed records, but not a truncated end. The heads reveal it, and
//! so do the anchors in other lanes, which repeat them.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sentinel_core::audit::Batch;
use serde::{Deserialize, Serialize};

use crate::private;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) node: String,
    pub(crate) lane: i64,
    pub(crate) seq: u64,
    /// Hexadecimal.
    pub(crate) hash: String,
}

impl Head {
    /// The last record of a batch.
    pub(crate) fn of(batch: &Batch) -> Option<Self> {
        let (seq, hash) = batch.last()?;
        Some(Self {
            node: batch.node.to_string(),
            lane: batch.lane,
            seq,
            hash: hex(hash),
        })
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses a hexadecimal hash.
pub(crate) fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    let is_hash = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    for (at, byte) in hash.iter_mut().enumerate().filter(|_| is_hash) {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    is_hash.then_some(hash)
}

fn folder(data_dir: &Path) -> PathBuf {
    data_dir.join("audit").join("heads")
}

pub(crate) fn write(data_dir: &Path, head: &Head) -> io::Result<()> {
    let folder = folder(data_dir);
    private::own_folder(&folder)?;
    let name = format!("{}-{}.json", head.node, head.lane);
    let aside = folder.join(format!(".{name}-{}", std::process::id()));
    private::create(&aside)?.write_all(&serde_json::to_vec(head)?)?;
    fs::rename(aside, folder.join(name))
}

pub(crate) fn read_all(data_dir: &Path) -> io::Result<Vec<Head>> {
    let entries = match fs::read_dir(folder(data_dir)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut heads = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "json") {
            heads.extend(serde_json::from_slice::<Head>(&fs::read(path)?).ok());
        }
    }
    Ok(heads)
}

/// Removes the heads of lanes that retention deleted long ago.
pub(crate) fn sweep(data_dir: &Path, older_than: std::time::Duration) {
    let Ok(entries) = fs::read_dir(folder(data_dir)) else {
        return;
    };
    for entry in entries.flatten() {
        let old = entry
            .metadata()
            .and_then(|meta| meta.modified())
            .is_ok_and(|at| at.elapsed().is_ok_and(|age| age > older_than));
        if old {
            let _ = fs::remove_file(entry.path());
        }
    }
}
