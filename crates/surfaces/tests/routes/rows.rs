//! Sets whose rows go to the caller one by one.

use serde_json::{Value, json};

use crate::site::Site;

#[tokio::test]
async fn rows_are_records_and_the_last_record_says_how_it_ended() {
    let site = Site::of("admin");
    for line in ["GET /list", "GET /api/list", "POST /api/list"] {
        let headers = [
            "Accept: application/x-ndjson",
            "Content-Type: application/json",
        ];
        let answer = site.send(line, &headers, "").await;
        assert_eq!(answer.status, 200, "{line} {answer:?}");
        assert_eq!(answer.header("content-type"), Some("application/jsonl"));
        let records: Vec<Value> = answer
            .body
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        let want = [
            json!({ "type": "row", "row": { "n": 1 } }),
            json!({ "type": "row", "row": { "type": "error" } }),
            json!({ "type": "row", "row": [3] }),
            json!({ "type": "result", "result": { "rows": 3 } }),
        ];
        assert_eq!(records, want, "{line}");
        let kept = site.records();
        assert_eq!(kept[0].bytes_out, answer.body.len() as u64, "{line}");
        assert_eq!(kept[0].outcome, "success");
    }
    let events = site
        .send("GET /list", &["Accept: text/event-stream"], "")
        .await;
    let rows = events
        .body
        .matches("event: row\ndata: {\"type\":\"row\"")
        .count();
    assert_eq!(rows, 3, "{}", events.body);
}

#[tokio::test]
async fn who_takes_no_stream_gets_the_whole_set() {
    let site = Site::of("admin");
    let want = json!({ "rows": [{ "n": 1 }, { "type": "error" }, [3]] });
    assert_eq!(site.get("GET /list").await.json(), want);
    // Neither does a call that is answered later lose a row.
    let later = ["Prefer: respond-async", "Content-Type: application/json"];
    let held = site.hold().await;
    let begun = site.send("POST /api/list", &later, "{}").await;
    drop(held);
    let place = begun.header("location").expect("a place").to_owned();
    let wait = ["Prefer: wait=5"];
    let done = site.send(&format!("GET {place}"), &wait, "").await;
    assert_eq!(done.json(), want);
}
