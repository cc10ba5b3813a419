use super::*;
use sentinel_core::queue::{Sender, queue};
use tokio::sync::oneshot;

/// A stream that the test speaks on.
struct Spoken {
    outbox: Sender<StreamItem>,
    answer: oneshot::Sender<Vec<u8>>,
    receiver: EventReceiver,
}

fn streams() -> Arc<Streams> {
    Streams::new(Total::default(), usize::MAX)
}

fn speak(streams: &Arc<Streams>, primed: bool) -> Spoken {
    let (outbox, inbox) = queue(4 * UNREAD_MAX, 0);
    let (answer, answered) = oneshot::channel();
    let answers = Box::pin(async move { answered.await.into_iter().collect() });
    let receiver = streams.open(primed, None, inbox, answers);
    Spoken {
        outbox,
        answer,
        receiver,
    }
}

fn message(text: &[u8]) -> StreamItem {
    StreamItem::Message(text.to_vec())
}

async fn all(mut receiver: EventReceiver) -> String {
    let mut out = Vec::new();
    while let Some(event) = receiver.recv().await {
        out.extend_from_slice(&event);
    }
    String::from_utf8(out).expect("text")
}

async fn next(receiver: &mut EventReceiver) -> String {
    String::from_utf8(receiver.recv().await.expect("an event").to_vec()).expect("text")
}

#[tokio::test]
async fn a_stream_begins_with_an_event_to_resume_from_and_ends_with_the_answer() {
    let streams = streams();
    let spoken = speak(&streams, true);
    spoken.outbox.send(message(b"\"a\""));
    spoken.answer.send(b"\"z\"".to_vec()).expect("it waits");
    assert_eq!(
        all(spoken.receiver).await,
        "id: 1-0\nretry: 1000\ndata: \n\nid: 1-1\ndata: \"a\"\n\nid: 1-2\ndata: \"z\"\n\n"
    );
}

#[tokio::test]
async fn whoever_left_hears_the_rest_of_its_own_stream_and_goes_on_live() {
    let streams = streams();
    let mut lost = speak(&streams, true);
    let mut other = speak(&streams, true);
    lost.outbox.send(message(b"1"));
    next(&mut lost.receiver).await;
    next(&mut lost.receiver).await;
    drop(lost.receiver);
    other.outbox.send(message(b"9"));
    next(&mut other.receiver).await;
    next(&mut other.receiver).await;
    lost.outbox.send(message(b"2"));
    while streams.0.lock().kept.len() < 3 {
        tokio::task::yield_now().await;
    }
    let mut again = streams.resume("1-1").expect("kept").0;
    assert_eq!(next(&mut again).await, "id: 1-2\ndata: 2\n\n");
    lost.answer.send(b"3".to_vec()).expect("it waits");
    assert_eq!(all(again).await, "id: 1-3\ndata: 3\n\n");
    // It is over now, and can be receiver once more.
    let replay = streams.resume("1-0").expect("kept").0;
    assert_eq!(
        all(replay).await,
        "id: 1-1\ndata: 1\n\nid: 1-2\ndata: 2\n\nid: 1-3\ndata: 3\n\n"
    );
    assert_eq!(all(streams.resume("1-3").expect("kept").0).await, "");
}

#[tokio::test]
async fn a_newer_listener_ends_the_older_ones_stream() {
    let streams = streams();
    let spoken = speak(&streams, true);
    let again = streams.resume("1-0").expect("open").0;
    assert_eq!(
        all(spoken.receiver).await,
        "id: 1-0\nretry: 1000\ndata: \n\n"
    );
    spoken.answer.send(b"1".to_vec()).expect("it waits");
    assert_eq!(all(again).await, "id: 1-1\ndata: 1\n\n");
}

#[tokio::test]
async fn a_listener_that_does_not_read_misses_notices_and_hears_the_answer() {
    let streams = streams();
    let spoken = speak(&streams, false);
    for _ in 0..2 * UNREAD_MAX {
        spoken.outbox.send(message(b"0"));
    }
    spoken.answer.send(b"1".to_vec()).expect("it waits");
    while !streams.0.lock().open.is_empty() {
        tokio::task::yield_now().await;
    }
    let receiver = all(spoken.receiver).await;
    assert_eq!(receiver.matches("data: 0").count(), UNREAD_MAX);
    assert!(receiver.ends_with("data: 1\n\n"), "{receiver}");
    // What it missed is still there to be asked for.
    let rest = all(streams.resume("1-64").expect("kept").0).await;
    assert_eq!(rest.matches("data: ").count(), UNREAD_MAX + 1);
}

#[tokio::test]
async fn a_cancelled_call_ends_its_stream_without_an_answer() {
    let streams = streams();
    let spoken = speak(&streams, false);
    drop(spoken.answer);
    assert_eq!(all(spoken.receiver).await, "");
    assert!(streams.0.lock().open.is_empty());
}

#[test]
fn ids_that_were_never_given_or_are_forgotten_are_refused() {
    let streams = streams();
    let (first, _heard) = streams.0.lock().begin(true);
    streams.0.lock().finish(first, &[b"1".to_vec()]);
    for wrong in ["", "1", "-", "x-1", "1-x", "1-1-1", "2-0", "1-2", "1--1"] {
        assert_eq!(streams.resume(wrong).err(), Some(Expired), "{wrong}");
    }
    assert!(streams.resume("1-0").is_ok());
    let (chatty, _heard) = streams.0.lock().begin(true);
    for _ in 0..KEPT_MAX {
        streams.0.lock().say(chatty, b"0");
    }
    assert_eq!(streams.resume("1-0").err(), Some(Expired));
    assert!(streams.resume("2-0").is_ok());
}

#[test]
fn what_is_kept_is_bounded_in_number_and_bytes_save_for_the_newest() {
    let mut table = Table::default();
    let (stream, _heard) = table.begin(false);
    for _ in 0..3 * KEPT_MAX {
        table.say(stream, b"0");
    }
    assert_eq!(table.kept.len(), KEPT_MAX);
    for _ in 0..10 {
        table.say(stream, &vec![b'0'; KEPT_BYTES_MAX / 4]);
    }
    assert!(table.kept_bytes <= KEPT_BYTES_MAX && table.kept.len() == 3);
    table.say(stream, &vec![b'0'; 2 * KEPT_BYTES_MAX]);
    assert_eq!(table.kept.len(), 1);
    table.say(stream, b"0");
    assert_eq!(table.kept.len(), 1);
    assert_eq!(table.kept_bytes, table.kept[0].event.len());
}

#[tokio::test(start_paused = true)]
async fn what_all_sessions_keep_is_bounded_and_forgotten_in_time_or_with_the_session() {
    let total = Total::default();
    let loud = Streams::new(total.clone(), usize::MAX);
    let quiet = Streams::new(total.clone(), usize::MAX);
    let (stream, _heard) = quiet.0.lock().begin(false);
    quiet.0.lock().say(stream, b"0");
    quiet.0.lock().say(stream, b"0");
    let alone = total.load(Ordering::Relaxed);
    let (stream, _heard) = loud.0.lock().begin(false);
    loud.0.lock().say(stream, &vec![b'0'; ALL_BYTES_MAX]);
    quiet.0.lock().say(1, b"0");
    assert_eq!(quiet.0.lock().kept.len(), 1, "only its newest");
    drop(loud);
    assert_eq!(total.load(Ordering::Relaxed), alone / 2);
    quiet.sweep();
    assert!(quiet.resume("1-2").is_ok());
    tokio::time::advance(KEPT_FOR + Duration::from_secs(1)).await;
    quiet.sweep();
    assert_eq!(total.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_paused_stream_lets_its_caller_go_and_is_taken_up_again() {
    let streams = streams();
    let spoken = speak(&streams, true);
    spoken.outbox.send(message(b"1"));
    spoken.outbox.send(StreamItem::Pause);
    let before = all(spoken.receiver).await;
    assert_eq!(
        before,
        "id: 1-0\nretry: 1000\ndata: \n\nid: 1-1\ndata: 1\n\n"
    );
    let (receiver, outside) = streams.resume("1-1").expect("kept");
    assert!(!outside);
    spoken.answer.send(b"2".to_vec()).expect("it waits");
    assert_eq!(all(receiver).await, "id: 1-2\ndata: 2\n\n");
}

#[tokio::test]
async fn what_was_said_outside_of_calls_has_own_listener_by_whoever_comes_back() {
    let streams = streams();
    // Nobody ever listened: nobody can come back for it.
    streams.tell(b"0");
    let mut receiver = streams.listen(true);
    assert_eq!(
        next(&mut receiver).await,
        "id: 0-0\nretry: 1000\ndata: \n\n"
    );
    streams.tell(b"1");
    assert_eq!(next(&mut receiver).await, "id: 0-1\ndata: 1\n\n");
    drop(receiver);
    assert!(!streams.has_own_listener());
    streams.tell(b"2");
    let (mut receiver, outside) = streams.resume("0-1").expect("kept");
    assert!(outside && streams.has_own_listener());
    assert_eq!(next(&mut receiver).await, "id: 0-2\ndata: 2\n\n");
    streams.close_own_stream();
    assert_eq!(receiver.recv().await, None);
}

#[tokio::test]
async fn a_slow_listener_outside_of_calls_is_cut_off_and_misses_nothing_that_is_kept() {
    let streams = streams();
    let receiver = streams.listen(false);
    for _ in 0..OWN_UNREAD_MAX + 2 {
        streams.tell(b"1");
    }
    assert!(!streams.has_own_listener());
    drop(receiver);
    let last = OWN_UNREAD_MAX + 2;
    let (mut receiver, _) = streams.resume(&format!("0-{}", last - 1)).expect("kept");
    assert_eq!(
        next(&mut receiver).await,
        format!("id: 0-{last}\ndata: 1\n\n")
    );
}

/// P-R10: `limits.stream_buffer_kb` bounds what one listener leaves unread; the answer comes all the same.
#[tokio::test]
async fn whoever_reads_nothing_has_so_many_bytes_unread_and_the_answer() {
    let streams = Streams::new(Total::default(), 1000);
    let spoken = speak(&streams, false);
    for _ in 0..8 {
        spoken.outbox.send(message(&[b'1'; 300]));
    }
    spoken.answer.send(vec![b'2'; 5000]).expect("it waits");
    let receiver = all(spoken.receiver).await;
    assert_eq!(receiver.matches("data: 1").count(), 3);
    assert!(receiver.contains(&"2".repeat(5000)));
    // What was dropped on the way is there for whoever comes back.
    let (again, _) = streams.resume("1-3").expect("kept");
    assert_eq!(all(again).await.matches("data: 1").count(), 5);
}
