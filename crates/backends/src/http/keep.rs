//! Keeping an HTTP backend: find it, read its lists, watch it, read them again when they change.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use sentinel_core::catalog::Change;
use sentinel_core::{Fault, Health};
use sentinel_wire::envelope::{METHOD_NOT_FOUND, write_request};
use sentinel_wire::header::{self, AnnotationError};
use sentinel_wire::json::Rules;
use sentinel_wire::{Incoming, Message, Method, Outcome, Payload, sse};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::post::{Answer, Envelope, Stream};
use super::speak::{self, Speaker};
use super::upstream::Upstream;
use super::{Inner, Ready, State};
use crate::discover::{self, Greeting, Lists, Peer};

/// First and longest pause between attempts to reach a server.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// How long it may take until the server's stream is open in a new session.
const HEARD_MAX: Duration = Duration::from_secs(5);
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

/// Ends a session at the server. A courtesy: a server that does not answer expires it by itself.
pub(super) async fn end_session(inner: &Inner, upstream: &Upstream) {
    let envelope = Envelope {
        method: &Method::Other("".into()),
        name: None,
        revision: Some(upstream.revision),
        session: upstream.session.as_ref(),
        extra: &[],
    };
    if upstream.session.is_some() {
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
    let doubts = inner.doubt.raised();
    let ready = speak::greet(inner).await?;
    let speaker = Speaker::within(inner, &ready.base);
    let _one_at_a_time = inner.doubt.looking.lock().await;
    let lists = read(inner, &speaker, &ready.greeting).await?;
    // Whoever hears the news and calls at once waits for the moment until it is ready.
    inner.turn(State::Starting);
    // Before calls may go: they were found by what was remembered, and are confirmed by this.
    inner.publisher.publish(lists.offer);
    match lists.tools_refused {
        None => inner.doubt.settle(doubts),
        Some(_) => inner.doubt.raise(),
    }
    inner.turn(State::Ready(ready.clone()));
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
        // A schema that is missing or no JSON is not this rule's business.
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
    let again = inner.was_found.swap(true, Ordering::Relaxed);
    let _listening = Beside(tokio::spawn(listen(inner.clone(), again)));
    let _subscribing = Beside(tokio::spawn(keep_subscribed(inner.clone(), again)));
    pings_and_changes(inner, ready).await
}

/// A task that ends with whoever started it, also when that one is dropped.
struct Beside(JoinHandle<()>);

impl Drop for Beside {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn pings_and_changes(inner: &Arc<Inner>, mut ready: Ready) -> Fault {
    let mut failures = 0;
    let mut next_ping = inner.config.health_interval;
    loop {
        let changed = tokio::select! {
            // No interval, no pings.
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
        // Nothing is heard of the changes of a server that has no stream open, so reading its lists takes the place of
        // the ping; one that lists nothing would not be asked anything by that.
        let can = &ready.greeting.capabilities;
        let lists = can.tools || can.resources || can.prompts;
        let untold = lists && inner.heard_in.borrow().is_none();
        let outcome = match changed || untold {
            true => {
                let _one_at_a_time = inner.doubt.looking.lock().await;
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
                // A failing server is looked at again soon, not after the whole interval.
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
    // Any answer is a sign of life, an error included.
    let outcome = speaker
        .request(method, discover::own_params(revision, ""))
        .await;
    if speaker.has_lost_session() {
        return inner.renew(ready, None, &ready.base).await;
    }
    outcome.map(drop).map_err(Fault::from)
}

/// What the server said has changed, until callers are told: whoever reads the lists for a call may leave with it.
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
    /// The same, but the server did not give its tools, and why.
    Refused(String),
    /// The session was forgotten; there is a new one, in which they were not read yet.
    Renewed,
}

/// Keeps our subscriptions at a legacy server in step with what callers want, in whatever session we have. A modern
/// server is told with each `subscriptions/listen`. After a gap those who follow something are told that it changed, for
/// it may have, and a subscription that is refused now can be noticed in no other way.
async fn keep_subscribed(inner: Arc<Inner>, mut gap: bool) {
    let mut changes = inner.publisher.wanted_changes();
    let mut states = inner.state.subscribe();
    let mut subscribed: HashSet<Arc<str>> = HashSet::new();
    let mut at: Option<Arc<Upstream>> = None;
    loop {
        changes.borrow_and_update();
        let State::Ready(ready) = states.borrow_and_update().clone() else {
            return;
        };
        if ready.base.revision.is_modern() || !ready.greeting.capabilities.subscribe {
            return;
        }
        if at.as_ref().is_none_or(|at| !Arc::ptr_eq(at, &ready.base)) {
            // Another session: it knows nothing of what was asked of the one before.
            gap |= at.is_some();
            subscribed.clear();
            at = Some(ready.base.clone());
        }
        let wanted: HashSet<Arc<str>> = inner.publisher.wanted().into_iter().collect();
        let speaker = Speaker::within(&inner, &ready.base);
        for uri in wanted.difference(&subscribed) {
            if let Err(why) = speaker.tell(Method::ResourcesSubscribe, uri).await {
                tracing::warn!(backend = %inner.config.name, %uri, "could not subscribe: {why}");
            }
        }
        for uri in subscribed.difference(&wanted) {
            if let Err(why) = speaker.tell(Method::ResourcesUnsubscribe, uri).await {
                tracing::debug!(backend = %inner.config.name, %uri, "could not unsubscribe: {why}");
            }
        }
        if speaker.has_lost_session() && inner.renew(&ready, None, &ready.base).await.is_ok() {
            continue;
        }
        subscribed = wanted;
        if std::mem::take(&mut gap) {
            let here = |heard: &Option<Arc<Upstream>>| {
                heard
                    .as_ref()
                    .is_some_and(|at| Arc::ptr_eq(at, &ready.base))
            };
            // From then on nothing is missed any more; a server without such a stream says nothing anyway.
            let mut heard_in = inner.heard_in.subscribe();
            let _ = timeout(HEARD_MAX, heard_in.wait_for(here)).await;
            inner.publisher.missed_resources().await;
        }
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            _ = states.changed() => {}
        }
    }
}

/// Hears what the server says of its own accord: on the GET stream of a legacy session, or by
/// `subscriptions/listen`. `gap` if it was heard before.
async fn listen(inner: Arc<Inner>, mut gap: bool) {
    let mut pause = RETRY_MIN;
    let mut heard_at: Option<Arc<Upstream>> = None;
    loop {
        let State::Ready(ready) = inner.state.borrow().clone() else {
            return;
        };
        let base = &ready.base;
        let same = heard_at.as_ref().is_some_and(|at| Arc::ptr_eq(at, base));
        // In another legacy session `keep_subscribed` has to subscribe first.
        gap = match base.revision.is_modern() {
            true => gap || heard_at.is_some(),
            false => same,
        };
        let heard = hear(&inner, &ready, gap).await;
        if inner.heard_in.send_replace(None).is_some() {
            inner.doubt.raise();
            heard_at = Some(base.clone());
        }
        match heard {
            Heard::NotOffered => {
                // Nobody need wait for what never comes.
                inner.publisher.told(u64::MAX);
                return;
            }
            Heard::Ended if !inner.is_current(base) => {
                pause = RETRY_MIN;
                continue;
            }
            Heard::Ended => pause = RETRY_MIN,
            // Where it was never heard, it may be the stream that the server does not know.
            Heard::Lost if same && inner.renew(&ready, None, base).await.is_ok() => {
                pause = RETRY_MIN;
                continue;
            }
            Heard::Lost | Heard::Failed => pause = (pause * 2).min(RETRY_MAX),
        }
        tokio::time::sleep(pause).await;
        // Whatever was said in between was lost.
        inner.publisher.missed();
        inner.refresh.notify_one();
    }
}

enum Heard {
    NotOffered,
    Ended,
    Failed,
    /// The server does not know our session.
    Lost,
}

async fn hear(inner: &Inner, ready: &Ready, gap: bool) -> Heard {
    let modern = ready.base.revision.is_modern();
    let mut wishes = inner.publisher.wanted_changes();
    let wish = *wishes.borrow_and_update();
    let mut stream = match open(inner, ready).await {
        Ok(stream) => stream,
        Err(heard) => return heard,
    };
    inner.heard_in.send_replace(Some(ready.base.clone()));
    inner.publisher.told(wish);
    // What changed after the lists were read and before this was said to nobody.
    inner.refresh.notify_one();
    if gap {
        inner.publisher.missed();
        inner.publisher.missed_resources().await;
    }
    let mut decoder = inner.notices();
    loop {
        let chunk = tokio::select! {
            chunk = stream.chunk(&inner.post) => chunk,
            // Callers want to hear of other resources. The new stream is there before the old one
            // goes; what the old one had said and nobody read is read from the lists.
            Ok(()) = wishes.changed(), if modern => {
                let wish = *wishes.borrow();
                stream = match open(inner, ready).await {
                    Ok(stream) => stream,
                    Err(heard) => return heard,
                };
                inner.publisher.told(wish);
                decoder = inner.notices();
                inner.publisher.missed();
                inner.refresh.notify_one();
                continue;
            }
        };
        match chunk {
            Ok(Some(mut chunk)) => {
                while let Some(event) = decoder.next(&mut chunk) {
                    let Some(event) = inner.of_fit_size(event) else {
                        continue;
                    };
                    if refuses_listening(&event.data) {
                        return Heard::NotOffered;
                    }
                    inner.hear_event(event.data);
                }
            }
            Ok(None) => return Heard::Ended,
            Err(_) => return Heard::Failed,
        }
    }
}

/// Opens the stream on which the server speaks of its own accord.
async fn open(inner: &Inner, ready: &Ready) -> Result<Stream, Heard> {
    let upstream = &ready.base;
    let method = Method::Listen;
    let envelope = Envelope {
        method: &method,
        name: None,
        revision: Some(upstream.revision),
        session: upstream.session.as_ref(),
        extra: &[],
    };
    let answer = if upstream.revision.is_modern() {
        let publisher = &inner.publisher;
        let (uris, tasks) = (publisher.wanted(), publisher.wanted_tasks());
        let params = discover::wishes(upstream.revision, &uris, &tasks);
        let mut body = Vec::new();
        write_request(
            inner.mint_id().to_string().as_bytes(),
            method.as_str(),
            &params,
            &mut body,
        );
        inner.post.send(envelope, body.into()).await
    } else {
        inner.post.listen(envelope, None).await
    };
    match answer {
        Ok(Answer::Stream { events, .. }) => Ok(events),
        // Listening goes on in the session that takes the place of a forgotten one.
        Ok(answer) if upstream.session.is_some() && answer.is_unknown() => Err(Heard::Lost),
        Ok(_) => Err(Heard::NotOffered),
        Err(_) => Err(Heard::Failed),
    }
}

fn refuses_listening(data: &Bytes) -> bool {
    let code = METHOD_NOT_FOUND.to_string();
    matches!(
        Incoming::parse(data.clone(), Rules::backend()),
        Ok(Incoming::One(Message::Response(r)))
            if matches!(&r.outcome, Outcome::Error(e) if e.get("code") == Some(code.as_bytes()))
    )
}

impl Inner {
    /// Reads the lists again and publishes them; `Doubt::looking` is held.
    pub(super) async fn reread(&self, ready: &Ready) -> Result<Reread, Fault> {
        let doubts = self.doubt.raised();
        let said = Announced::take(self);
        let speaker = Speaker::within(self, &ready.base);
        let lists = read(self, &speaker, &ready.greeting).await;
        if speaker.has_lost_session() {
            // Renewing has the lists read again.
            self.renew(ready, None, &ready.base).await?;
            return Ok(Reread::Renewed);
        }
        let lists = lists?;
        self.publisher.publish_changed(lists.offer, &said.done());
        self.sessions.forget_tools();
        if let Some(why) = lists.tools_refused {
            self.doubt.raise();
            return Ok(Reread::Refused(why));
        }
        self.doubt.settle(doubts);
        Ok(Reread::Published)
    }

    /// Whether our own requests still go this way.
    fn is_current(&self, base: &Arc<Upstream>) -> bool {
        matches!(&*self.state.borrow(), State::Ready(now) if Arc::ptr_eq(&now.base, base))
    }

    /// Reads a stream on which no replies come.
    pub(super) fn notices(&self) -> sse::Decoder {
        sse::Decoder::new(self.config.event_bytes_max)
    }

    /// One event that is too large costs itself, not those that follow.
    pub(super) fn of_fit_size(
        &self,
        event: Result<sse::Event, sse::SseError>,
    ) -> Option<sse::Event> {
        event
            .inspect_err(|error| self.complain_of_size(error.max))
            .ok()
    }

    pub(super) fn complain_of_size(&self, max: usize) {
        tracing::warn!(
            backend = %self.config.name,
            "dropped a message larger than the {max} bytes allowed (limits.event_mb)"
        );
    }

    fn hear_event(&self, data: Bytes) {
        if let Ok(Incoming::One(Message::Notification(notice))) =
            Incoming::parse(data, Rules::backend())
        {
            self.hear_of(&notice.method, &notice.params);
        }
    }

    fn fail(&self, fault: &Fault) {
        self.turn(State::Failed);
        self.sessions.drain();
        let why = chain(fault);
        tracing::warn!(backend = %self.config.name, "not usable: {why}");
        self.note(Health::Down, None, Some(why));
    }
}

/// A fault with all its causes, for the log and for operators.
fn chain(fault: &Fault) -> String {
    let mut text = fault.to_string();
    let mut source = std::error::Error::source(fault);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
