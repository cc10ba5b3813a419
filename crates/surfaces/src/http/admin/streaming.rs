//! Endpoints whose answer goes on: server-sent events, and JSON Lines.
//!
//! A stream counts toward `limits.streams` and ends when its reader leaves, when its reader's identity ends
//! (`AccessEpoch::watch`) or may no longer use the admin API, and when the gateway drains. The next event is made when the connection has room for it, so a slow
//! reader slows its own stream and nothing is kept for it here.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, Stream, StreamExt};
use http::StatusCode;
use http::header::{CACHE_CONTROL, HeaderValue};
use hyper::body::Incoming;
use schemars::JsonSchema;
use sentinel_core::{Fault, Identity};
use sentinel_wire::sse;
use serde::Serialize;
use tokio::time::timeout;

use super::super::body::Body;
use super::super::exchange::Exchange;
use super::super::routes::{Handled, Who};
use super::super::{HttpServer, reply};
use super::FromRequest;
use crate::mcp::{SILENCE_MAX, Unfinished};

/// One event. Documents describe it as an object with its name (`event`) and its data (`data`).
pub(in crate::http) trait Event: JsonSchema + Send + 'static {
    fn name(&self) -> &'static str;

    /// As JSON.
    fn data(&self) -> Vec<u8>;
}

/// An endpoint that answers with events.
pub(in crate::http) trait EventEndpoint: 'static {
    type Input: FromRequest;
    type Event: Event;

    fn open(
        exchange: &Exchange<'_>,
        input: Self::Input,
    ) -> impl Future<Output = Result<BoxStream<'static, Self::Event>, Fault>> + Send;
}

/// An endpoint that answers with JSON Lines. A line that is an error cuts the connection, so that nobody takes the part
/// for the whole.
pub(in crate::http) trait LineEndpoint: 'static {
    type Input: FromRequest;
    type Line: Serialize + JsonSchema;

    fn open(
        exchange: &Exchange<'_>,
        input: Self::Input,
    ) -> impl Future<Output = Result<Lines<Self::Line>, Fault>> + Send;
}

/// Lines, several at a time.
pub(in crate::http) type Lines<T> = BoxStream<'static, Result<Vec<T>, Unfinished>>;

/// The data of an event.
pub(super) fn json(data: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(data).expect("events of the admin API are JSON")
}

pub(in crate::http) fn events<'a, E: EventEndpoint>(
    exchange: &'a Exchange<'a>,
    body: Incoming,
) -> Handled<'a> {
    async move {
        let input = E::Input::read(exchange, body).await?;
        let place = exchange.server.stream_place(exchange.identity())?;
        let events = E::open(exchange, input).await?;
        let (server, identity) = (exchange.server.clone(), exchange.identity().clone());
        Ok(reply::stream(place, written(server, identity, events)))
    }
    .boxed()
}

fn written<E: Event>(
    server: Arc<HttpServer>,
    identity: Arc<Identity>,
    events: BoxStream<'static, E>,
) -> impl Stream<Item = Bytes> + Send + 'static {
    let gateway = server.gateway.clone();
    let state = (events, server, identity);
    let chunks = stream::unfold(state, move |(mut events, server, identity)| async move {
        let mut out = Vec::new();
        let event = timeout(SILENCE_MAX, events.next()).await;
        server.authorize(Who::Admin, Some(&identity)).ok()?;
        match event {
            Ok(event) => {
                let event = event?;
                sse::push_event(&mut out, None, Some(event.name()), &event.data());
            }
            Err(_) => sse::push_keep_alive(&mut out),
        }
        Some((Bytes::from(out), (events, server, identity)))
    });
    chunks.take_until(async move { gateway.drained().await })
}

pub(in crate::http) fn lines<'a, E: LineEndpoint>(
    exchange: &'a Exchange<'a>,
    body: Incoming,
) -> Handled<'a> {
    async move {
        let input = E::Input::read(exchange, body).await?;
        let place = exchange.server.stream_place(exchange.identity())?;
        let lines = E::open(exchange, input).await?;
        let pieces = lines.map(move |lines| {
            let _counted = &place;
            let mut out = Vec::new();
            for line in lines? {
                serde_json::to_writer(&mut out, &line).expect("lines of the admin API are JSON");
                out.push(b'\n');
            }
            Ok(Bytes::from(out))
        });
        let body = Body::message(pieces);
        let mut response = reply::with_type(StatusCode::OK, "application/x-ndjson", body);
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(response)
    }
    .boxed()
}
