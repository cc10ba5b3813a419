//! A session's call, polled by its request for as long as that lasts.
//!
//! A legacy call belongs to its session and not to its connection, so it could be a task from the start. Nearly all
//! connections last until the answer, though, and a task costs an allocation and two switches; so a call becomes a
//! task only when its request is dropped early, or when its answer is large: then the rest belongs to the connection,
//! and ends with that.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::future::{Abortable, BoxFuture, FutureExt};

use super::body::Body;
use crate::exchange;
use crate::mcp::{CallGuard, Large};

/// Resolves to the answer; `None` if the call was cancelled.
pub(super) struct Running(Option<(Work, CallGuard)>);

type Work = Abortable<BoxFuture<'static, exchange::Answer>>;

pub(super) enum Answer {
    Whole(Vec<u8>),
    /// It has begun, and can still be cancelled by its id.
    Large(Box<Large>, CallGuard),
}

impl Answer {
    fn of(answer: exchange::Answer, guard: CallGuard) -> Self {
        match answer {
            exchange::Answer::Whole { message, .. } => Self::Whole(message),
            exchange::Answer::Large(large) => Self::Large(large, guard),
        }
    }

    /// The message as a whole; `None` if it is cancelled meanwhile.
    pub(super) async fn whole(self) -> Option<Vec<u8>> {
        match self {
            Self::Whole(message) => Some(message),
            Self::Large(large, guard) => guard.cancellable(large.gathered().boxed())?.await.ok(),
        }
    }
}

/// A large answer as a body; `None` if its call was cancelled meanwhile.
pub(super) fn flow(large: Large, guard: CallGuard) -> Option<Body> {
    let (pieces, driven) = large.flow();
    let driven = guard.cancellable(driven)?;
    tokio::spawn(async move {
        let _ = driven.await;
        drop(guard);
    });
    Some(Body::message(pieces))
}

impl Running {
    pub(super) fn new(
        work: impl Future<Output = exchange::Answer> + Send + 'static,
        guard: CallGuard,
    ) -> Self {
        let work = guard.cancellable(work.boxed());
        Self(work.map(|work| (work, guard)))
    }

    /// The message as a whole.
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
        // Dropping the guard frees the id.
        let guard = self.0.take().map(|(_, guard)| guard);
        let answer = answer.ok().zip(guard);
        Poll::Ready(answer.map(|(answer, guard)| Answer::of(answer, guard)))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A cancelled call is dropped at once, which makes its record.
        if let Some((work, guard)) = self.0.take()
            && !work.is_aborted()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move {
                // No client reads the answer, but the call belongs to its session and runs to its end.
                match work.await {
                    Ok(answer) => Answer::of(answer, guard).whole().await,
                    Err(_) => None,
                }
            });
        }
    }
}
