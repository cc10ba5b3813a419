//! Where messages to the caller of one call go: progress, log lines and questions, before the answer.

use sentinel_core::queue::{Sender, Weighted};
use tokio::sync::mpsc;

/// One item on the event stream of a call.
#[derive(Debug)]
pub(crate) enum StreamItem {
    /// A JSON-RPC message, ready to be framed.
    Message(Vec<u8>),
    /// The backend's stream can be resumed: the answer becomes a stream as well.
    Primed,
    /// The backend closed its stream to be polled: the caller's is closed as well, and the caller resumes it.
    Pause,
}

/// Only the number of items is bounded here, since they wait while a caller is being asked; the line before this
/// queue bounds their size.
impl Weighted for StreamItem {
    fn weight(&self) -> usize {
        0
    }
}

/// Never blocks: when the caller does not read, messages are dropped. The answer is sent separately.
pub(crate) enum CallerSink {
    /// The event stream of the call's own POST. Only a resumable one carries `Primed` and `Pause`.
    Stream {
        items: Sender<StreamItem>,
        resumable: bool,
    },
    /// The queue that all calls of a connection share.
    Shared(mpsc::Sender<Vec<u8>>),
}

impl CallerSink {
    pub(crate) fn send(&self, message: Vec<u8>) {
        match self {
            Self::Stream { items, .. } => items.send(StreamItem::Message(message)),
            Self::Shared(outbox) => drop(outbox.try_send(message)),
        }
    }

    /// Sends `Primed` or `Pause`, where the caller can resume its stream.
    pub(crate) fn signal(&self, item: StreamItem) {
        if let Self::Stream {
            items,
            resumable: true,
        } = self
        {
            items.send(item);
        }
    }
}
