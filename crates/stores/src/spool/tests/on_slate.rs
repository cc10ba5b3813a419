//! P-A03, P-A04: what is on the slate and in no segment yet is as safe.

use super::*;

/// The same lane without shared memory, as on file systems that are not safe for it.
#[test]
fn p_a03_without_shared_memory_each_record_is_written_at_once() {
    let folder = TempDir::new().unwrap();
    let quota = (1 << 20, AtQuota::Nothing);
    let lane = FileLane::create(
        folder.path(),
        "n".into(),
        quota,
        Arc::default(),
        Arc::default(),
        Arc::default(),
    )
    .unwrap();
    let mut before = written(&lane);
    for id in 1..=5 {
        append(&lane, id);
        assert!(written(&lane) > before);
        before = written(&lane);
    }
    let all = read_all(&lane);
    assert_eq!(ids(&all), (1..=5).collect::<Vec<_>>());
    assert!(all.gaps.is_empty());
}

fn written(lane: &FileLane) -> u64 {
    let last = *segments(&lane.folder).unwrap().last().unwrap();
    fs::metadata(segment::path(&lane.folder, last))
        .unwrap()
        .len()
}

#[test]
fn p_a03_what_is_not_in_a_segment_yet_survives_on_the_slate() {
    let folder = TempDir::new().unwrap();
    let lane = lane(&folder, 1 << 20);
    let empty = written(&lane);
    (1..=50).for_each(|id| append(&lane, id));
    assert_eq!(written(&lane), empty, "no call waits for a write");
    assert_eq!(ids(&read_all(&lane)), (1..=50).collect::<Vec<_>>());

    // What is in the segment stays on the slate until something else takes its place; nobody reads it twice.
    lane.sync().unwrap();
    assert!(written(&lane) > empty);
    assert_eq!(ids(&read_all(&lane)), (1..=50).collect::<Vec<_>>());
    (51..=60).for_each(|id| append(&lane, id));
    let all = read_all(&lane);
    assert_eq!(ids(&all), (1..=60).collect::<Vec<_>>());
    assert!(all.gaps.is_empty());
}

/// A slate that lost its blocks, as if the disk had failed: touching such a page would end the process.
#[test]
fn p_a04_a_slate_whose_pages_are_gone_is_left_for_the_segment() {
    let folder = TempDir::new().unwrap();
    let lane = lane(&folder, 1 << 20);
    let slate = fs::OpenOptions::new()
        .write(true)
        .open(lane.folder.join("slate"))
        .unwrap();
    (1..=5).for_each(|id| append(&lane, id));
    slate.set_len(4096).unwrap();
    // Pages are asked for again.
    std::thread::sleep(Duration::from_millis(50));
    let before = written(&lane);
    (6..=9).for_each(|id| append(&lane, id));
    assert!(written(&lane) > before, "each is written at once");
    let all = read_all(&lane);
    assert_eq!(ids(&all), (1..=9).collect::<Vec<_>>());
    assert!(all.gaps.is_empty());

    slate.set_len(64 * 1024).unwrap();
    let before = written(&lane);
    (10..=15).for_each(|id| append(&lane, id));
    assert_eq!(written(&lane), before, "it is used again once it can be");
    assert_eq!(ids(&read_all(&lane)), (1..=15).collect::<Vec<_>>());
}

/// Killed after the slate was written to the segment, and before it was cleared; and in the middle of putting something
/// on it.
#[test]
fn p_a03_a_writer_that_dies_at_any_moment_leaves_each_record_once() {
    let folder = TempDir::new().unwrap();
    let lane = lane(&folder, 1 << 20);
    let slate = lane.folder.join("slate");
    (1..=30).for_each(|id| append(&lane, id));
    let before = fs::read(&slate).unwrap();
    lane.sync().unwrap();
    (31..=35).for_each(|id| append(&lane, id));
    let after = fs::read(&slate).unwrap();
    let differ = (0..after.len()).filter(|at| before[*at] != after[*at]);
    let end = differ.max().unwrap();
    for torn in 0..=end + 1 {
        let mut bytes = before.clone();
        bytes[..torn].copy_from_slice(&after[..torn]);
        fs::write(&slate, &bytes).unwrap();
        let all = read_all(&lane);
        let ids = ids(&all);
        assert!((30..=35).contains(&ids.len()), "{torn}: {}", ids.len());
        assert_eq!(ids, (1..=ids.len() as u64).collect::<Vec<_>>(), "{torn}");
        assert!(all.gaps.is_empty(), "{torn}");
    }
    assert_eq!(read_all(&lane).records.len(), 35, "all of it is there");
}

#[test]
fn p_a03_a_record_that_is_larger_than_the_slate_follows_what_lies_on_it() {
    let folder = TempDir::new().unwrap();
    let lane = lane(&folder, 8 << 20);
    let long = "x".repeat(200 * 1024);
    for id in 1..=30 {
        let text = id.to_string();
        lane.append(&Draft {
            request_id: &text,
            args: (id % 3 == 0).then_some(&long),
            guarantee: Guarantee::Spool,
            ..Draft::default()
        })
        .unwrap();
    }
    let all = read_all(&lane);
    assert_eq!(ids(&all), (1..=30).collect::<Vec<_>>());
    assert!(all.gaps.is_empty());
}

/// Puts something in the place of a slate.
type Put = dyn Fn(&Path) -> io::Result<()>;

/// Whatever lies in its place, what is in the segments is read, and nothing is waited for.
#[test]
fn p_a03_a_slate_that_cannot_be_read_costs_what_was_on_it_and_no_more() {
    let frame = |kind, seq| {
        let mut bytes = Vec::new();
        frame::put(&mut bytes, kind, seq, 1, [&[0; 80], &[]]);
        bytes
    };
    let whole = |bytes: &[u8]| {
        let mut whole = bytes.to_vec();
        whole.resize(slate::BYTES, 0);
        whole
    };
    let forgeries = [
        frame(Kind::Record, u64::MAX),
        frame(Kind::Record, u64::MAX - 1),
        frame(Kind::Segment, 100),
        vec![0xff; slate::BYTES],
        Vec::new(),
    ];
    let forged = forgeries.map(|bytes| Box::new(move |at: &Path| fs::write(at, whole(&bytes))));
    let mut cases: Vec<Box<Put>> = Vec::new();
    cases.extend(forged.map(|case| case as Box<Put>));
    cases.push(Box::new(|at| fs::create_dir(at)));
    cases.push(Box::new(|at| std::os::unix::fs::symlink("/dev/zero", at)));
    cases.push(Box::new(|at| {
        Ok(rustix::fs::mkfifoat(CWD, at, Mode::RUSR | Mode::WUSR)?)
    }));
    cases.push(Box::new(|at| File::create(at)?.set_len(1 << 40)));
    for (n, case) in cases.iter().enumerate() {
        let folder = TempDir::new().unwrap();
        let lane = lane(&folder, 1 << 20);
        (1..=10).for_each(|id| append(&lane, id));
        lane.sync().unwrap();
        append(&lane, 11);
        let path = lane.folder.join("slate");
        fs::remove_file(&path).unwrap();
        case(&path).unwrap();
        let all = read_all(&lane);
        assert_eq!(ids(&all), (1..=10).collect::<Vec<_>>(), "case {n}");
        assert!(all.gaps.is_empty(), "case {n}");
    }
}
