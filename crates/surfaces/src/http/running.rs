//! A call of a session, driven by the request that brought it for as long as that lasts.
//!
//! A legacy call belongs to its session and not to its connection, so it could be a task of its own
//! from the start. Nearly all connections last until the answer, though, and a task costs an
//! allocation and two switches; so a call becomes one only when its request goes away before.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::{AbortHandle, Abortable, BoxFuture, FutureExt};
use sentinel_core::Kind;
use sentinel_core::audit::Trail;
use sentinel_wire::Id;

use super::session::{NotTaken, Noted, Session};

/// The message that answers the call; none if it was cancelled.
pub(super) struct Running(Option<(Work, Noted)>);

type Work = Abortable<BoxFuture<'static, Vec<u8>>>;

impl Running {
    /// Notes the call in its session, so that it can be cancelled by its id, and makes it ready to go.
    pub(super) fn begin(
        session: &Arc<Session>,
        id: &Id,
        trail: &Trail,
        work: impl Future<Output = Vec<u8>> + Send + 'static,
    ) -> Result<Self, NotTaken> {
        let (abort, aborted) = AbortHandle::new_pair();
        let noted = session.begin(id, abort).inspect_err(|_| {
            // Before the work goes, and its record with it.
            trail.refuse(Kind::InvalidRequest);
        })?;
        Ok(Self(Some((Abortable::new(work.boxed(), aborted), noted))))
    }
}

impl Future for Running {
    type Output = Option<Vec<u8>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some((work, _)) = &mut self.0 else {
            return Poll::Ready(None);
        };
        let answer = std::task::ready!(work.poll_unpin(cx));
        // Its id is free again.
        self.0 = None;
        Poll::Ready(answer.ok())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some((work, noted)) = self.0.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move {
                let _noted = noted;
                work.await
            });
        }
    }
}
