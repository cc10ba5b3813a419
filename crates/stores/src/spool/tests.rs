//! P-A03, P-A04: what is in the file survives, and what is missing is known exactly.

mod on_slate;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use futures_util::FutureExt;
use rustix::fs::{CWD, Mode};
use sentinel_core::audit::{Draft, Guarantee, Sink, Stored};
use sentinel_core::metrics::Metrics;
use tempfile::TempDir;
use tokio::sync::Notify;

use super::follow::{Follower, Gap, segments};
use super::frame::Kind;
use super::*;

fn lane(folder: &TempDir, quota: u64) -> FileLane {
    watched_lane(folder, quota, &Arc::default(), &Arc::default())
}

/// A lane that tells these what it loses and when it has little room.
fn watched_lane(
    folder: &TempDir,
    quota: u64,
    metrics: &Arc<Metrics>,
    crowded: &Arc<Notify>,
) -> FileLane {
    FileLane::create(
        folder.path(),
        "n".into(),
        (quota, AtQuota::Oldest),
        metrics.clone(),
        Arc::default(),
        crowded.clone(),
    )
    .unwrap()
}

fn append(lane: &FileLane, id: u64) {
    let id = id.to_string();
    lane.append(&Draft {
        request_id: &id,
        guarantee: Guarantee::Spool,
        ..Draft::default()
    })
    .unwrap();
}

#[derive(Default)]
struct All {
    records: Vec<Stored>,
    gaps: Vec<Gap>,
}

/// Everything a reader finds after the writer is gone.
fn read_all(lane: &FileLane) -> All {
    read_folder(&lane.folder)
}

fn read_folder(folder: &Path) -> All {
    let mut follower = Follower::new(folder.to_owned());
    let mut all = All::default();
    loop {
        let chunk = follower.read(None).unwrap();
        all.gaps.extend(chunk.gaps);
        let Some(batch) = chunk.records else {
            return all;
        };
        let stored = batch
            .records()
            .map(|e| e.to_stored(&batch.node, batch.lane));
        all.records.extend(stored);
    }
}

/// What is in the segment already, and nothing else.
fn wipe_slate(lane: &FileLane) {
    let slate = OpenOptions::new()
        .write(true)
        .open(lane.folder.join("slate"));
    slate.unwrap().write_all(&[0; slate::BYTES]).unwrap();
}

fn ids(all: &All) -> Vec<u64> {
    all.records
        .iter()
        .map(|stored| stored.record.request_id.parse().unwrap())
        .collect()
}

#[test]
fn records_come_back_in_order_and_chained() {
    let folder = TempDir::new().unwrap();
    let lane = lane(&folder, 1 << 20);
    (1..=4000).for_each(|id| append(&lane, id));
    let all = read_all(&lane);
    assert_eq!(ids(&all), (1..=4000).collect::<Vec<_>>());
    assert!(all.gaps.is_empty());
    assert!(
        segments(&lane.folder).unwrap().len() > 2,
        "segments were sealed"
    );
    let mut before = sentinel_core::audit::genesis("n", lane.lane());
    for stored in &all.records {
        assert!(stored.follows(&before, &mut Vec::new()));
        before = stored.hash;
    }
}

#[test]
fn a_torn_last_frame_loses_only_itself() {
    let folder = TempDir::new().unwrap();
    let lane = lane(&folder, 1 << 20);
    (1..=10).for_each(|id| append(&lane, id));
    lane.sync().unwrap();
    wipe_slate(&lane);
    let path = lane.folder.join("00000001.seg");
    let len = fs::metadata(&path).unwrap().len();
    OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(len - 20)
        .unwrap();
    let all = read_all(&lane);
    assert_eq!(ids(&all), (1..=9).collect::<Vec<_>>());
}

#[test]
fn a_damaged_frame_is_a_gap_and_reading_goes_on_behind_it() {
    let folder = TempDir::new().unwrap();
    let lane = lane(&folder, 1 << 20);
    (1..=10).for_each(|id| append(&lane, id));
    lane.sync().unwrap();
    wipe_slate(&lane);
    let path = lane.folder.join("00000001.seg");
    let len = fs::metadata(&path).unwrap().len();
    let mut file = OpenOptions::new().write(true).open(&path).unwrap();
    file.seek(SeekFrom::Start(len / 2)).unwrap();
    file.write_all(b"damage").unwrap();
    let all = read_all(&lane);
    assert_eq!(all.records.len(), 9);
    let [gap] = &all.gaps[..] else {
        panic!("one gap: {:?}", all.gaps)
    };
    assert_eq!(gap.from_seq, gap.to_seq);
    assert_eq!(gap.before, None, "only the damaged record had that hash");
    assert!(!ids(&all).contains(&gap.from_seq));
}

#[test]
fn p_a04_a_full_spool_drops_its_oldest_and_the_gap_is_exact() {
    let folder = TempDir::new().unwrap();
    let metrics = Arc::<Metrics>::default();
    let lane = watched_lane(&folder, 512 * 1024, &metrics, &Arc::default());
    // Nobody reads meanwhile; the first segment counts as being read and stays.
    (1..=20_000).for_each(|id| append(&lane, id));
    let size: u64 = fs::read_dir(&lane.folder)
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert!(size <= 512 * 1024 + 64 * 1024, "{size}");
    let all = read_all(&lane);
    let [
        Gap {
            from_seq, to_seq, ..
        },
    ] = all.gaps[..]
    else {
        panic!("one run, one gap: {:?}", all.gaps)
    };
    let missing: Vec<u64> = (1..=20_000).filter(|id| !ids(&all).contains(id)).collect();
    assert_eq!(missing, (from_seq..=to_seq).collect::<Vec<_>>());
    let dropped = metrics.audit.dropped.load(Relaxed);
    assert_eq!(dropped, to_seq + 1 - from_seq);
}

/// P-A05: whoever reads on knows what the record behind a gap follows, whether segments were cut or records never written.
#[test]
fn p_a05_a_gap_says_what_the_record_behind_it_follows() {
    let folder = TempDir::new().unwrap();
    let lane = lane(&folder, 512 * 1024);
    let refused = Draft {
        decision: "deny",
        guarantee: Guarantee::Spool,
        ..Draft::default()
    };
    for id in 1..=20_000 {
        append(&lane, id);
        // Once records gave way there is no place for these, in the middle of a segment.
        if id > 19_900 && id % 10 == 0 {
            lane.append(&refused).unwrap_err();
        }
    }
    append(&lane, 20_001);
    let all = read_all(&lane);
    assert!(all.gaps.len() > 5, "{:?}", all.gaps);
    for gap in &all.gaps {
        let mut behind = all.records.iter();
        let behind = behind.find(|stored| stored.key.seq == gap.to_seq + 1);
        let before = gap.before.expect("it is known");
        assert!(behind.unwrap().follows(&before, &mut Vec::new()), "{gap:?}");
    }
}

#[test]
fn p_a04_a_reader_is_called_before_anything_gives_way() {
    for quota in [192, 256, 512, 1024, 16 * 1024].map(|kib| kib * 1024) {
        let folder = TempDir::new().unwrap();
        let (metrics, crowded) = (Arc::<Metrics>::default(), Arc::<Notify>::default());
        let lane = watched_lane(&folder, quota, &metrics, &crowded);
        let is_called = || crowded.notified().now_or_never().is_some();
        append(&lane, 1);
        assert!(!is_called(), "there is room");
        let mut used = 0;
        let called = (2..200_000).find(|id| {
            append(&lane, *id);
            used += 1;
            is_called()
        });
        assert!(called.is_some(), "{quota}");
        // As many again have room until it comes.
        (0..used).for_each(|id| append(&lane, id));
        assert_eq!(metrics.audit.dropped.load(Relaxed), 0, "{quota}");
    }
}

/// A lane of `sync` that cannot even fill one segment would refuse for ever.
#[test]
fn p_a04_threads_share_lanes_where_the_spool_is_small() {
    let lanes = |spool_bytes_max| {
        let data = TempDir::new().unwrap();
        let limits = Limits {
            spool_bytes_max,
            memory_len_max: 10,
            writers: 16,
        };
        let recorder = Recorder::start(data.path(), limits, Arc::default()).unwrap();
        recorder.lanes().count()
    };
    assert_eq!([1, 2, 4, 256].map(|mib| lanes(mib << 20)), [2, 4, 8, 17]);
}

#[test]
fn p_a04_what_is_being_read_does_not_give_way() {
    let folder = TempDir::new().unwrap();
    let metrics = Arc::<Metrics>::default();
    let lane = watched_lane(&folder, 512 * 1024, &metrics, &Arc::default());
    (1..=1000).for_each(|id| append(&lane, id));
    let mut follower = Follower::new(lane.folder.clone());
    let mut read = || {
        let chunk = follower.read(Some(lane.end(follower.segment()))).unwrap();
        let records = chunk.records.unwrap();
        let first = records.records().next().unwrap().seq;
        (first, records.last().unwrap().0)
    };
    let (_, last) = read();
    assert!(last < 1000, "all of the first segment, and no more");
    // The next one is read while the lane overflows.
    (1001..=20_000).for_each(|id| append(&lane, id));
    assert!(metrics.audit.dropped.load(Relaxed) > 0);
    assert_eq!(read().0, last + 1);
}

#[test]
fn p_a04_a_segment_that_is_cut_while_it_is_read_ends_there() {
    let folder = TempDir::new().unwrap();
    let lane = lane(&folder, 512 * 1024);
    (1..=100).for_each(|id| append(&lane, id));
    let mut follower = Follower::new(lane.folder.clone());
    let live = lane.end(0);
    segment::cut(&lane.folder, live.0).unwrap();
    let chunk = follower.read(Some(live)).unwrap();
    assert!(chunk.records.is_none());
}

/// What the lane's own reader does: reads to the end, and lets go of the segments that are done with.
fn read_and_forget(lane: &FileLane, follower: &mut Follower) -> Vec<u64> {
    let mut read = All::default();
    loop {
        let chunk = follower.read(Some(lane.end(follower.segment()))).unwrap();
        assert!(chunk.gaps.is_empty(), "{:?}", chunk.gaps);
        chunk
            .finished
            .iter()
            .for_each(|number| lane.forget(*number));
        let Some(batch) = chunk.records else {
            return ids(&read);
        };
        let stored = batch.records();
        let stored = stored.map(|e| e.to_stored(&batch.node, batch.lane));
        read.records.extend(stored);
    }
}

fn files(lane: &FileLane) -> usize {
    fs::read_dir(&lane.folder).unwrap().count()
}

#[test]
fn p_a03_a_file_that_is_used_again_tells_nothing_of_what_it_held_before() {
    let folder = TempDir::new().unwrap();
    let lane = lane(&folder, 1 << 20);
    let mut follower = Follower::new(lane.folder.clone());
    let mut read = Vec::new();
    for round in 0..60 {
        (round * 500 + 1..=(round + 1) * 500).for_each(|id| append(&lane, id));
        read.extend(read_and_forget(&lane, &mut follower));
    }
    assert_eq!(read, (1..=30_000).collect::<Vec<_>>());
    let last = follower.segment();
    assert!(last > 20, "many segments were filled: {last}");
    assert!(files(&lane) < 10, "in few files: {}", files(&lane));

    // The writer dies; whoever adopts the folder finds the present segment, and no other.
    assert_eq!(segments(&lane.folder).unwrap(), [last]);
    let physical = fs::metadata(segment::path(&lane.folder, last))
        .unwrap()
        .len();
    let (_, written) = lane.end(last);
    assert!(written < physical, "there is something old behind it");
    let left = ids(&read_all(&lane));
    let first = *left.first().unwrap();
    assert_eq!(left, (first..=30_000).collect::<Vec<_>>());

    // Torn in its last frame, over what was there before.
    wipe_slate(&lane);
    let path = segment::path(&lane.folder, last);
    let mut file = OpenOptions::new().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(written - 20)).unwrap();
    file.write_all(&[7; 20]).unwrap();
    assert_eq!(ids(&read_all(&lane)), (first..30_000).collect::<Vec<_>>());
}

#[test]
fn p_a04_files_kept_aside_are_within_the_quota() {
    let folder = TempDir::new().unwrap();
    let lane = lane(&folder, 512 * 1024);
    let mut follower = Follower::new(lane.folder.clone());
    for id in 1..=20_000 {
        append(&lane, id);
        // A store that stalls now and then.
        if id % 2_000 == 0 {
            read_and_forget(&lane, &mut follower);
        }
        if id % 500 == 0 {
            let size: u64 = fs::read_dir(&lane.folder)
                .unwrap()
                .map(|entry| entry.unwrap().metadata().unwrap().len())
                .sum();
            assert!(size <= 512 * 1024 + 64 * 1024, "{size}");
        }
    }
}

#[test]
fn a_living_lane_is_nobodys_orphan() {
    let data = TempDir::new().unwrap();
    let quota = (1 << 20, AtQuota::Oldest);
    let lane = FileLane::create(
        &root(data.path()),
        "n".into(),
        quota,
        Arc::default(),
        Arc::default(),
        Arc::default(),
    );
    assert!(!has_orphans(data.path()));
    drop(lane);
    assert!(has_orphans(data.path()));
}

#[tokio::test]
async fn p_a04_an_intent_is_on_disk_or_refused_at_once() {
    let data = TempDir::new().unwrap();
    let limits = Limits {
        spool_bytes_max: 512 * 1024,
        memory_len_max: 10,
        writers: 1,
    };
    let recorder = Recorder::start(data.path(), limits, Arc::default()).unwrap();
    let draft = Draft {
        outcome: "intent",
        guarantee: Guarantee::Sync,
        ..Draft::default()
    };
    let plain = Draft {
        guarantee: Guarantee::Spool,
        ..Draft::default()
    };
    (0..20_000).for_each(|_| recorder.append(&plain));
    assert_eq!(recorder.intend(&draft).await.unwrap(), 1, "a lane apart");
    let mut intents = 1;
    while recorder.intend(&draft).await.is_ok() {
        intents += 1;
        assert!(intents < 100_000, "the quota holds");
    }
    // Nothing but a look: the disk is not asked, however slow it is. The best of some, for the machine may be busy.
    let mut best = std::time::Duration::MAX;
    for _ in 0..20 {
        let began = tokio::time::Instant::now();
        let refused = recorder.intend(&draft).await.unwrap_err();
        best = best.min(began.elapsed());
        assert!(refused.to_string().contains("full"), "{refused}");
    }
    assert!(best <= std::time::Duration::from_millis(5), "{best:?}");
}

/// P-A04, decisions 25 and 28: what was executed stays on record, however many are refused afterwards; those are
/// counted, and announced exactly.
#[tokio::test]
async fn p_a04_refusals_at_a_full_quota_push_out_nothing_that_was_executed() {
    let data = TempDir::new().unwrap();
    let metrics = Arc::<Metrics>::default();
    let limits = Limits {
        spool_bytes_max: 1 << 20,
        memory_len_max: 10,
        writers: 1,
    };
    let recorder = Recorder::start(data.path(), limits, metrics.clone()).unwrap();
    let intent = Draft {
        outcome: "intent",
        decision: "allow",
        guarantee: Guarantee::Sync,
        ..Draft::default()
    };
    let mut executed = 0u64;
    let mut running = Vec::new();
    while let Ok(seq) = recorder.intend(&intent).await {
        executed += 1;
        running.push(seq);
        // Some are still on their way when there is no more room.
        if running.len() > 20 {
            complete(&recorder, running.remove(0));
        }
    }
    assert!(executed > 500, "{executed}");
    let refused = Draft {
        outcome: "error",
        kind: "audit_unavailable",
        decision: "deny",
        guarantee: Guarantee::Sync,
        ..Draft::default()
    };
    let allowed = Draft {
        decision: "allow",
        outcome: "success",
        guarantee: Guarantee::Spool,
        ..Draft::default()
    };
    // A few allowed ones between them make room for themselves, not for refusals: the first at the beginning, the
    // others when all room is taken.
    for n in 0..20_000 {
        recorder.append(&refused);
        if n == 0 || n >= 6000 && n % 1000 == 0 {
            recorder.append(&allowed);
        }
    }
    running.drain(..).for_each(|seq| complete(&recorder, seq));
    recorder.end();
    let lanes: Vec<Arc<FileLane>> = recorder.lanes().cloned().collect();
    // So that nothing moves from slate to segment while they are read as those of a dead process.
    lanes.iter().for_each(|lane| lane.sync().unwrap());
    let (kept, gaps) =
        lanes
            .iter()
            .map(|lane| read_all(lane))
            .fold((Vec::new(), 0), |(mut kept, gaps), all| {
                kept.extend(all.records);
                let lost = all.gaps.iter().map(|gap| gap.to_seq + 1 - gap.from_seq);
                (kept, gaps + lost.sum::<u64>())
            });
    let count = |outcome: &str, decision: &str| {
        let of = kept
            .iter()
            .filter(|s| s.record.outcome == outcome && s.record.decision == decision);
        of.filter(|s| s.record.surface.is_empty()).count() as u64
    };
    assert_eq!(count("intent", "allow"), executed);
    assert_eq!(count("success", "allow"), executed + 15);
    let dropped = metrics
        .audit
        .dropped
        .load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(count("error", "deny") + dropped, 20_000);
    assert_eq!(gaps, dropped, "announced exactly");
}

fn complete(recorder: &Recorder, intent: u64) {
    recorder.append(&Draft {
        outcome: "success",
        decision: "allow",
        guarantee: Guarantee::Sync,
        intent,
        ..Draft::default()
    });
}

#[test]
fn p_a03_only_folders_named_by_a_number_are_adopted() {
    let data_dir = TempDir::new().unwrap();
    let root = root(data_dir.path());
    for name in ["12", "14.2", "x", ".16"] {
        fs::create_dir_all(root.join(name)).unwrap();
        fs::write(root.join(name).join("lock"), "").unwrap();
    }
    assert_eq!(lanes(data_dir.path()), [12]);
    assert_eq!(orphans::adopt(data_dir.path()).unwrap().len(), 1);
}

#[test]
fn what_is_left_of_a_lane_that_was_being_removed_goes_when_the_next_adopts() {
    let data_dir = TempDir::new().unwrap();
    let folder = |name: &str| {
        let folder = root(data_dir.path()).join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("1"), "what it was").unwrap();
        folder
    };
    let left = folder(".12-gone");
    let others = [folder("my-gone"), folder(".x-gone"), folder("backup")];
    assert!(orphans::adopt(data_dir.path()).unwrap().is_empty());
    assert!(!left.exists());
    assert!(others.iter().all(|folder| folder.join("1").exists()));
}
