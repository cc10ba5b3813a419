//! The line between a call and its caller: order, progress, answers, bounds.

use super::*;
use crate::fault::Kind;

fn log(text: &'static str) -> Notice {
    Notice::Log(
        Payload::parse(Bytes::from_static(text.as_bytes()), Rules::backend()).expect("json"),
    )
}

#[tokio::test]
async fn notices_come_before_the_reply_that_followed_them() {
    let (line, events) = Line::open(PermitSlot::default(), UNREAD_BYTES_MAX);
    let reply = Box::pin(async move {
        line.notice(log(r#"{"n":1}"#));
        line.notice(log(r#"{"n":2}"#));
        Err(Fault::new(Kind::Internal, "end"))
    });
    let mut talk = Conversation::new(reply, events, Arc::default(), PermitSlot::default());
    assert!(matches!(talk.next().await, Step::Event(Event::Notice(_))));
    assert!(matches!(talk.next().await, Step::Event(Event::Notice(_))));
    assert!(matches!(talk.next().await, Step::Done(Err(_))));
}

/// G-24: progress is strictly increasing, whatever the server says.
#[tokio::test]
async fn only_progress_that_rises_is_passed_on() {
    let (line, events) = Line::open(PermitSlot::default(), UNREAD_BYTES_MAX);
    let reply = Box::pin(async move {
        for n in ["5", "3", "5", "\"x\"", "null", "7", "7.5"] {
            let said = format!(r#"{{"progressToken":1,"progress":{n}}}"#);
            let said = Payload::parse(said.into(), Rules::backend()).expect("json");
            line.notice(Notice::Progress(said));
        }
        Err(Fault::new(Kind::Internal, "end"))
    });
    let mut talk = Conversation::new(reply, events, Arc::default(), PermitSlot::default());
    let mut heard = Vec::new();
    while let Step::Event(Event::Notice(notice)) = talk.next().await {
        let Notice::Progress(said) = *notice else {
            panic!("expected progress")
        };
        heard.push(said.string("progress").is_none().then(|| {
            String::from_utf8_lossy(said.get("progress").unwrap_or_default()).into_owned()
        }));
    }
    let heard: Vec<_> = heard.into_iter().flatten().collect();
    assert_eq!(heard, ["5", "7", "7.5"]);
}

#[tokio::test]
async fn an_answer_reaches_the_backend_that_asked() {
    let (line, events) = Line::open(PermitSlot::default(), UNREAD_BYTES_MAX);
    let reply = Box::pin(async move {
        let Some(Answer::Result(raw)) = line.ask(Method::Elicit, Bytes::from_static(b"{}")).await
        else {
            panic!("no answer")
        };
        Err(Fault::new(
            Kind::Internal,
            String::from_utf8_lossy(&raw).into_owned(),
        ))
    });
    let mut talk = Conversation::new(reply, events, Arc::default(), PermitSlot::default());
    let Step::Event(Event::Ask(ask)) = talk.next().await else {
        panic!("expected an ask")
    };
    ask.answer
        .send(Answer::Result(Bytes::from_static(b"yes")))
        .expect("still wanted");
    let Step::Done(Err(fault)) = talk.next().await else {
        panic!("expected the end")
    };
    assert_eq!(fault.public, "yes");
}

/// G-24: a caller does not hear of a task that it knows nothing of.
#[tokio::test]
async fn what_is_said_of_a_hidden_task_does_not_name_it_and_answers_do() {
    let relation = r#""io.modelcontextprotocol/related-task":{"taskId":"t-1"}"#;
    let (line, mut events) = Line::open(PermitSlot::default(), UNREAD_BYTES_MAX);
    let line = line.hiding_task();
    let said = format!(r#"{{"level":"info","_meta":{{{relation},"v":1}}}}"#);
    let said = Payload::parse(said.into(), Rules::backend()).expect("json");
    line.notice(Notice::Log(said));
    let question = format!(r#"{{"message":"?","_meta":{{{relation}}}}}"#);
    let answered = line.ask(Method::Elicit, question.into());
    let Some(Event::Notice(heard)) = events.try_next() else {
        panic!("a notice")
    };
    let Notice::Log(heard) = *heard else {
        panic!("a log line")
    };
    assert_eq!(heard.to_bytes(), r#"{"level":"info","_meta":{"v":1}}"#);
    let Some(Event::Ask(ask)) = events.try_next() else {
        panic!("a question")
    };
    assert_eq!(ask.params, r#"{"message":"?"}"#);
    let decline = Bytes::from_static(br#"{"action":"decline"}"#);
    ask.answer.send(Answer::Result(decline)).expect("wanted");
    let Some(Answer::Result(answer)) = answered.await else {
        panic!("an answer")
    };
    let want = format!(r#"{{"action":"decline","_meta":{{{relation}}}}}"#);
    assert_eq!(answer, want);
}

/// P-R10: what a slow reader leaves unread is bounded in bytes, too.
#[tokio::test]
async fn a_caller_who_does_not_listen_holds_so_many_bytes_and_hears_questions_all_the_same() {
    let (line, mut events) = Line::open(PermitSlot::default(), 20);
    line.notice(log(r#"{"data":"longer than the bound, but alone"}"#));
    line.notice(log(r#"{"n":1}"#));
    drop(line.ask(Method::Elicit, Bytes::from_static(b"{}")));
    assert!(matches!(events.try_next(), Some(Event::Notice(_))));
    for _ in 0..5 {
        line.notice(log(r#"{"n":2345}"#));
    }
    assert!(matches!(events.try_next(), Some(Event::Ask(_))));
    let unread = std::iter::from_fn(|| events.try_next()).count();
    assert_eq!(unread, 2);
}
