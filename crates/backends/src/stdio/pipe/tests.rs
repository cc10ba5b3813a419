//! Ids, cancellation and the end of a process, against a child made of an in-memory stream.

use proptest::prelude::*;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader, duplex};
use tokio::sync::oneshot;

use super::*;

type Reply = oneshot::Sender<u64>;

fn request(id: u64, out: &mut Vec<u8>) {
    sentinel_wire::envelope::write_request(id.to_string().as_bytes(), "m", b"{}", out);
}

async fn begin(pipe: &Arc<Pipe<Reply>>) -> (Ticket<Reply>, oneshot::Receiver<u64>) {
    let (sender, receiver) = oneshot::channel();
    (pipe.begin(sender, request).await.unwrap(), receiver)
}

/// All queued lines, as the child would read them.
async fn written(pipe: &Pipe<Reply>) -> Vec<Value> {
    pipe.finish();
    let mut out = Vec::new();
    pipe.write_to(&mut out).await.unwrap();
    let lines = out.split(|b| *b == b'\n').filter(|line| !line.is_empty());
    lines
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

#[tokio::test]
async fn g_56_answers_in_any_order_reach_their_own_callers() {
    let pipe = Pipe::new();
    let mut calls = Vec::new();
    for _ in 0..10 {
        calls.push(begin(&pipe).await);
    }
    for (ticket, _) in calls.iter().rev() {
        let reply = pipe.take(Some(ticket.id())).unwrap();
        reply.send(ticket.id() * 100).unwrap();
    }
    for (ticket, answer) in calls {
        assert_eq!(answer.await, Ok(ticket.id() * 100));
    }
    assert_eq!(
        (
            pipe.count(|_| true),
            pipe.seen().answered,
            pipe.seen().strays
        ),
        (0, 10, 0)
    );
}

#[tokio::test]
async fn unknown_late_and_repeated_ids_are_dropped_and_counted() {
    let pipe = Pipe::new();
    let (first, _answer) = begin(&pipe).await;
    let (late, _gone) = begin(&pipe).await;
    let (first_id, late_id) = (first.id(), late.id());
    drop(late);
    assert!(pipe.take(Some(first_id)).is_some());
    for stray in [Some(first_id), Some(late_id), Some(99), None] {
        assert!(pipe.take(stray).is_none());
    }
    assert_eq!(pipe.seen().strays, 4);
}

#[tokio::test]
async fn a_caller_that_leaves_is_cancelled_once_and_only_before_its_answer() {
    let pipe = Pipe::new();
    let (answered, _a) = begin(&pipe).await;
    let (left, _b) = begin(&pipe).await;
    let left_id = left.id();
    pipe.take(Some(answered.id())).unwrap();
    drop(answered);
    drop(left);
    assert_eq!(pipe.count(|_| true), 0);
    let lines = written(&pipe).await;
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert_eq!(lines[2]["method"], "notifications/cancelled");
    assert_eq!(lines[2]["params"]["requestId"], left_id);
}

#[tokio::test]
async fn a_dead_child_fails_its_waiting_calls_at_once() {
    let pipe = Pipe::new();
    let (_ticket, answer) = begin(&pipe).await;
    pipe.close();
    assert!(answer.await.is_err());
    let (sender, _receiver) = oneshot::channel();
    assert_eq!(pipe.begin(sender, request).await.unwrap_err(), Closed);
}

#[tokio::test]
async fn everything_queued_goes_out_in_one_write() {
    struct Counting(Arc<Mutex<Vec<usize>>>);
    impl AsyncWrite for Counting {
        fn poll_write(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            bytes: &[u8],
        ) -> std::task::Poll<io::Result<usize>> {
            self.0.lock().push(bytes.len());
            std::task::Poll::Ready(Ok(bytes.len()))
        }
        fn poll_flush(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            std::task::Poll::Ready(Ok(()))
        }
        fn poll_shutdown(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            std::task::Poll::Ready(Ok(()))
        }
    }
    let pipe = Pipe::new();
    let mut calls = Vec::new();
    for _ in 0..100 {
        calls.push(begin(&pipe).await);
    }
    pipe.finish();
    let writes = Arc::new(Mutex::new(Vec::new()));
    pipe.write_to(Counting(Arc::clone(&writes))).await.unwrap();
    assert_eq!(writes.lock().len(), 1, "{:?}", writes.lock());
}

#[tokio::test(start_paused = true)]
async fn g_77_a_child_that_does_not_read_makes_callers_wait_not_memory_grow() {
    let pipe: Arc<Pipe<Reply>> = Pipe::new();
    let large = |id: u64, out: &mut Vec<u8>| {
        request(id, out);
        out.extend_from_slice(&[b' '; 100 * 1024]);
    };
    let mut tickets = Vec::new();
    let filled = async {
        loop {
            let (sender, _) = oneshot::channel();
            tickets.push(pipe.begin(sender, large).await.unwrap());
        }
    };
    let limit = std::time::Duration::from_secs(1);
    assert!(
        tokio::time::timeout(limit, filled).await.is_err(),
        "the queue has no end"
    );
    assert!(pipe.state.lock().queued.len() < QUEUED_MAX + 200 * 1024);

    // Once the child reads again, the waiting calls go on.
    let (sender, _receiver) = oneshot::channel();
    let waiting = pipe.begin(sender, large);
    let mut sink = tokio::io::sink();
    tokio::select! {
        ticket = waiting => assert!(ticket.is_ok()),
        _ = pipe.write_to(&mut sink) => panic!("the pipe is not finished"),
    }
}

#[tokio::test]
async fn g_77_a_child_that_asks_without_end_and_does_not_read_costs_a_bounded_queue() {
    let pipe: Arc<Pipe<Reply>> = Pipe::new();
    for _ in 0..1000 {
        pipe.post(|out| out.extend_from_slice(&[b' '; 10 * 1024]));
    }
    assert!(pipe.state.lock().queued.len() < 2 * QUEUED_MAX + 20 * 1024);
}

#[tokio::test]
async fn a_request_with_line_ends_between_its_tokens_stays_one_line() {
    let pipe: Arc<Pipe<Reply>> = Pipe::new();
    pipe.post(|out| out.extend_from_slice(b"{\r\n\"a\":\n1}"));
    assert_eq!(written(&pipe).await, [serde_json::json!({"a": 1})]);
}

#[tokio::test]
async fn lines_are_read_to_the_end_and_long_ones_are_attributed() {
    let long = format!(
        r#"{{"jsonrpc":"2.0","id":5,"result":"{}"}}"#,
        "x".repeat(200_000)
    );
    let text = format!("{{\"a\":1}}\n\n{long}\n{{\"b\":2}}\nunfinished");
    let (mut near, far) = duplex(1000);
    let writer = tokio::spawn(async move { near.write_all(text.as_bytes()).await });
    let mut seen = Vec::new();
    let on_line = |line| {
        seen.push(match line {
            Line::Whole(line) => String::from_utf8(line.to_vec()).unwrap(),
            Line::TooLong { id, .. } => format!("too long: {id:?}"),
        })
    };
    read_lines(far, 100_000, on_line).await.unwrap();
    writer.await.unwrap().unwrap();
    assert_eq!(
        seen,
        ["{\"a\":1}", "too long: Some(5)", "{\"b\":2}", "unfinished"]
    );
}

#[tokio::test]
async fn finishing_writes_what_is_queued_and_then_ends_the_input() {
    let pipe = Pipe::new();
    let (_ticket, _answer) = begin(&pipe).await;
    let (near, far) = duplex(1000);
    pipe.finish();
    pipe.write_to(near).await.unwrap();
    let mut lines = BufReader::new(far).lines();
    assert!(
        lines
            .next_line()
            .await
            .unwrap()
            .unwrap()
            .contains("\"id\":1")
    );
    assert_eq!(lines.next_line().await.unwrap(), None);
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Begin,
    Answer(usize),
    Cancel(usize),
    Close,
}

proptest! {
    #[test]
    fn any_mix_of_calls_answers_and_cancels_ends_every_call_exactly_once(
        steps in prop::collection::vec(
            prop_oneof![
                5 => Just(Step::Begin),
                4 => (0usize..20).prop_map(Step::Answer),
                2 => (0usize..20).prop_map(Step::Cancel),
                1 => Just(Step::Close),
            ],
            0..100,
        ),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let pipe: Arc<Pipe<Reply>> = Pipe::new();
            let mut calls: Vec<(Option<Ticket<Reply>>, oneshot::Receiver<u64>)> = Vec::new();
            let mut open = true;
            let mut expected = std::collections::HashMap::new();
            for step in steps {
                match step {
                    Step::Begin => {
                        let (sender, receiver) = oneshot::channel();
                        match pipe.begin(sender, request).await {
                            Ok(ticket) => calls.push((Some(ticket), receiver)),
                            Err(Closed) => assert!(!open),
                        }
                    }
                    Step::Answer(n) => {
                        if let Some(reply) = pipe.take(Some(n as u64)) {
                            assert!(expected.insert(n as u64, true).is_none(), "answered twice");
                            let _ = reply.send(n as u64);
                        }
                    }
                    Step::Cancel(n) => {
                        if let Some((ticket, _)) = calls.get_mut(n) {
                            *ticket = None;
                        }
                    }
                    Step::Close => {
                        open = false;
                        pipe.close();
                    }
                }
            }
            pipe.close();
            assert_eq!(pipe.count(|_| true), 0);
            for (i, (_, mut answer)) in calls.into_iter().enumerate() {
                let id = i as u64 + 1;
                match answer.try_recv() {
                    Ok(value) => assert!(value == id && expected.contains_key(&id)),
                    Err(oneshot::error::TryRecvError::Closed) => assert!(!expected.contains_key(&id)),
                    Err(oneshot::error::TryRecvError::Empty) => panic!("call {id} waits for ever"),
                }
            }
        });
    }
}
