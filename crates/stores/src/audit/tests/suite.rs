//! What any store of audit records must do.

mod searches;

use std::path::Path;
use std::time::Duration;

use futures_util::future::BoxFuture;
use sentinel_core::audit::{
    ANCHOR, AuditStore, Batch, Filter, GAP, Guarantee, Query, Record, RecordKey, Stored, chain,
    encode, genesis,
};

use super::super::heads::{self, Head, hex};
use super::super::verify;

/// A chained lane of records, one each second.
pub(super) fn lane(lane: i64, len: u64, before: Option<[u8; 32]>) -> Vec<Stored> {
    let records = (1..=len).map(|seq| Record {
        at_ms: 1000 * seq,
        request_id: format!("\"{lane}-{seq}\""),
        surface: "http".into(),
        caller: if seq % 2 == 0 {
            "ann".into()
        } else {
            "bob".into()
        },
        method: if seq % 10 == 0 {
            ANCHOR.into()
        } else {
            "tools/call".into()
        },
        operation: format!("tool{}", seq % 3),
        outcome: "success".into(),
        args_digest: (seq % 2 == 0).then_some([seq as u8; 32]),
        args: (seq % 5 == 0).then(|| "{\"heads\":[]}".to_owned()),
        guarantee: Guarantee::Spool,
        latency_us: u64::from(u32::MAX) + seq,
        ..Record::default()
    });
    let before = before.unwrap_or_else(|| genesis("n", lane));
    chained(lane, before, records)
}

/// Records from number 1 on that follow `before`.
fn chained(lane: i64, before: [u8; 32], records: impl IntoIterator<Item = Record>) -> Vec<Stored> {
    let mut hash = before;
    let mut out = Vec::new();
    for (seq, record) in (1..).zip(records) {
        let mut bytes = Vec::new();
        encode(&record.draft(), &mut bytes);
        hash = chain(&hash, seq, &bytes);
        let key = RecordKey {
            node: "n".into(),
            lane,
            seq,
        };
        out.push(Stored { key, record, hash });
    }
    out
}

pub(super) async fn run(
    store: &dyn AuditStore,
    data_dir: &Path,
    tamper: &dyn Fn(&'static str) -> BoxFuture<'static, ()>,
) {
    let records = lane(2, 100, None);
    store.insert(Batch::of(&records)).await.unwrap();
    // At least once: what is there already is left alone.
    store.insert(Batch::of(&records[50..])).await.unwrap();
    assert_eq!(store.page(None, 1000).await.unwrap(), records);
    let after = Some(records[97].key.clone());
    assert_eq!(store.page(after, 1000).await.unwrap(), records[98..]);

    searches(store, &records).await;

    let verdict = verify(store, data_dir).await.unwrap();
    assert_eq!((verdict.records, verdict.lanes), (100, 1));
    assert_eq!(verdict.broken, []);

    retention(store, data_dir, &records).await;
    a_clock_that_was_set_back(store, data_dir).await;
    tampering(store, data_dir, tamper).await;
    no_records(store, data_dir, tamper).await;
    announcements(store, data_dir, tamper).await;
    assert_eq!(store.ends().await.unwrap(), []);
    searches::run(store).await;
    tamper("DELETE FROM audit").await;
}

async fn searches(store: &dyn AuditStore, records: &[Stored]) {
    let find = async |query: Query| store.find(query).await.unwrap();
    let all = Query {
        limit: 1000,
        ..Query::default()
    };
    let found = find(Query {
        filter: Filter {
            caller: Some("ann".into()),
            operation: Some("tool1".into()),
            since_ms: Some(10_000),
            until_ms: Some(20_000),
            ..Filter::default()
        },
        ..all.clone()
    })
    .await;
    let seqs: Vec<u64> = found.iter().map(|s| s.key.seq).collect();
    assert_eq!(seqs, [10, 16]);
    let newest = find(Query {
        newest: true,
        limit: 2,
        ..Query::default()
    })
    .await;
    assert_eq!(newest[0], records[99]);
    let last = &records[49];
    let after = Some((last.record.at_ms, last.key.clone()));
    let rest = find(Query {
        after: after.clone(),
        ..all.clone()
    })
    .await;
    assert_eq!(rest, records[50..]);
    let mut older = find(Query {
        after,
        newest: true,
        within: Some(Duration::from_secs(5)),
        ..all.clone()
    })
    .await;
    older.reverse();
    assert_eq!(older, records[..49]);

    // However many are asked for, and whatever is asked.
    let every = Query {
        limit: usize::MAX,
        ..Query::default()
    };
    assert_eq!(find(every.clone()).await, records);
    assert_eq!(store.page(None, usize::MAX).await.unwrap(), records);
    let those = |filter: Filter| Query {
        filter,
        ..every.clone()
    };
    let until_ever = those(Filter {
        until_ms: Some(u64::MAX),
        ..Filter::default()
    });
    assert_eq!(find(until_ever).await, records);
    let with_zero = || Some("ann\0".to_owned());
    for nothing in [
        Filter {
            since_ms: Some(u64::MAX),
            ..Filter::default()
        },
        Filter {
            caller: with_zero(),
            ..Filter::default()
        },
        Filter {
            operation: with_zero(),
            ..Filter::default()
        },
        Filter {
            backend: with_zero(),
            ..Filter::default()
        },
        Filter {
            outcome: with_zero(),
            ..Filter::default()
        },
    ] {
        assert_eq!(find(those(nothing.clone())).await, [], "{nothing:?}");
    }
}

/// P-A05: retention cuts at an anchor, and the rest still verifies.
async fn retention(store: &dyn AuditStore, data_dir: &Path, records: &[Stored]) {
    assert_eq!(store.retain(35_500).await.unwrap(), 30);
    let left = store.page(None, 1000).await.unwrap();
    assert_eq!(left, records[30..]);
    assert_eq!(store.cuts().await.unwrap()[0].hash, records[29].hash);
    let verdict = verify(store, data_dir).await.unwrap();
    assert_eq!(verdict.broken, []);
    // A lane that ended goes whole.
    assert_eq!(store.retain(1_000_000).await.unwrap(), 70);
    assert_eq!(store.page(None, 10).await.unwrap(), []);
    assert_eq!(verify(store, data_dir).await.unwrap().broken, []);
}

/// P-A05: records that say a time long before those around them take nothing with them, and stay as long as those.
async fn a_clock_that_was_set_back(store: &dyn AuditStore, data_dir: &Path) {
    let at = |seq: u64, begin: u64| match seq {
        // With the anchor that ends them.
        61..=70 => seq,
        _ => begin + 1000 * seq,
    };
    let stepped = |id: i64, begin: u64| {
        let records = lane(id, 100, None).into_iter().map(|stored| Record {
            at_ms: at(stored.key.seq, begin),
            ..stored.record
        });
        chained(id, genesis("n", id), records)
    };
    let (young, older) = (stepped(50, 1_000_000), stepped(52, 0));
    for records in [&young, &older] {
        store.insert(Batch::of(records)).await.unwrap();
    }
    // Of the older one the first half is too old.
    assert_eq!(store.retain(50_500).await.unwrap(), 50);
    let left = store.page(None, 1000).await.unwrap();
    assert_eq!(left, [&young[..], &older[50..]].concat());
    assert_eq!(verify(store, data_dir).await.unwrap().broken, []);
    assert_eq!(store.retain(u64::MAX >> 1).await.unwrap(), 150);
}

/// P-A05: changing, removing, swapping or cutting off records is found, and the first is named.
async fn tampering(
    store: &dyn AuditStore,
    data_dir: &Path,
    tamper: &dyn Fn(&'static str) -> BoxFuture<'static, ()>,
) {
    let cases: [(&'static str, u64); 5] = [
        ("UPDATE audit SET outcome = 'denied' WHERE seq = 42", 42),
        ("DELETE FROM audit WHERE seq = 17", 17),
        (
            "UPDATE audit SET seq = -1 WHERE seq = 5; UPDATE audit SET seq = 5 WHERE seq = 6; UPDATE audit SET seq = 6 WHERE seq = -1",
            5,
        ),
        (
            "UPDATE audit SET latency_us = latency_us + 1, caller = 'eve' WHERE seq IN (60, 70)",
            60,
        ),
        ("DELETE FROM audit WHERE seq > 90", 91),
    ];
    for (n, (sql, first)) in cases.into_iter().enumerate() {
        let id = 100 + 2 * n as i64;
        let records = lane(id, 100, None);
        store.insert(Batch::of(&records)).await.unwrap();
        heads::write(data_dir, &Head::of(&Batch::of(&records)).unwrap()).unwrap();
        assert_eq!(verify(store, data_dir).await.unwrap().broken, [], "{sql}");
        tamper(sql).await;
        let verdict = verify(store, data_dir).await.unwrap();
        let broken = verdict
            .broken
            .first()
            .unwrap_or_else(|| panic!("not found: {sql}"));
        assert_eq!((broken.key.lane, broken.key.seq), (id, first), "{sql}");
        // The next case begins without it.
        std::fs::remove_dir_all(data_dir.join("audit/heads")).unwrap();
        tamper("DELETE FROM audit").await;
    }
    rewriting(store, data_dir, tamper).await;
}

/// P-A05: a lane that somebody wrote anew holds together, and goes on; but it is not the one that was noted.
async fn rewriting(
    store: &dyn AuditStore,
    data_dir: &Path,
    tamper: &dyn Fn(&'static str) -> BoxFuture<'static, ()>,
) {
    let records = lane(200, 101, None);
    store.insert(Batch::of(&records)).await.unwrap();
    let noted = Head::of(&Batch::of(&records[..90])).unwrap();
    heads::write(data_dir, &noted).unwrap();
    assert_eq!(verify(store, data_dir).await.unwrap().broken, []);
    let mut forged = records;
    forged[41].record.outcome = "denied".into();
    let mut hash = forged[40].hash;
    for stored in &mut forged[41..] {
        let mut bytes = Vec::new();
        encode(&stored.record.draft(), &mut bytes);
        hash = chain(&hash, stored.key.seq, &bytes);
        stored.hash = hash;
    }
    tamper("DELETE FROM audit").await;
    store.insert(Batch::of(&forged)).await.unwrap();
    let broken = verify(store, data_dir).await.unwrap().broken;
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert_eq!((broken[0].key.lane, broken[0].key.seq), (200, 90));
    std::fs::remove_dir_all(data_dir.join("audit/heads")).unwrap();
    tamper("DELETE FROM audit").await;
}

/// P-A05: what can be no record is told by its key, and the walk goes on behind it.
async fn no_records(
    store: &dyn AuditStore,
    data_dir: &Path,
    tamper: &dyn Fn(&'static str) -> BoxFuture<'static, ()>,
) {
    for id in [300, 302, 304, 306, 308, 310] {
        let records = lane(id, 20, None);
        store.insert(Batch::of(&records)).await.unwrap();
        heads::write(data_dir, &Head::of(&Batch::of(&records)).unwrap()).unwrap();
    }
    tamper(
        "UPDATE audit SET seq = -1 WHERE lane = 300 AND seq = 3;
         UPDATE audit SET hash = substr(hash, 1, 5) WHERE lane = 302 AND seq = 3;
         UPDATE audit SET args_digest = substr(args_digest, 1, 5) WHERE lane = 304 AND seq = 4;
         UPDATE audit SET args_digest = substr(hash, 1, 5) WHERE lane = 308 AND seq = 5;
         UPDATE audit SET guarantee = 'spool!' WHERE lane = 310 AND seq = 6;
         INSERT INTO audit_cut SELECT node, lane, -1, substr(hash, 1, 5) FROM audit WHERE lane = 306 AND seq = 9",
    )
    .await;
    let verdict = verify(store, data_dir).await.unwrap();
    let told: Vec<_> = verdict
        .broken
        .iter()
        .map(|broken| (broken.key.lane, broken.key.seq as i64))
        .collect();
    let expected = [(300, -1), (302, 3), (304, 4), (306, 1), (308, 5), (310, 6)];
    assert_eq!(told, expected);
    assert_eq!(verdict.records, 120);
    // Retention does not stop at them either.
    assert_eq!(store.retain(1_000_000).await.unwrap(), 120);
    tamper("DELETE FROM audit_cut").await;
    std::fs::remove_dir_all(data_dir.join("audit/heads")).unwrap();
}

/// A gap record about 9 and 10 of a lane.
fn gap(lane: i64, before: Option<[u8; 32]>) -> Record {
    let mut args = serde_json::json!({"lane": lane, "from_seq": 9, "to_seq": 10, "count": 2, "reason": "spool"});
    if let Some(before) = before {
        args["before"] = hex(&before).into();
    }
    Record {
        surface: "gateway".into(),
        method: GAP.into(),
        args: Some(args.to_string()),
        ..Record::default()
    }
}

/// P-A05: what is missing counts as announced only where a gateway of ours said so, and the record behind it is
/// checked if that says what it follows.
async fn announcements(
    store: &dyn AuditStore,
    data_dir: &Path,
    tamper: &dyn Fn(&'static str) -> BoxFuture<'static, ()>,
) {
    let node = data_dir.join("audit/node");
    std::fs::write(&node, "n").unwrap();
    let note = |records: &[Stored]| {
        heads::write(data_dir, &Head::of(&Batch::of(records)).unwrap()).unwrap();
    };
    let told = async || {
        let verdict = verify(store, data_dir).await.unwrap();
        let broken = verdict.broken.iter();
        let told: Vec<_> = broken.map(|b| (b.key.lane, b.key.seq)).collect();
        (told, verdict.announced)
    };
    let own = |id, records: Vec<Record>| chained(id, genesis("n", id), records);

    let records = lane(400, 20, None);
    note(&records);
    store.insert(Batch::of(&records)).await.unwrap();
    assert_eq!(told().await, (vec![], 0));
    tamper("DELETE FROM audit WHERE lane = 400 AND seq IN (9, 10)").await;
    assert_eq!(told().await, (vec![(400, 9)], 0));

    // By a lane of memory, and by one of files that this data directory never wrote.
    let said = gap(400, Some(records[9].hash));
    for (forged, and_told) in [(401, vec![]), (402, vec![(402, 2)])] {
        store
            .insert(Batch::of(&own(forged, vec![said.clone()])))
            .await
            .unwrap();
        let expected = [vec![(400, 9)], and_told].concat();
        assert_eq!(told().await, (expected, 0), "lane {forged}");
        // In a store that data directories share, no other one believes the lane of memory either.
        std::fs::write(&node, "other").unwrap();
        let (told, _) = told().await;
        assert_eq!(told.contains(&(400, 9)), forged == 401, "{told:?}");
        std::fs::write(&node, "n").unwrap();
        tamper("DELETE FROM audit WHERE lane IN (401, 402)").await;
    }

    // Behind the end of a lane that has ended.
    let mut longer = lane(404, 20, None);
    note(&longer);
    let last = longer.iter().map(|stored| stored.record.clone());
    longer = own(404, last.chain([said.clone()]).collect());
    store.insert(Batch::of(&longer)).await.unwrap();
    assert_eq!(told().await, (vec![(400, 9)], 0));
    // One that is in the spool may have come further than its note.
    let spool = data_dir.join("spool/404");
    std::fs::create_dir_all(&spool).unwrap();
    assert_eq!(told().await, (vec![], 2));
    std::fs::remove_dir_all(spool).unwrap();
    tamper("DELETE FROM audit WHERE lane = 404").await;
    std::fs::remove_file(data_dir.join("audit/heads/n-404.json")).unwrap();

    // One of ours, which says what comes next.
    let announcing = own(406, vec![said]);
    note(&announcing);
    store.insert(Batch::of(&announcing)).await.unwrap();
    assert_eq!(told().await, (vec![], 2));
    tamper("UPDATE audit SET caller = 'eve' WHERE lane = 400 AND seq = 11").await;
    assert_eq!(told().await, (vec![(400, 11)], 2));
    tamper("DELETE FROM audit WHERE lane = 406").await;

    // One of ours that does not say it, as older ones: nobody knows what 11 was.
    let announcing = own(406, vec![gap(400, None)]);
    note(&announcing);
    store.insert(Batch::of(&announcing)).await.unwrap();
    assert_eq!(told().await, (vec![], 2));
    // But it is not believed what it says about others, unless it follows what is before the hole.
    let victim = lane(408, 20, None);
    note(&victim);
    store.insert(Batch::of(&victim)).await.unwrap();
    tamper(
        "DELETE FROM audit WHERE lane = 408 AND seq IN (9, 10);
         UPDATE audit SET method = 'audit/gap', args = '{\"lane\":408,\"from_seq\":9,\"to_seq\":10}'
             WHERE lane = 400 AND seq = 11",
    )
    .await;
    assert_eq!(told().await, (vec![(408, 9)], 2));
    tamper("DELETE FROM audit WHERE lane = 400").await;
    let mut skipping = records[..8].to_vec();
    let mut bytes = Vec::new();
    let said = gap(408, None);
    encode(&said.draft(), &mut bytes);
    skipping.push(Stored {
        hash: chain(&records[7].hash, 11, &bytes),
        key: records[10].key.clone(),
        record: said,
    });
    note(&skipping);
    store.insert(Batch::of(&skipping)).await.unwrap();
    assert_eq!(told().await, (vec![], 4));

    std::fs::remove_dir_all(data_dir.join("audit")).unwrap();
    tamper("DELETE FROM audit").await;
}
