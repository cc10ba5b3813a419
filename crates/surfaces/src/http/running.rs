//! A call of a session, driven by the request that brought it for as long as that lasts.
//!
//! A legacy call belongs to its session and not to its connection, so it could be a task of its own
//! from the start. Nearly all connections last until the answer, though, and a task costs an
//! allocation and two switches; so a call becomes one only when its request goes away before, or when its
//! answer is large: then its other half is the connection's, and goes with that.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::{AbortHandle, Abortable, BoxFuture, FutureExt};
use sentinel_core::Kind;
use sentinel_core::audit::Trail;
use sentinel_wire::Id;

use super::body::Body;
use super::session::{NotTaken, Noted, Session};
use crate::exchange;
use crate::mcp::Large;

/// The message that answers the call; none if it was cancelled.
pub(super) struct Running(Option<(Work, Noted)>);

type Work = Abortable<BoxFuture<'static, exchange::Answer>>;

pub(super) enum Answer {
    Whole(Vec<u8>),
    /// It has begun, and can still be cancelled by its id.
    Large(Box<Large>, Noted),
}

impl Answer {
    fn of(answer: exchange::Answer, noted: Noted) -> Self {
        match answer {
            exchange::Answer::Whole { message, .. } => Self::Whole(message),
            exchange::Answer::Large(large) => Self::Large(large, noted),
        }
    }

    /// The message in one piece; none if it is cancelled meanwhile.
    pub(super) async fn whole(self) -> Option<Vec<u8>> {
        match self {
            Self::Whole(message) => Some(message),
            Self::Large(large, noted) => {
                let whole = large.gathered().boxed();
                Abortable::new(whole, noted.renew()?).await.ok()
            }
        }
    }
}

/// A large answer as a body; none if its call was cancelled meanwhile.
pub(super) fn flow(large: Large, noted: Noted) -> Option<Body> {
    let aborted = noted.renew()?;
    let (pieces, driven) = large.flow();
    tokio::spawn(async move {
        let _noted = noted;
        let _ = Abortable::new(driven, aborted).await;
    });
    Some(Body::message(pieces))
}

impl Running {
    /// Notes the call in its session, so that it can be cancelled by its id, and makes it ready to go.
    pub(super) fn begin(
        session: &Arc<Session>,
        id: &Id,
        trail: &Trail,
        work: impl Future<Output = exchange::Answer> + Send + 'static,
    ) -> Result<Self, NotTaken> {
        let (abort, aborted) = AbortHandle::new_pair();
        let noted = session.begin(id, abort).inspect_err(|_| {
            // Before the work goes, and its record with it.
            trail.refuse(Kind::InvalidRequest);
        })?;
        Ok(Self(Some((Abortable::new(work.boxed(), aborted), noted))))
    }

    /// The message in one piece.
    pub(super) async fn whole(self) -> Option<Vec<u8>> {
        self.await?.whole().await
    }
}

impl Future for Running {
    type Output = Option<Answer>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some((work, _)) = &mut self.0 else {
            return Poll::Ready(None);
        };
        let answer = std::task::ready!(work.poll_unpin(cx));
        // With the note its id is free again.
        let noted = self.0.take().map(|(_, noted)| noted);
        Poll::Ready(
            answer
                .ok()
                .zip(noted)
                .map(|(said, noted)| Answer::of(said, noted)),
        )
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // What was cancelled goes at once, and its record is made.
        if let Some((work, noted)) = self.0.take()
            && !work.is_aborted()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move {
                // Nobody is left to read it, but the call belongs to its session and has its end.
                match work.await {
                    Ok(said) => Answer::of(said, noted).whole().await,
                    Err(_) => None,
                }
            });
        }
    }
}
