//! Filters, figures and the ends of lanes, compared with what a loop over all records finds.

use std::time::Duration;

use sentinel_core::audit::figures::{Alike, By, CALLS, Ended, Group, Tallies, TallyQuery};
use sentinel_core::audit::{
    AuditStore, Batch, Filter, Query, Record, RecordKey, Run, Stored, genesis,
};

use super::chained;

const WITHIN: Duration = Duration::from_secs(20);

/// The store is empty before.
pub(super) async fn run(store: &dyn AuditStore) {
    let mut all = Vec::new();
    for lane in [600, 602, -7] {
        let records = chained(lane, genesis("n", lane), (0..60).map(|n| record(lane, n)));
        store.insert(Batch::of(&records)).await.unwrap();
        all.extend(records);
    }
    all.sort_by_key(|stored| (stored.record.at_ms, stored.key.clone()));
    filters(store, &all).await;
    figures(store, &all).await;
    lanes(store, &all).await;
}

fn record(lane: i64, n: u64) -> Record {
    let seed = (n + lane.unsigned_abs() * 101).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 8;
    let of = |words: &[&str], salt: u64| {
        words[((seed >> salt) % words.len() as u64) as usize].to_owned()
    };
    let outcomes = [
        "success",
        "success",
        "error",
        "denied",
        "cancelled",
        "overloaded",
        "intent",
        "unknown",
    ];
    let outcome = of(&outcomes, 3);
    let is_denied = outcome == "denied" || (outcome == "error" && seed.is_multiple_of(2));
    Record {
        at_ms: 50_000 + seed % 20_000,
        request_id: format!("\"Req-{n}\""),
        surface: of(&["http", "rest", "stdio"], 5),
        caller: of(&["ann", "bob", "Ann-Marie"], 7),
        role: of(&["admin", "reader"], 9),
        tenant: of(&["", "acme"], 11),
        method: of(&["tools/call", "resources/read", "tools/list"], 13),
        backend: of(&["alpha", "beta"], 15),
        operation: of(&["echo", "x://[redacted]@host/a", "Slow"], 17),
        kind: match outcome.as_str() {
            "error" => "backend_timeout".to_owned(),
            _ => String::new(),
        },
        decision: if is_denied { "deny" } else { "allow" }.to_owned(),
        outcome,
        latency_us: (seed % 997) * (seed % 997),
        bytes_in: seed % 100,
        bytes_out: seed % 1000,
        args: match seed % 4 {
            0 => None,
            1 => Some(r#"{"key":"[redacted]","city":"Zürich"}"#.to_owned()),
            2 => Some(r#"{"a":"r[redacted]e"}"#.to_owned()),
            _ => Some(format!(r#"{{"n":{n}}}"#)),
        },
        ..Record::default()
    }
}

/// What a filter means.
fn matches(filter: &Filter, record: &Record) -> bool {
    let same = |wanted: &Option<String>, has: &str| wanted.as_ref().is_none_or(|w| w == has);
    let text = |part: &String| {
        let has = |text: &str| {
            let shown = text.replace("[redacted]", "\u{1}").to_ascii_lowercase();
            shown.contains(&part.to_ascii_lowercase())
        };
        has(&record.operation)
            || has(&record.caller)
            || has(&record.request_id)
            || record.args.as_deref().is_some_and(has)
    };
    same(&filter.caller, &record.caller)
        && same(&filter.operation, &record.operation)
        && same(&filter.backend, &record.backend)
        && same(&filter.outcome, &record.outcome)
        && same(&filter.kind, &record.kind)
        && same(&filter.surface, &record.surface)
        && same(&filter.method, &record.method)
        && same(&filter.role, &record.role)
        && same(&filter.tenant, &record.tenant)
        && same(&filter.request_id, &record.request_id)
        && filter.text.as_ref().is_none_or(text)
        && filter
            .latency_us_min
            .is_none_or(|least| record.latency_us >= least)
        && (!filter.failed || Ended::of(&record.decision, &record.outcome) != Ended::Well)
        && filter.since_ms.is_none_or(|since| record.at_ms >= since)
        && filter.until_ms.is_none_or(|until| record.at_ms < until)
}

fn all_filters() -> Vec<Filter> {
    let none = Filter::default;
    let text = |part: &str| Filter {
        text: Some(part.to_owned()),
        ..none()
    };
    let word = |word: &str| Some(word.to_owned());
    vec![
        none(),
        Filter {
            kind: word("backend_timeout"),
            ..none()
        },
        Filter {
            surface: word("rest"),
            ..none()
        },
        Filter {
            method: word("tools/call"),
            role: word("reader"),
            ..none()
        },
        Filter {
            tenant: word("acme"),
            backend: word("beta"),
            ..none()
        },
        Filter {
            tenant: word(""),
            ..none()
        },
        Filter {
            request_id: word("\"Req-7\""),
            ..none()
        },
        Filter {
            latency_us_min: Some(250_000),
            ..none()
        },
        Filter {
            failed: true,
            ..none()
        },
        Filter {
            failed: true,
            caller: word("ann"),
            outcome: word("error"),
            ..none()
        },
        Filter {
            since_ms: Some(55_000),
            until_ms: Some(60_000),
            text: word("ann"),
            ..none()
        },
        text("ANN"),
        text("req-1"),
        text("zürich"),
        text("ZüRICH"),
        text("slow"),
        text("%"),
        text("_"),
        text("\\"),
        // What stands for something redacted is not there, and nothing is joined where it was.
        text("redacted"),
        text("[redacted]"),
        text("dact"),
        text("re\"}"),
        text("r[re"),
        text("\"re\""),
        text("'; DROP TABLE audit; --"),
    ]
}

async fn filters(store: &dyn AuditStore, all: &[Stored]) {
    for filter in all_filters() {
        let expected: Vec<&Stored> = all.iter().filter(|s| matches(&filter, &s.record)).collect();
        let query = Query {
            filter: filter.clone(),
            limit: 1000,
            within: Some(WITHIN),
            ..Query::default()
        };
        let found = store.find(query.clone()).await.unwrap();
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{filter:?}");
        let count = store.count(query).await.unwrap();
        assert_eq!(count, expected.len() as u64, "{filter:?}");
    }
    let hidden = all_filters()
        .into_iter()
        .filter(|f| f.text.as_deref() == Some("redacted"));
    for filter in hidden {
        assert!(!all.iter().any(|stored| matches(&filter, &stored.record)));
    }
}

async fn figures(store: &dyn AuditStore, all: &[Stored]) {
    let ways = [
        By::Time(1000),
        By::Time(7000),
        By::Operation,
        By::Caller,
        By::Backend,
        By::Outcome,
        By::Kind,
    ];
    for (filter, by) in all_filters()
        .into_iter()
        .flat_map(|f| ways.map(|by| (f.clone(), by)))
    {
        let mut expected = Tallies::default();
        let calls = all.iter().map(|stored| &stored.record);
        for record in calls.filter(|record| {
            CALLS.contains(&&*record.method)
                && record.outcome != "intent"
                && matches(&filter, record)
        }) {
            let group = match by {
                By::Time(step) => Group {
                    at_ms: record.at_ms / step * step,
                    ..Group::default()
                },
                By::Operation => Group {
                    name: record.operation.clone(),
                    backend: record.backend.clone(),
                    ..Group::default()
                },
                By::Caller => named(&record.caller),
                By::Backend => named(&record.backend),
                By::Outcome => named(&record.outcome),
                By::Kind => named(&record.kind),
            };
            expected.add(group, &Alike::one(&record.draft()));
        }
        let query = TallyQuery {
            filter: filter.clone(),
            by,
            within: WITHIN,
        };
        let found = store.tally(query).await.unwrap();
        assert_eq!(found, expected, "{filter:?} by {by:?}");
    }
}

fn named(name: &str) -> Group {
    Group {
        name: name.to_owned(),
        ..Group::default()
    }
}

async fn lanes(store: &dyn AuditStore, all: &[Stored]) {
    let mut ends = store.ends().await.unwrap();
    ends.sort();
    let end = |lane| RecordKey {
        node: "n".to_owned(),
        lane,
        seq: 60,
    };
    assert_eq!(ends, [end(-7), end(600), end(602)]);

    let run = |lane, after_seq, to_seq| Run {
        node: "n".to_owned(),
        lane,
        after_seq,
        to_seq,
    };
    let query = Query {
        runs: vec![run(602, 10, 13), run(-7, 58, 90), run(601, 0, 5)],
        filter: Filter {
            since_ms: Some(1),
            ..Filter::default()
        },
        limit: 1000,
        within: Some(WITHIN),
        ..Query::default()
    };
    let is_in = |key: &RecordKey| match key.lane {
        602 => (11..=13).contains(&key.seq),
        -7 => key.seq > 58,
        _ => false,
    };
    let expected: Vec<&Stored> = all.iter().filter(|stored| is_in(&stored.key)).collect();
    assert_eq!(expected.len(), 5);
    let found = store.find(query.clone()).await.unwrap();
    assert_eq!(found.iter().collect::<Vec<_>>(), expected);
    assert_eq!(store.count(query.clone()).await.unwrap(), 5);
    // Page by page.
    let mut after = None;
    for stored in expected {
        let next = Query {
            after,
            limit: 1,
            ..query.clone()
        };
        let found = store.find(next).await.unwrap();
        assert_eq!(found, std::slice::from_ref(stored));
        after = Some((stored.record.at_ms, stored.key.clone()));
    }
}
