//! Verifies the chains of all lanes and reports the first altered record.

mod holes;

use std::collections::{HashMap, HashSet};
use std::path::Path;

use sentinel_core::audit::{
    ANCHOR, AuditStore, Broken, GAP, RecordKey, StoreFailure, Stored, genesis,
};
use serde::Deserialize;

use self::holes::{Announced, GapArgs, Hole};
use super::heads::{self, Head, hex};
use crate::spool;

/// Records per query.
const PAGE_LEN: usize = 5_000;

const OTHER_HASH: &str = "its hash is not the one that was noted";
const DOES_NOT_FOLLOW: &str = "its hash does not follow from its content and the record before";
const NO_NUMBER: &str = "its number comes before the first of its lane";

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub records: u64,
    pub lanes: u64,
    /// Missing records that were announced when they were lost.
    pub announced: u64,
    /// Lanes of other data directories: only those know where they end.
    pub elsewhere: u64,
    /// The first bad record of each lane, in the order of keys.
    pub broken: Vec<Broken>,
}

#[derive(Deserialize)]
struct AnchorArgs {
    heads: Vec<Head>,
}

#[derive(Default)]
struct Walk {
    verdict: Verdict,
    cuts: HashMap<(String, i64), (u64, [u8; 32])>,
    /// The current lane; pages come lane by lane.
    at: Option<Lane>,
    /// The last record of each earlier lane.
    ends: HashMap<(String, i64), (u64, [u8; 32])>,
    holes: Vec<Hole>,
    /// Gap records by position. One after a hole is not trusted before it was checked.
    gaps: Vec<(RecordKey, GapArgs)>,
    doubtful: HashMap<RecordKey, GapArgs>,
    /// How far lanes had come: the data directory's heads, then those in anchors.
    claims: Vec<Head>,
    notes_len: usize,
    /// This data directory's id, and the lanes whose ends it knows or still writes.
    node: Option<String>,
    noted: HashSet<i64>,
    /// Its lanes that are in the spool, and may still grow.
    living: HashSet<i64>,
    scratch: Vec<u8>,
}

struct Lane {
    node: String,
    lane: i64,
    seq: u64,
    hash: [u8; 32],
    /// How far the data directory saw it come, with the hash there.
    noted: Option<(u64, String)>,
    /// Only the first bad record of a lane is reported.
    is_broken: bool,
}

/// Verifies the whole store. `data_dir` knows how far lanes of this node had come.
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
    // Read last: a lane whose spool is gone by now has its final head.
    walk.living.extend(spool::lanes(data_dir));
    let last_notes = heads::read_all(data_dir)?;
    walk.noted.extend(&walk.living);
    walk.noted.extend(last_notes.iter().map(|head| head.lane));
    walk.doubt(&last_notes);
    walk.finish(store).await
}

/// Whether it is a lane of the spool. Memory lanes have odd numbers, and no head if their process was killed.
fn is_of_files(lane: i64) -> bool {
    lane % 2 == 0
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
        // Numbers rise within a page, so this one is negative, or from before the cut.
        if (key.seq as i64) <= lane.seq as i64 {
            self.tell(&mut lane, key, NO_NUMBER);
            self.at = Some(lane);
            return;
        }
        let behind_hole = key.seq != lane.seq + 1;
        if !lane.is_broken && behind_hole {
            // The chain continues here; whether the hole was announced is checked at the end.
            self.holes.push(Hole {
                next: key.clone(),
                from_seq: lane.seq + 1,
                hash: lane.hash,
            });
        } else if !lane.is_broken && !stored.follows(&lane.hash, &mut self.scratch) {
            self.tell(&mut lane, key, DOES_NOT_FOLLOW);
        }
        // A completely rewritten lane has a valid chain, but not this hash.
        let noted = lane.noted.as_ref().filter(|(seq, _)| *seq == key.seq);
        if noted.is_some_and(|(_, noted)| hex(hash) != *noted) {
            self.tell(&mut lane, key, OTHER_HASH);
        }
        match record.method.as_str() {
            GAP if !lane.is_broken => self.gap(key, record.args.as_deref(), behind_hole),
            ANCHOR => self.anchor(record.args.as_deref()),
            _ => {}
        }
        lane.seq = key.seq;
        lane.hash = *hash;
        self.at = Some(lane);
    }

    /// Reports a bad record, if it is the first of its lane.
    fn tell(&mut self, lane: &mut Lane, key: &RecordKey, reason: &str) {
        if !std::mem::replace(&mut lane.is_broken, true) {
            self.verdict.broken.push(Broken {
                key: key.clone(),
                reason: reason.to_owned(),
            });
        }
    }

    fn enter(&mut self, key: &RecordKey) -> Lane {
        self.verdict.lanes += 1;
        let cut = self.cuts.get(&(key.node.clone(), key.lane)).copied();
        let (seq, hash) = cut.unwrap_or_else(|| (0, genesis(&key.node, key.lane)));
        // Larger than any store can count.
        let seq = seq.min(i64::MAX as u64);
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

    /// Losses are announced in file lanes only: an attacker with write access to the store can forge a memory lane,
    /// which leaves no other trace.
    fn gap(&mut self, key: &RecordKey, args: Option<&str>, behind_hole: bool) {
        let parsed = args.and_then(|args| serde_json::from_str::<GapArgs>(args).ok());
        let Some(gap) = parsed.filter(|_| is_of_files(key.lane)) else {
            return;
        };
        if behind_hole {
            self.doubtful.insert(key.clone(), gap);
        } else {
            self.gaps.push((key.clone(), gap));
        }
    }

    /// Gap records after the recorded end of one of our lanes are forged, unless the lane still grows.
    fn doubt(&mut self, last_notes: &[Head]) {
        let Some(node) = &self.node else { return };
        let ends: HashMap<i64, u64> = last_notes
            .iter()
            .filter(|note| note.node == *node)
            .map(|note| (note.lane, note.seq))
            .collect();
        let living = &self.living;
        let is_ours = |key: &RecordKey| {
            key.node != *node
                || living.contains(&key.lane)
                || ends.get(&key.lane).is_some_and(|end| key.seq <= *end)
        };
        self.gaps.retain(|(key, _)| is_ours(key));
        self.doubtful.retain(|key, _| is_ours(key));
    }

    fn anchor(&mut self, args: Option<&str>) {
        let parsed = args.and_then(|args| serde_json::from_str::<AnchorArgs>(args).ok());
        self.claims.extend(parsed.into_iter().flat_map(|a| a.heads));
    }

    async fn finish(mut self, store: &dyn AuditStore) -> Result<Verdict, StoreFailure> {
        let last = self.at.take();
        self.leave(last);
        for hole in self.unannounced(store).await? {
            let reason = format!("missing up to {}", hole.to_seq());
            let key = RecordKey {
                seq: hole.from_seq,
                ..hole.next
            };
            self.verdict.broken.push(Broken { key, reason });
        }
        for claim in std::mem::take(&mut self.claims) {
            self.check_claim(claim);
        }
        self.check_notes();
        self.verdict.broken.sort_by(|a, b| a.key.cmp(&b.key));
        self.verdict.broken.dedup_by(|a, b| a.key == b.key);
        Ok(self.verdict)
    }

    /// Removes the announced holes, and checks the records after them. One of those may be a gap record that
    /// announces another hole, so this repeats until none is found.
    async fn unannounced(&mut self, store: &dyn AuditStore) -> Result<Vec<Hole>, StoreFailure> {
        let mut holes = std::mem::take(&mut self.holes);
        loop {
            let known = self.gaps.len();
            let announced = Announced::of(&self.gaps);
            let (found, left): (Vec<_>, Vec<_>) = holes
                .into_iter()
                .map(|hole| (announced.before(&hole), hole))
                .partition(|(before, _)| before.is_some());
            holes = left.into_iter().map(|(_, hole)| hole).collect();
            for (before, hole) in found {
                let missing = hole.next.seq - hole.from_seq;
                self.verdict.announced = self.verdict.announced.saturating_add(missing);
                self.behind(store, hole, before.flatten()).await?;
            }
            if self.gaps.len() == known {
                return Ok(holes);
            }
        }
    }

    /// Checks the record after a hole against the hash in the announcement. Without one, it may follow the record
    /// before the hole; otherwise its predecessor is unknown, and it is not trusted.
    async fn behind(
        &mut self,
        store: &dyn AuditStore,
        hole: Hole,
        before: Option<String>,
    ) -> Result<(), StoreFailure> {
        let doubtful = self.doubtful.remove(&hole.next);
        if before.is_none() && doubtful.is_none() {
            return Ok(());
        }
        let place = RecordKey {
            seq: hole.to_seq(),
            ..hole.next.clone()
        };
        // Read again, since the announcement may have come much later. Records removed by retention need no check.
        let page = store.page(Some(place), 1).await?;
        let Some(stored) = page.into_iter().find(|stored| stored.key == hole.next) else {
            return Ok(());
        };
        let hash = before.as_deref().map_or(Some(hole.hash), heads::unhex);
        let holds = hash.is_some_and(|hash| stored.follows(&hash, &mut self.scratch));
        if holds {
            self.gaps.extend(doubtful.map(|gap| (hole.next, gap)));
        } else if before.is_some() {
            self.verdict.broken.push(Broken {
                key: hole.next,
                reason: DOES_NOT_FOLLOW.to_owned(),
            });
        }
        Ok(())
    }

    /// Each lane written by this data directory left a head; without it the lane's end cannot be verified.
    fn check_notes(&mut self) {
        let Some(node) = &self.node else { return };
        let foreign = self.ends.keys().filter(|(of, _)| of != node);
        self.verdict.elsewhere = foreign.count() as u64;
        let ours = |lane: &&(String, i64)| lane.0 == *node && is_of_files(lane.1);
        let bare = self.ends.iter().filter(|(lane, _)| ours(lane));
        let bare = bare.filter(|((_, lane), _)| !self.noted.contains(lane));
        let bare: Vec<Broken> = bare
            .map(|((node, lane), (seq, _))| Broken {
                key: RecordKey {
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
        let key = RecordKey {
            node: claim.node,
            lane: claim.lane,
            seq: at,
        };
        self.verdict.broken.push(Broken { key, reason });
    }
}
