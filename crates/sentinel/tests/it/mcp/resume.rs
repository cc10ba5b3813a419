//! C-39: a legacy caller that loses its connection takes up the stream of its call with
//! `Last-Event-ID`; the call itself runs once and is not disturbed.

use serde_json::{Value, json};

use crate::support::callers::{Caller, Legacy, Modern, request, text_of, tool};
use crate::support::http::{Answer, Stream, data_of, parse};
use crate::support::setup::{Gateway, Server, http_backend, stdio_backend, until};

/// The id of an event.
fn id_of(event: &str) -> String {
    let id = event.lines().find_map(|line| line.strip_prefix("id: "));
    id.unwrap_or_else(|| panic!("no id in {event:?}"))
        .to_owned()
}

/// An event that holds a message: its id and the message.
#[track_caller]
fn next(stream: &mut Stream) -> (String, Value) {
    let event = stream.event().expect("another event");
    (id_of(&event), parse(&data_of(&event)))
}

/// A call that says that it began, which makes its answer a stream, and then waits.
fn barrier(id: &str) -> String {
    let mut call = tool("barrier", json!({"name": id}));
    call["_meta"] = json!({"progressToken": "p"});
    request(&json!(id), "tools/call", call)
}

fn release(gateway: &Gateway, name: &str) {
    let other = Modern::new(gateway, "/mcp");
    assert_eq!(other.said("release", json!({"name": name})), "1");
}

/// The next event is the word of a call that began.
#[track_caller]
fn has_begun(stream: &mut Stream) {
    let (_, message) = next(stream);
    assert_eq!(message["method"], "notifications/progress", "{message}");
}

/// The last message of an answer's events.
fn last(answer: &Answer) -> Value {
    let events = answer.text.trim_end().split("\n\n");
    parse(&data_of(events.last().expect("an event")))
}

#[test]
fn c_39_a_call_that_says_something_streams_from_a_priming_event_and_its_answer_can_be_fetched() {
    let gateway = Gateway::ready(&stdio_backend("one", &[], ""));
    let caller = Legacy::newest(&gateway);
    let mut stream = caller.send(&barrier("b")).head();
    let first = stream.event().expect("a first event");
    assert_eq!(data_of(&first), "", "it says nothing");
    assert!(first.contains("\nretry: "), "{first}");
    let primed = id_of(&first);
    stream.hang_up();

    // Taken up while it still waits, lost again, and fetched when all is over.
    let mut live = caller.resume(&primed).head();
    assert_eq!(live.status, 200);
    has_begun(&mut live);
    release(&gateway, "b");
    let (answered, answer) = next(&mut live);
    assert_eq!(
        (&answer["id"], text_of(&answer)),
        (&json!("b"), "passed b".to_owned())
    );
    assert_eq!(live.event(), None, "the stream ends with the answer");
    let again = caller.resume(&primed).finish();
    assert_eq!(text_of(&last(&again)), "passed b");
    let nothing = caller.resume(&answered).finish();
    assert_eq!((nothing.status, nothing.text.as_str()), (200, ""));
}

#[test]
fn c_39_the_answer_is_kept_for_a_caller_that_was_away_when_it_came() {
    let server = Server::start(&["--era", "legacy"]);
    let gateway = Gateway::ready(&http_backend("one", &server.address, ""));
    let caller = Legacy::newest(&gateway);
    let mut stream = caller.send(&barrier("b")).head();
    let primed = id_of(&stream.event().expect("a first event"));
    stream.hang_up();
    release(&gateway, "b");
    let watcher = Modern::new(&gateway, "/mcp");
    until("the call is over", || {
        (watcher.said("waiting", json!({"name": "b"})) == "0").then_some(())
    });
    assert_eq!(text_of(&last(&caller.resume(&primed).finish())), "passed b");
}

#[test]
fn c_39_every_message_has_an_id_and_only_later_ones_are_said_again() {
    let gateway = Gateway::ready(&stdio_backend("one", &[], ""));
    for revision in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let caller = Legacy::connect(&gateway, "/mcp", revision);
        let mut call = tool("chatty", json!({"n": 3, "ms": 1}));
        call["_meta"] = json!({"progressToken": "p"});
        let mut stream = caller.send(&request(&json!(1), "tools/call", call)).head();
        if revision == "2025-11-25" {
            assert_eq!(data_of(&stream.event().expect("a first event")), "");
        }
        let all: Vec<_> = std::iter::from_fn(|| stream.event()).collect();
        assert!(all.len() >= 3, "{revision}: {all:?}");
        let mut ids: Vec<_> = all.iter().map(|event| id_of(event)).collect();
        let replay = caller.resume(&ids[0]).finish();
        assert_eq!(replay.text, all[1..].join("\n\n") + "\n\n", "{revision}");
        ids.dedup();
        assert_eq!(ids.len(), all.len());
    }
}

#[test]
fn c_39_a_question_missed_is_asked_again_and_its_answer_finishes_the_call() {
    let gateway = Gateway::ready(&stdio_backend("one", &[], "isolation = \"caller\""));
    let able = json!({"elicitation": {"form": {}}});
    let caller = Legacy::with(&gateway, "/mcp", "2025-11-25", able);
    let ask = tool("ask", json!({"message": "Who are you?"}));
    let mut stream = caller.send(&request(&json!(1), "tools/call", ask)).head();
    let primed = id_of(&stream.event().expect("a first event"));
    stream.hang_up();
    let mut stream = caller.resume(&primed).head();
    let (_, question) = next(&mut stream);
    assert_eq!(question["method"], "elicitation/create", "{question}");
    let answer = json!({"jsonrpc": "2.0", "id": question["id"],
        "result": {"action": "accept", "content": {"name": "Ada"}}});
    assert_eq!(caller.post(&answer.to_string()).status, 202);
    assert_eq!(text_of(&next(&mut stream).1), "hello Ada");
}

#[test]
fn p_s05_an_event_id_is_worth_nothing_in_another_session_or_when_made_up() {
    let gateway = Gateway::ready(&stdio_backend("one", &[], ""));
    let caller = Legacy::newest(&gateway);
    let mut stream = caller.send(&barrier("b")).head();
    let primed = id_of(&stream.event().expect("a first event"));
    let other = Legacy::newest(&gateway);
    for (who, id) in [(&other, primed.as_str()), (&caller, "7-0"), (&caller, "?")] {
        let refused = who.resume(id).finish();
        assert_eq!((refused.status, refused.code()), (400, -32600), "{id}");
        assert_eq!(
            who.result("ping", json!({})),
            json!({}),
            "the session stays"
        );
    }
    release(&gateway, "b");
    has_begun(&mut stream);
    assert_eq!(text_of(&next(&mut stream).1), "passed b", "undisturbed");
    caller.verb("DELETE").finish();
    assert_eq!(caller.resume(&primed).finish().status, 404, "gone with it");
}

#[test]
fn c_39_a_cancelled_call_ends_a_stream_that_was_taken_up() {
    let gateway = Gateway::ready(&stdio_backend("one", &[], ""));
    let caller = Legacy::newest(&gateway);
    let mut stream = caller.send(&barrier("b")).head();
    let primed = id_of(&stream.event().expect("a first event"));
    stream.hang_up();
    let mut live = caller.resume(&primed).head();
    has_begun(&mut live);
    caller.cancel(&json!("b"));
    assert_eq!(live.event(), None);
}

/// G-22 and the rule for answers: JSON if nothing is said before, however long that takes within 15 s, for
/// callers who can resume as well.
#[test]
fn g_24_a_call_that_says_nothing_is_answered_with_json() {
    let gateway = Gateway::ready(&stdio_backend("one", &[], ""));
    for revision in ["2025-06-18", "2025-11-25"] {
        let caller = Legacy::connect(&gateway, "/mcp", revision);
        let slow = request(&json!(1), "tools/call", tool("slow", json!({"ms": 400})));
        let answer = caller.send(&slow).finish();
        assert_eq!(
            answer.header("content-type"),
            "application/json",
            "{revision}"
        );
        assert_eq!(text_of(&answer.json()), "waited 400 ms");
    }
}
