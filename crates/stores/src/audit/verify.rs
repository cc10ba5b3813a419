//! Walks the chains of all lanes and finds the first record that cannot be what was written.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use sentinel_core::audit::{AuditStore, Broken, Key, StoreFailure, Stored, genesis};
use serde::Deserialize;

use super::heads::{self, Head, hex};
use super::{ANCHOR, GAP};
use crate::spool;

/// Read at once.
const PAGE_LEN: usize = 5_000;

const OTHER_HASH: &str = "its hash is not the one that was noted";

/// What the walk found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub records: u64,
    pub lanes: u64,
    /// Missing records that were announced when they were lost.
    pub announced: u64,
    /// Lanes of other data directories: only those know how far they came.
    pub elsewhere: u64,
    /// Lane by lane in the order of keys, the first bad record of each.
    pub broken: Vec<Broken>,
}

#[derive(Deserialize)]
struct GapArgs {
    lane: i64,
    from_seq: u64,
    to_seq: u64,
}

#[derive(Deserialize)]
struct AnchorArgs {
    heads: Vec<Head>,
}

/// A hole that was found, to be matched with the announcements, which may come later.
struct Hole {
    after: Key,
    from_seq: u64,
    to_seq: u64,
}

#[derive(Default)]
struct Walk {
    verdict: Verdict,
    cuts: HashMap<(String, i64), (u64, [u8; 32])>,
    /// The lane that is being walked; pages come lane by lane.
    at: Option<Lane>,
    /// The last record of each lane before it.
    ends: HashMap<(String, i64), (u64, [u8; 32])>,
    holes: Vec<Hole>,
    gaps: HashMap<(String, i64), Vec<(u64, u64)>>,
    /// How far lanes had come: what the data directory notes, then what anchors say.
    claims: Vec<Head>,
    notes_len: usize,
    /// This data directory's name for itself, and the lanes whose ends it knows or still writes.
    node: Option<String>,
    noted: HashSet<i64>,
    scratch: Vec<u8>,
}

struct Lane {
    node: String,
    lane: i64,
    seq: u64,
    hash: [u8; 32],
    /// How far the data directory saw it come, and with which hash.
    noted: Option<(u64, String)>,
    /// Only the first bad record of a lane is told.
    is_broken: bool,
}

/// Checks everything the store has. `data_dir` knows how far lanes of this node had come.
pub async fn verify(store: &dyn AuditStore, data_dir: &Path) -> Result<Verdict, StoreFailure> {
    let mut walk = Walk {
        // Read before the records: the store only grows meanwhile.
        claims: heads::read_all(data_dir)?,
        ..Walk::default()
    };
    walk.notes_len = walk.claims.len();
    walk.noted = walk.claims.iter().map(|head| head.lane).collect();
    walk.node = spool::known_node(data_dir);
    for cut in store.cuts().await? {
        walk.cuts
            .insert((cut.key.node, cut.key.lane), (cut.key.seq, cut.hash));
    }
    let mut after = None;
    loop {
        let page = store.page(after.take(), PAGE_LEN).await?;
        for stored in &page {
            walk.record(stored);
        }
        match page.into_iter().last() {
            Some(last) => after = Some(last.key),
            None => break,
        }
    }
    // Looked for last: a lane whose spool is gone by now has its note.
    walk.noted.extend(spool::lanes(data_dir));
    let again = heads::read_all(data_dir)?;
    walk.noted.extend(again.iter().map(|head| head.lane));
    Ok(walk.finish())
}

impl Walk {
    fn record(&mut self, stored: &Stored) {
        let Stored { key, record, hash } = stored;
        self.verdict.records += 1;
        let mut lane = match self.at.take() {
            Some(lane) if lane.lane == key.lane && lane.node == key.node => lane,
            other => {
                self.leave(other);
                self.enter(key)
            }
        };
        if !lane.is_broken {
            if key.seq != lane.seq + 1 {
                // The chain goes on from here; whether the hole was announced is seen at the end.
                self.holes.push(Hole {
                    after: key.clone(),
                    from_seq: lane.seq + 1,
                    to_seq: key.seq.saturating_sub(1),
                });
            } else if !stored.follows(&lane.hash, &mut self.scratch) {
                lane.is_broken = true;
                self.verdict.broken.push(Broken {
                    key: key.clone(),
                    reason: "its hash does not follow from its content and the record before"
                        .into(),
                });
            }
        }
        // Whoever writes all of a lane anew has a chain that holds, but not this hash.
        let noted = lane.noted.as_ref().filter(|(seq, _)| *seq == key.seq);
        if !lane.is_broken && noted.is_some_and(|(_, noted)| hex(hash) != *noted) {
            lane.is_broken = true;
            self.verdict.broken.push(Broken {
                key: key.clone(),
                reason: OTHER_HASH.into(),
            });
        }
        lane.seq = key.seq;
        lane.hash = *hash;
        self.at = Some(lane);
        match record.method.as_str() {
            GAP => self.gap(key, record.args.as_deref()),
            ANCHOR => self.anchor(record.args.as_deref()),
            _ => {}
        }
    }

    fn enter(&mut self, key: &Key) -> Lane {
        self.verdict.lanes += 1;
        let cut = self.cuts.get(&(key.node.clone(), key.lane)).copied();
        let (seq, hash) = cut.unwrap_or_else(|| (0, genesis(&key.node, key.lane)));
        let mut notes = self.claims[..self.notes_len].iter();
        let note = notes.find(|note| note.lane == key.lane && note.node == key.node);
        Lane {
            noted: note.map(|note| (note.seq, note.hash.clone())),
            node: key.node.clone(),
            lane: key.lane,
            seq,
            hash,
            is_broken: false,
        }
    }

    fn leave(&mut self, lane: Option<Lane>) {
        if let Some(lane) = lane {
            let end = (lane.seq, lane.hash);
            self.ends.insert((lane.node, lane.lane), end);
        }
    }

    fn gap(&mut self, key: &Key, args: Option<&str>) {
        let parsed = args.and_then(|args| serde_json::from_str::<GapArgs>(args).ok());
        if let Some(gap) = parsed {
            let lane = (key.node.clone(), gap.lane);
            let gaps = self.gaps.entry(lane).or_default();
            gaps.push((gap.from_seq, gap.to_seq));
        }
    }

    fn anchor(&mut self, args: Option<&str>) {
        let parsed = args.and_then(|args| serde_json::from_str::<AnchorArgs>(args).ok());
        self.claims.extend(parsed.into_iter().flat_map(|a| a.heads));
    }

    fn finish(mut self) -> Verdict {
        let last = self.at.take();
        self.leave(last);
        for hole in std::mem::take(&mut self.holes) {
            let lane = (hole.after.node.clone(), hole.after.lane);
            let announced = self.gaps.get(&lane).is_some_and(|gaps| {
                gaps.iter()
                    .any(|(from, to)| *from <= hole.from_seq && hole.to_seq <= *to)
            });
            if announced {
                self.verdict.announced += hole.to_seq + 1 - hole.from_seq;
            } else {
                self.verdict.broken.push(Broken {
                    key: Key {
                        seq: hole.from_seq,
                        ..hole.after
                    },
                    reason: format!("missing up to {}", hole.to_seq),
                });
            }
        }
        for claim in std::mem::take(&mut self.claims) {
            self.check_claim(claim);
        }
        self.check_notes();
        self.verdict.broken.sort_by(|a, b| a.key.cmp(&b.key));
        self.verdict.broken.dedup_by(|a, b| a.key == b.key);
        self.verdict
    }

    /// Each lane that this data directory filled left a note of how far it came; without it nobody can say that
    /// its end is still there.
    fn check_notes(&mut self) {
        let Some(node) = &self.node else { return };
        let foreign = self.ends.keys().filter(|(of, _)| of != node);
        self.verdict.elsewhere = foreign.count() as u64;
        // Lanes of memory have odd numbers, and go without a note when their process is killed.
        let ours = |lane: &&(String, i64)| lane.0 == *node && lane.1 % 2 == 0;
        let bare = self.ends.iter().filter(|(lane, _)| ours(lane));
        let bare = bare.filter(|((_, lane), _)| !self.noted.contains(lane));
        let bare: Vec<Broken> = bare
            .map(|((node, lane), (seq, _))| Broken {
                key: Key {
                    node: node.clone(),
                    lane: *lane,
                    seq: seq + 1,
                },
                reason: "nobody knows whether there was more: the note of its end is gone from audit/heads"
                    .into(),
            })
            .collect();
        self.verdict.broken.extend(bare);
    }

    /// A lane that had come so far must still reach there.
    fn check_claim(&mut self, claim: Head) {
        let lane = (claim.node.clone(), claim.lane);
        let cut = self.cuts.get(&lane).map_or(0, |(seq, _)| *seq);
        let (seq, hash) = self.ends.get(&lane).copied().unwrap_or((cut, [0; 32]));
        if seq > claim.seq || cut >= claim.seq || (seq == claim.seq && hex(&hash) == claim.hash) {
            return;
        }
        let (at, reason) = if seq == claim.seq {
            (seq, OTHER_HASH.to_owned())
        } else {
            (seq + 1, format!("missing up to {}", claim.seq))
        };
        let key = Key {
            node: claim.node,
            lane: claim.lane,
            seq: at,
        };
        self.verdict.broken.push(Broken { key, reason });
    }
}
