//! A reply that is streamed to the caller while it is received.
//!
//! The backend holds the `Feed`, the surface the `Beginning`. A few pieces are buffered between them, so a slow
//! caller slows the reading from the backend. The call continues meanwhile with its permit, its circuit and under the
//! kill switch, and its outcome says how the reply ended; until then the reply is not known to be valid.
//!
//! Not here: which replies may be streamed (`Call::patience` and the connector).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::fault::{Fault, Kind};

/// Largest piece.
pub const PIECE_BYTES_MAX: usize = 64 * 1024;
/// Buffered pieces: one is written while the next one is read.
const PIECES_MAX: usize = 2;

/// The surface's end.
#[derive(Debug)]
pub struct Beginning {
    /// The beginning of the result.
    pub first: Bytes,
    /// The rest of the result; ends when the backend's end is dropped, in success or failure.
    pub rest: mpsc::Receiver<Bytes>,
    handed: Arc<AtomicUsize>,
}

impl Beginning {
    /// The number of bytes passed on, once the reply has ended.
    pub fn count(&self) -> Count {
        Count(self.handed.clone())
    }
}

/// Counter of the bytes passed on.
pub struct Count(Arc<AtomicUsize>);

impl Count {
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// The backend's end.
pub struct Feed {
    rest: mpsc::Sender<Bytes>,
    patience: Duration,
    handed: Arc<AtomicUsize>,
}

pub(crate) fn feed(first: Bytes, patience: Duration) -> (Feed, Beginning) {
    let (sender, rest) = mpsc::channel(PIECES_MAX);
    let handed = Arc::new(AtomicUsize::new(first.len()));
    let feed = Feed {
        rest: sender,
        patience,
        handed: handed.clone(),
    };
    let beginning = Beginning {
        first,
        rest,
        handed,
    };
    (feed, beginning)
}

impl Feed {
    /// Passes on the next bytes once there is room for them.
    pub async fn give(&self, mut bytes: Bytes) -> Result<(), Fault> {
        while !bytes.is_empty() {
            let piece = bytes.split_to(bytes.len().min(PIECE_BYTES_MAX));
            let len = piece.len();
            self.send(piece).await?;
            self.handed.fetch_add(len, Ordering::Relaxed);
        }
        Ok(())
    }

    async fn send(&self, piece: Bytes) -> Result<(), Fault> {
        let piece = match self.rest.try_send(piece) {
            Ok(()) => return Ok(()),
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(left()),
            Err(mpsc::error::TrySendError::Full(piece)) => piece,
        };
        match tokio::time::timeout(self.patience, self.rest.send(piece)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(left()),
            Err(_) => Err(Fault::new(
                Kind::Cancelled,
                "the caller took its answer too slowly",
            )),
        }
    }

    /// Resolves when the surface dropped its end.
    pub async fn unwanted(&self) -> Fault {
        self.rest.closed().await;
        left()
    }
}

fn left() -> Fault {
    Fault::new(Kind::Cancelled, "the caller left during its answer")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P-R10: what lies between a backend and a slow caller is bounded.
    #[tokio::test(start_paused = true)]
    async fn a_caller_who_does_not_read_is_waited_for_with_two_pieces_in_between() {
        let patience = Duration::from_secs(9);
        let (feed, mut beginning) = feed(Bytes::from_static(b"first"), patience);
        let large = Bytes::from(vec![b'x'; 5 * PIECE_BYTES_MAX + 1]);
        let began = tokio::time::Instant::now();
        let refused = feed.give(large).await.expect_err("nobody reads");
        assert_eq!(refused.kind, Kind::Cancelled);
        assert!(began.elapsed() >= patience);
        assert_eq!(beginning.count().get(), 5 + 2 * PIECE_BYTES_MAX);
        drop(feed);
        for _ in 0..2 {
            let piece = beginning.rest.recv().await.expect("a piece");
            assert_eq!(piece.len(), PIECE_BYTES_MAX);
        }
        assert!(beginning.rest.recv().await.is_none());
    }

    #[tokio::test]
    async fn whoever_leaves_is_not_waited_for() {
        let (feed, beginning) = feed(Bytes::new(), Duration::MAX);
        drop(beginning);
        assert_eq!(feed.unwanted().await.kind, Kind::Cancelled);
        assert!(feed.give(Bytes::from_static(b"x")).await.is_err());
    }
}
