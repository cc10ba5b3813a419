//! `subscriptions/listen` over HTTP: a stream that ends with a result when the gateway drains.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, stream};
use sentinel_wire::sse;

use crate::gateway::Gateway;
use crate::mcp::{Listener, SILENCE_MAX};

pub(super) fn events(
    gateway: Arc<Gateway>,
    listener: Listener,
) -> impl Stream<Item = Bytes> + Send + 'static {
    let first = framed([listener.acknowledgement()]);
    stream::unfold((Some(listener), Some(first)), move |(listener, first)| {
        let gateway = gateway.clone();
        async move {
            let mut listener = listener?;
            if let Some(first) = first {
                return Some((first, (Some(listener), None)));
            }
            loop {
                tokio::select! {
                    messages = listener.next() => {
                        let messages = messages?;
                        if !messages.is_empty() {
                            return Some((framed(messages), (Some(listener), None)));
                        }
                    }
                    () = tokio::time::sleep(SILENCE_MAX) => {
                        let mut out = Vec::new();
                        sse::push_keep_alive(&mut out);
                        return Some((out.into(), (Some(listener), None)));
                    }
                    () = gateway.drained() => {
                        return Some((framed([listener.farewell()]), (None, None)));
                    }
                }
            }
        }
    })
}

/// Messages as events, one after the other.
fn framed(messages: impl IntoIterator<Item = Vec<u8>>) -> Bytes {
    let mut out = Vec::new();
    for message in messages {
        sse::push_message(&mut out, &message);
    }
    out.into()
}
