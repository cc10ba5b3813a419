//! `subscriptions/listen` over HTTP: a stream that ends with a result when we go down.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use http::Response;
use sentinel_core::{Caller, Fault, View};
use sentinel_wire::{Request, sse};

use super::Door;
use super::body::Body;
use crate::mcp::{Listener, SILENCE_MAX};

pub(super) async fn open(
    door: &Arc<Door>,
    caller: Caller,
    view: View,
    request: Request,
) -> Result<Response<Body>, Fault> {
    let gateway = door.gateway.clone();
    let listener = Listener::open(&gateway, Arc::new(caller), view, request).await?;
    let first = framed([listener.acknowledgement()]);
    let events = stream::unfold((Some(listener), Some(first)), move |(listener, first)| {
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
    });
    Ok(door.events(events))
}

/// Messages as events, one after the other.
fn framed(messages: impl IntoIterator<Item = Vec<u8>>) -> Bytes {
    let mut out = Vec::new();
    for message in messages {
        sse::push_message(&mut out, &message);
    }
    out.into()
}
