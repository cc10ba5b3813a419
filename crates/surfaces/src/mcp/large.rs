//! An answer that is sent while it is received.
//!
//! A transport that can write pieces takes its `flow`: the pieces, and the rest of the call, which must be polled to
//! produce them. The last byte waits until the call has ended and is on record, so a complete answer has its record,
//! and the answer of a failed call is never complete. Other transports take it `gathered`.

use bytes::Bytes;
use futures_util::stream::{self, Stream};
use sentinel_core::{Beginning, Conversation, Fault, Reply, Step};
use tokio::sync::{mpsc, oneshot};

use crate::exchange::MessageExchange;

/// The call failed after its answer had begun; the part that was sent is invalid.
#[derive(Debug, thiserror::Error)]
#[error("the answer could not be finished")]
pub(crate) struct Unfinished;

/// An answer that has begun, the call that produces its rest, and its exchange.
pub(crate) struct Large {
    exchange: MessageExchange,
    beginning: Beginning,
    talk: Conversation,
}

const END: &[u8] = b"}";

impl Large {
    pub(crate) fn new(exchange: MessageExchange, beginning: Beginning, talk: Conversation) -> Self {
        Self {
            exchange,
            beginning,
            talk,
        }
    }

    /// The part of the message before the result.
    fn front(&self) -> Vec<u8> {
        let id = self.exchange.id().as_bytes();
        [br#"{"jsonrpc":"2.0","id":"#, id, br#","result":"#].concat()
    }

    /// The whole message, for transports that cannot send pieces.
    pub(crate) async fn gathered(self) -> Vec<u8> {
        let mut out = self.front();
        let Self {
            exchange,
            mut beginning,
            mut talk,
        } = self;
        out.extend_from_slice(&beginning.first);
        let mut done = None;
        // The call progresses only while it is polled, and its pieces are buffered between it and this function.
        loop {
            tokio::select! {
                biased;
                piece = beginning.rest.recv() => match piece {
                    Some(piece) => out.extend_from_slice(&piece),
                    None => break,
                },
                outcome = over(&mut talk), if done.is_none() => done = Some(outcome),
            }
        }
        let outcome = match done {
            Some(outcome) => outcome,
            None => over(&mut talk).await,
        };
        match &outcome {
            Ok(_) => out.extend_from_slice(END),
            Err(fault) => out = exchange.failure(fault),
        }
        exchange.ended(&outcome, out.len());
        out
    }

    /// The message in pieces, and the future that produces them. Dropping either ends the call.
    pub(crate) fn flow(
        self,
    ) -> (
        impl Stream<Item = Result<Bytes, Unfinished>> + Send + 'static,
        impl Future<Output = ()> + Send + 'static,
    ) {
        let front = self.front();
        let Self {
            exchange,
            mut beginning,
            mut talk,
        } = self;
        let (recorded, good) = oneshot::channel();
        let (count, around) = (beginning.count(), front.len());
        let driven = async move {
            let outcome = over(&mut talk).await;
            let handed = around + count.get();
            match &outcome {
                Ok(_) => {
                    exchange.ended(&outcome, handed + END.len());
                    let _ = recorded.send(());
                }
                Err(fault) => {
                    tell(fault, handed);
                    exchange.ended(&outcome, handed);
                }
            }
        };
        let first = std::mem::take(&mut beginning.first);
        let pieces = Pieces {
            front: [Bytes::from(front), first].into_iter(),
            rest: beginning.rest,
            good: Some(good),
        };
        (stream::unfold(pieces, Pieces::next), driven)
    }
}

/// Runs a call to its end. Notices during its answer are dropped.
async fn over(talk: &mut Conversation) -> Result<Reply, Fault> {
    loop {
        if let Step::Done(outcome) = talk.next().await {
            return outcome;
        }
    }
}

fn tell(fault: &Fault, handed: usize) {
    let kind = fault.kind.as_str();
    let cause = std::error::Error::source(fault).map(|cause| cause.to_string());
    match fault.side() {
        sentinel_core::Side::Caller => {
            tracing::debug!(kind, handed, "an answer ended early: {fault}");
        }
        _ => tracing::warn!(kind, handed, cause, "an answer ended early: {fault}"),
    }
}

struct Pieces {
    front: std::array::IntoIter<Bytes, 2>,
    rest: mpsc::Receiver<Bytes>,
    /// Whether the call succeeded; `None` once that was reported.
    good: Option<oneshot::Receiver<()>>,
}

impl Pieces {
    async fn next(mut self) -> Option<(Result<Bytes, Unfinished>, Self)> {
        let next = match self.front.next() {
            Some(piece) => Some(piece),
            None => self.rest.recv().await,
        };
        if let Some(piece) = next {
            return Some((Ok(piece), self));
        }
        let last = match self.good.take()?.await {
            Ok(()) => Ok(Bytes::from_static(END)),
            Err(_) => Err(Unfinished),
        };
        Some((last, self))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use futures_util::{FutureExt, StreamExt};
    use sentinel_core::admission::PermitSlot;
    use sentinel_core::{Event, Kind, Line};
    use sentinel_wire::json::Rules;
    use sentinel_wire::{Id, Outcome, Payload, Revision};

    use super::*;

    /// A call that answers with these pieces, and ends well or not.
    async fn large(pieces: &'static [&'static str], good: bool) -> Large {
        let (line, events) = Line::open(PermitSlot::default(), 1024);
        let reply = Box::pin(async move {
            let (first, rest) = pieces.split_first().expect("a piece");
            let feed = line.begin(Bytes::from_static(first.as_bytes()), Duration::MAX);
            for piece in rest {
                feed.give(Bytes::from_static(piece.as_bytes())).await?;
            }
            match good {
                true => Ok(Reply {
                    revision: Revision::NEWEST,
                    outcome: Outcome::Result(
                        Payload::parse(Bytes::from_static(b"{}"), Rules::backend()).expect("JSON"),
                    ),
                }),
                false => Err(Fault::new(Kind::BackendBadReply, "broken")),
            }
        });
        let mut talk = Conversation::new(reply, events, Arc::default(), PermitSlot::default());
        let Step::Event(Event::Begins(beginning)) = talk.next().await else {
            panic!("it begins")
        };
        let exchange = MessageExchange::unrecorded(Id::from_number(7), Revision::NEWEST);
        Large::new(exchange, *beginning, talk)
    }

    const PIECES: &[&str] = &["{", r#""a":1"#, r#","b":"#, "2", "}"];
    const WHOLE: &str = r#"{"jsonrpc":"2.0","id":7,"result":{"a":1,"b":2}}"#;

    /// Where an answer became a stream of events before, it must come as one event.
    #[tokio::test]
    async fn an_answer_that_cannot_go_out_in_pieces_is_gathered_or_fails_whole() {
        let whole = large(PIECES, true).await.gathered().await;
        assert_eq!(String::from_utf8_lossy(&whole), WHOLE);
        let refused = large(PIECES, false).await.gathered().await;
        let refused = String::from_utf8_lossy(&refused);
        assert!(refused.contains("backend_bad_reply"), "{refused}");
    }

    #[tokio::test]
    async fn the_last_byte_waits_for_the_end_of_the_call() {
        for good in [true, false] {
            let (pieces, driven) = large(PIECES, good).await.flow();
            let mut pieces = std::pin::pin!(pieces);
            let mut said = Vec::new();
            // Some of it is there at once; without the call there is no more.
            while let Some(piece) = pieces.next().now_or_never() {
                said.extend(piece.expect("more comes").expect("a good piece"));
            }
            let driven = tokio::spawn(driven);
            let mut cut = false;
            while let Some(piece) = pieces.next().await {
                match piece {
                    Ok(piece) => said.extend(piece),
                    Err(Unfinished) => cut = true,
                }
            }
            driven.await.expect("it ends");
            let said = String::from_utf8_lossy(&said);
            assert_eq!((said == WHOLE, cut), (good, !good), "{said}");
        }
    }
}
