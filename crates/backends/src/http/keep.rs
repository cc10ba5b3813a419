//! Runs an HTTP backend: detects the server, reads its lists, checks its health, reads the lists again when they
//! change.

mod notifications;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use sentinel_core::catalog::Change;
use sentinel_core::{Fault, Health};
use sentinel_wire::header::{self, AnnotationError};
use sentinel_wire::json::Rules;
use sentinel_wire::{Incoming, Message, Method, Payload, sse};
use tokio::task::JoinHandle;

use self::notifications::{keep_subscribed, listen};
use super::speak::{self, Speaker};
use super::upstream::Upstream;
use super::{Inner, Ready, State};
use crate::causes::with_causes;
use crate::discover::{self, Greeting, Lists, Peer};

/// Reconnect backoff: doubles from `RETRY_MIN` to `RETRY_MAX`.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// Longest wait until the notification stream is open in a new session.
const STREAM_OPEN_MAX: Duration = Duration::from_secs(5);
/// Bursts of `list_changed` within this time are read once.
const SETTLE: Duration = Duration::from_millis(100);

pub(super) async fn run(inner: &Arc<Inner>) {
    let mut stopped = inner.state.subscribe();
    let stop = async { drop(stopped.wait_for(|s| matches!(s, State::Stopped)).await) };
    tokio::select! {
        () = stop => {}
        () = keep(inner) => {}
        () = inner.post.tidy() => {}
    }
}

/// Ends our sessions at the server.
pub(super) async fn stop(inner: &Arc<Inner>) {
    let last = inner.state.send_replace(State::Stopped);
    let mut open = inner.sessions.drain();
    if let State::Ready(ready) = last {
        open.push(ready.base);
    }
    for upstream in &open {
        end_session(inner, upstream).await;
    }
}

/// Ends a session at the server. Best effort: a server that does not answer expires it by itself.
pub(super) async fn end_session(inner: &Inner, upstream: &Upstream) {
    if upstream.session.is_some() {
        let method = Method::Other("".into());
        let envelope = upstream.envelope(&method);
        let _ = tokio::time::timeout(Duration::from_secs(1), inner.post.delete(envelope)).await;
    }
}

async fn keep(inner: &Arc<Inner>) {
    let mut failures = 0u32;
    let mut pause = RETRY_MIN;
    loop {
        match find(inner).await {
            Ok(ready) => {
                failures = 0;
                pause = RETRY_MIN;
                let why = watch(inner, ready).await;
                inner.fail(&why);
                inner.publisher.withdraw();
            }
            Err(fault) => {
                failures += 1;
                inner.fail(&fault);
                if failures >= inner.config.unhealthy_after {
                    inner.publisher.withdraw();
                } else {
                    inner.publisher.tried();
                }
                pause = tokio::select! {
                    () = tokio::time::sleep(pause) => (pause * 2).min(RETRY_MAX),
                    () = inner.find_now.notified() => RETRY_MIN,
                };
            }
        }
    }
}

async fn find(inner: &Inner) -> Result<Ready, Fault> {
    let invalidations = inner.freshness.invalidations();
    let ready = speak::greet(inner).await?;
    let speaker = Speaker::within(inner, &ready.base);
    let _one_at_a_time = inner.freshness.reading.lock().await;
    let lists = read(inner, &speaker, &ready.greeting).await?;
    // Calls made right after the publication wait until the state is ready.
    inner.enter(State::Starting);
    // Published before calls may go: they were resolved against remembered lists, and are checked against these.
    inner.publisher.publish(lists.offer);
    match lists.tools_refused {
        None => inner.freshness.cover(invalidations),
        Some(_) => inner.freshness.invalidate(),
    }
    inner.enter(State::Ready(ready.clone()));
    inner.note(Health::Up, Some(ready.greeting.revision), None);
    tracing::info!(backend = %inner.config.name, revision = %ready.greeting.revision, "ready");
    Ok(ready)
}

/// Its lists, without tools whose header annotations break the rules: over HTTP those must not be
/// used.
pub(super) async fn read(
    inner: &Inner,
    speaker: &Speaker<'_>,
    greeting: &Greeting,
) -> Result<Lists, Fault> {
    let (name, before) = (&inner.config.name, inner.publisher.offer());
    let mut lists = discover::read_lists(speaker, greeting, name, before.as_deref()).await?;
    if let Some(why) = &lists.tools_refused {
        tracing::warn!(backend = %inner.config.name, "it does not give its list of tools, which is taken to be as it was: {why}");
    }
    lists.offer.tools.retain(|tool| {
        let schema = Payload::parse(tool.raw.clone(), Rules::backend())
            .ok()
            .and_then(|t| t.get_bytes("inputSchema"));
        let checked = header::annotations(&schema.unwrap_or_default());
        // A schema that is missing or not JSON is outside this rule.
        match checked {
            Err(AnnotationError::NotJson) | Ok(_) => true,
            Err(why) => {
                tracing::warn!(backend = %inner.config.name, tool = %tool.key, "left out: {why}");
                false
            }
        }
    });
    Ok(lists)
}

/// Watches a backend that is up; returns why it no longer is.
async fn watch(inner: &Arc<Inner>, ready: Ready) -> Fault {
    let reconnected = inner.was_found.swap(true, Ordering::Relaxed);
    let _listening = AbortOnDrop(tokio::spawn(listen(inner.clone(), reconnected)));
    let _subscribing = AbortOnDrop(tokio::spawn(keep_subscribed(inner.clone(), reconnected)));
    check_and_refresh(inner, ready).await
}

/// Aborts the task when it is dropped.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn check_and_refresh(inner: &Arc<Inner>, mut ready: Ready) -> Fault {
    let mut failures = 0;
    let mut next_ping = inner.config.health_interval;
    loop {
        let changed = tokio::select! {
            // A zero interval switches pings off.
            () = tokio::time::sleep(next_ping), if !next_ping.is_zero() => false,
            () = inner.refresh.notified() => {
                tokio::time::sleep(SETTLE).await;
                true
            }
        };
        // A call may have renewed the session meanwhile.
        if let State::Ready(current) = &*inner.state.borrow() {
            ready = current.clone();
        }
        // A server without an open notification stream announces no changes, so its lists are read in place of the
        // ping; a server without lists is pinged, since reading nothing would be no check.
        let can = &ready.greeting.capabilities;
        let lists = can.tools || can.resources || can.prompts;
        let untold = lists && inner.listening_in.borrow().is_none();
        let outcome = match changed || untold {
            true => {
                let _one_at_a_time = inner.freshness.reading.lock().await;
                inner.reread(&ready).await
            }
            false => ping(inner, &ready).await.map(|()| Reread::Published),
        };
        match outcome {
            Ok(read) => {
                failures = 0;
                next_ping = match read {
                    Reread::Refused(_) => inner.config.health_interval.min(RETRY_MAX),
                    Reread::Published | Reread::Renewed => inner.config.health_interval,
                };
                inner.note(Health::Up, None, None);
            }
            Err(fault) => {
                failures += 1;
                inner.note(Health::Failing, None, Some(fault.to_string()));
                // A failing server is checked again soon, not after the whole interval.
                next_ping = RETRY_MIN;
                if failures >= inner.config.unhealthy_after {
                    return fault;
                }
            }
        }
    }
}

async fn ping(inner: &Inner, ready: &Ready) -> Result<(), Fault> {
    let speaker = Speaker::within(inner, &ready.base);
    let revision = ready.greeting.revision;
    let method = if revision.is_modern() {
        Method::Discover
    } else {
        Method::Ping
    };
    // Any answer counts as alive, an error included.
    let outcome = speaker
        .request(method, discover::own_params(revision, ""))
        .await;
    if speaker.has_lost_session() {
        return inner.renew(ready, None, &ready.base).await;
    }
    outcome.map(drop).map_err(Fault::from)
}

/// Changes that the server announced and that are not published yet; put back if the reading is cancelled with its
/// call.
struct Announced<'a> {
    inner: &'a Inner,
    bits: u8,
}

impl<'a> Announced<'a> {
    fn take(inner: &'a Inner) -> Self {
        let bits = inner.announced.swap(0, Ordering::Relaxed);
        Self { inner, bits }
    }

    fn done(mut self) -> Vec<Change> {
        let bits = std::mem::take(&mut self.bits);
        let said = |change: &Change| bits & (1 << *change as u8) != 0;
        Change::ALL.into_iter().filter(said).collect()
    }
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        self.inner.announced.fetch_or(self.bits, Ordering::Relaxed);
    }
}

/// What came of reading the lists again.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reread {
    Published,
    /// The lists were published, but the server refused its tools: why.
    Refused(String),
    /// The session was unknown and has been renewed; the lists are not read in it yet.
    Renewed,
}

impl Inner {
    /// Reads the lists again and publishes them; the caller holds `Freshness::reading`.
    pub(super) async fn reread(&self, ready: &Ready) -> Result<Reread, Fault> {
        let invalidations = self.freshness.invalidations();
        let said = Announced::take(self);
        let speaker = Speaker::within(self, &ready.base);
        let lists = read(self, &speaker, &ready.greeting).await;
        if speaker.has_lost_session() {
            // Renewing the session reads the lists as well.
            self.renew(ready, None, &ready.base).await?;
            return Ok(Reread::Renewed);
        }
        let lists = lists?;
        self.publisher.publish_changed(lists.offer, &said.done());
        self.sessions.forget_tools();
        if let Some(why) = lists.tools_refused {
            self.freshness.invalidate();
            return Ok(Reread::Refused(why));
        }
        self.freshness.cover(invalidations);
        Ok(Reread::Published)
    }

    /// Whether this is still the base session.
    fn is_current(&self, base: &Arc<Upstream>) -> bool {
        matches!(&*self.state.borrow(), State::Ready(now) if Arc::ptr_eq(&now.base, base))
    }

    /// A decoder for streams without replies.
    pub(super) fn notices(&self) -> sse::Decoder {
        sse::Decoder::new(self.config.event_bytes_max)
    }

    /// Drops an event that exceeds the limit, and only that one.
    pub(super) fn within_limit(
        &self,
        event: Result<sse::Event, sse::SseError>,
    ) -> Option<sse::Event> {
        event.inspect_err(|error| self.warn_of_size(error.max)).ok()
    }

    pub(super) fn warn_of_size(&self, max: usize) {
        tracing::warn!(
            backend = %self.config.name,
            "dropped a message larger than the {max} bytes allowed (limits.event_mb)"
        );
    }

    fn on_event(&self, data: Bytes) {
        if let Ok(Incoming::One(Message::Notification(notice))) =
            Incoming::parse(data, Rules::backend())
        {
            self.on_notification(&notice.method, &notice.params);
        }
    }

    fn fail(&self, fault: &Fault) {
        self.enter(State::Failed);
        self.sessions.drain();
        let why = with_causes(fault);
        tracing::warn!(backend = %self.config.name, "not usable: {why}");
        self.note(Health::Down, None, Some(why));
    }
}
