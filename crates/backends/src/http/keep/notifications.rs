//! The server's notifications: keeps their stream open, and the subscriptions in step with what callers follow.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use sentinel_wire::envelope::{METHOD_NOT_FOUND, write_request};
use sentinel_wire::json::Rules;
use sentinel_wire::{Incoming, Message, Method, Outcome};
use tokio::time::timeout;

use super::super::post::{Answer, Stream};
use super::super::speak::Speaker;
use super::super::upstream::Upstream;
use super::super::{Inner, Ready, State};
use super::{RETRY_MAX, RETRY_MIN, STREAM_OPEN_MAX};
use crate::discover;

/// Keeps the subscriptions at a legacy server in step with what callers follow, in whatever session is current. (A
/// modern server gets them with `subscriptions/listen`.) After a gap, followers are told that their resources
/// changed, since updates may have been missed and a refused subscription shows in no other way.
pub(super) async fn keep_subscribed(inner: Arc<Inner>, mut gap: bool) {
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
            // A new session has no subscriptions yet.
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
            let here = |listened: &Option<Arc<Upstream>>| {
                listened
                    .as_ref()
                    .is_some_and(|at| Arc::ptr_eq(at, &ready.base))
            };
            // From then on no update is missed; a server without such a stream sends none.
            let mut listening_in = inner.listening_in.subscribe();
            let _ = timeout(STREAM_OPEN_MAX, listening_in.wait_for(here)).await;
            inner.publisher.missed_resources().await;
        }
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            _ = states.changed() => {}
        }
    }
}

/// Keeps the notification stream open: the GET stream of a legacy session, or `subscriptions/listen`. `gap`: it was
/// open before.
pub(super) async fn listen(inner: Arc<Inner>, mut gap: bool) {
    let mut pause = RETRY_MIN;
    let mut listened_at: Option<Arc<Upstream>> = None;
    loop {
        let State::Ready(ready) = inner.state.borrow().clone() else {
            return;
        };
        let base = &ready.base;
        let same = listened_at.as_ref().is_some_and(|at| Arc::ptr_eq(at, base));
        // In a new legacy session `keep_subscribed` subscribes first.
        gap = match base.revision.is_modern() {
            true => gap || listened_at.is_some(),
            false => same,
        };
        let end = listen_once(&inner, &ready, gap).await;
        if inner.listening_in.send_replace(None).is_some() {
            inner.freshness.invalidate();
            listened_at = Some(base.clone());
        }
        match end {
            ListenEnd::NotOffered => {
                // Releases components that wait for a subscription which will never exist.
                inner.publisher.told(u64::MAX);
                return;
            }
            ListenEnd::Ended if !inner.is_current(base) => {
                pause = RETRY_MIN;
                continue;
            }
            ListenEnd::Ended => pause = RETRY_MIN,
            // If the stream was never open, the 404 may be about the stream and not about the session.
            ListenEnd::Lost if same && inner.renew(&ready, None, base).await.is_ok() => {
                pause = RETRY_MIN;
                continue;
            }
            ListenEnd::Lost | ListenEnd::Failed => pause = (pause * 2).min(RETRY_MAX),
        }
        tokio::time::sleep(pause).await;
        // Notifications sent in between were lost.
        inner.publisher.missed();
        inner.refresh.notify_one();
    }
}

enum ListenEnd {
    NotOffered,
    Ended,
    Failed,
    /// The server does not know our session.
    Lost,
}

async fn listen_once(inner: &Inner, ready: &Ready, gap: bool) -> ListenEnd {
    let modern = ready.base.revision.is_modern();
    let mut wishes = inner.publisher.wanted_changes();
    let wish = *wishes.borrow_and_update();
    let mut stream = match open(inner, ready).await {
        Ok(stream) => stream,
        Err(end) => return end,
    };
    inner.listening_in.send_replace(Some(ready.base.clone()));
    inner.publisher.told(wish);
    // Covers changes after the lists were read and before the stream was open.
    inner.refresh.notify_one();
    if gap {
        inner.publisher.missed();
        inner.publisher.missed_resources().await;
    }
    let mut decoder = inner.notices();
    loop {
        let chunk = tokio::select! {
            chunk = stream.chunk(&inner.post) => chunk,
            // Callers follow other resources. The new stream is opened before the old one is dropped; unread
            // notifications of the old one are covered by reading the lists.
            Ok(()) = wishes.changed(), if modern => {
                let wish = *wishes.borrow();
                stream = match open(inner, ready).await {
                    Ok(stream) => stream,
                    Err(end) => return end,
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
                    let Some(event) = inner.within_limit(event) else {
                        continue;
                    };
                    if refuses_listening(&event.data) {
                        return ListenEnd::NotOffered;
                    }
                    inner.on_event(event.data);
                }
            }
            Ok(None) => return ListenEnd::Ended,
            Err(_) => return ListenEnd::Failed,
        }
    }
}

/// Opens the notification stream.
async fn open(inner: &Inner, ready: &Ready) -> Result<Stream, ListenEnd> {
    let upstream = &ready.base;
    let method = Method::Listen;
    let envelope = upstream.envelope(&method);
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
        // Listening goes on in the session that replaces the unknown one.
        Ok(answer) if upstream.session.is_some() && answer.is_unknown() => Err(ListenEnd::Lost),
        Ok(_) => Err(ListenEnd::NotOffered),
        Err(_) => Err(ListenEnd::Failed),
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
