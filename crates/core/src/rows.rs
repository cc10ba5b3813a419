//! Rows of a set that go to the caller one by one, while the call runs.
//!
//! The backend holds the `RowSender`, the surface the receiver of its lines. Few lines are buffered between them, so a slow caller slows
//! the reading from the backend. The result of such a call says how many rows there were.
//!
//! Not here: which callers take rows (surfaces) and which operations have them (backends).

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::sync::mpsc;

use crate::fault::{Fault, Kind};

/// Rows are sent together when they come faster than they are taken, up to this size. A larger row is sent alone.
const PIECE_BYTES_MAX: usize = 64 * 1024;
/// Buffered pieces.
const PIECES_MAX: usize = 2;

/// The backend's end.
#[derive(Clone, Debug)]
pub struct RowSender {
    pieces: mpsc::Sender<Bytes>,
    /// How long a piece may wait for the caller.
    patience: Duration,
    waiting: BytesMut,
    sent: u64,
}

/// A channel for rows.
pub fn rows(patience: Duration) -> (RowSender, mpsc::Receiver<Bytes>) {
    let (pieces, receiver) = mpsc::channel(PIECES_MAX);
    let sender = RowSender {
        pieces,
        patience,
        waiting: BytesMut::new(),
        sent: 0,
    };
    (sender, receiver)
}

impl RowSender {
    /// How many rows were given.
    pub fn count(&self) -> u64 {
        self.sent
    }

    /// Gives a row: a JSON text without line breaks.
    pub async fn give(&mut self, row: &str) -> Result<(), Fault> {
        self.waiting.extend_from_slice(row.as_bytes());
        self.waiting.extend_from_slice(b"\n");
        self.sent += 1;
        if let Ok(place) = self.pieces.try_reserve() {
            place.send(self.waiting.split().freeze());
            return Ok(());
        }
        match self.waiting.len() < PIECE_BYTES_MAX {
            true => Ok(()),
            false => self.flush().await,
        }
    }

    /// Gives what waits.
    pub async fn flush(&mut self) -> Result<(), Fault> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let piece = self.waiting.split().freeze();
        match tokio::time::timeout(self.patience, self.pieces.send(piece)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Fault::new(
                Kind::Cancelled,
                "the caller left during its answer",
            )),
            Err(_) => Err(Fault::new(
                Kind::Cancelled,
                "the caller took its answer too slowly",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P-R10: what lies between a backend and a slow caller is bounded.
    #[tokio::test(start_paused = true)]
    async fn rows_wait_for_a_slow_caller_in_bounded_memory() {
        let (mut sender, mut receiver) = rows(Duration::from_secs(9));
        let row = "x".repeat(1023);
        let mut given = 0;
        let refused = loop {
            match sender.give(&row).await {
                Ok(()) => given += 1,
                Err(fault) => break fault,
            }
        };
        assert_eq!(refused.kind, Kind::Cancelled);
        assert_eq!(given, 2 + 63, "two lone rows, and a piece that waits");
        for _ in 0..PIECES_MAX {
            assert_eq!(receiver.recv().await.expect("a row").len(), 1024);
        }
        drop(receiver);
        assert!(sender.flush().await.is_ok(), "the piece was given up");
        sender.give(&row).await.expect("it waits");
        assert!(sender.flush().await.is_err());
    }
}
