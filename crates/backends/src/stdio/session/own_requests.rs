//! Requests of the gateway's own: handshakes, lists, pings, and the stream of changes.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use sentinel_core::Fault;
use sentinel_wire::{Era, Method, Outcome, envelope};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use super::{ChildSession, PING_TIMEOUT, PROBE_TIMEOUT, PendingRequest};
use crate::discover::{self, Peer, PeerError};

/// What happens when no answer came in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnTimeout {
    Cancel,
    /// Sends no cancellation: handshakes cannot be cancelled.
    Silent,
}

impl ChildSession {
    /// Whether the child answers at all.
    pub(crate) async fn ping(&self) -> bool {
        // Modern servers have no ping; every one of them knows this request.
        let (method, params) = match self.revision().era() {
            Era::Legacy => (Method::Ping, b"{}".to_vec()),
            Era::Modern => (Method::Discover, discover::own_params(self.revision(), "")),
        };
        let answer = self.request_own(method, params, PING_TIMEOUT, OnTimeout::Cancel);
        matches!(answer.await, Ok(Outcome::Result(_)))
    }

    /// Opens a modern server's stream of changed lists and of the resources and tasks that callers follow; `begun` is
    /// called once the request is queued. It has no end; dropping the future cancels it at the child.
    pub(crate) async fn listen(&self, uris: &[Arc<str>], tasks: &[Arc<str>], begun: impl FnOnce()) {
        let params = discover::wishes(self.revision(), uris, tasks);
        let (reply, ended) = oneshot::channel();
        let waiter = PendingRequest { reply, side: None };
        let write = |id: u64, out: &mut Vec<u8>| write_request(id, &Method::Listen, &params, out);
        if let Ok(mut ticket) = self.pipe.begin(waiter, write).await {
            begun();
            let _ = ended.await;
            ticket.silence();
        }
    }

    pub(super) async fn request_own(
        &self,
        method: Method,
        params: Vec<u8>,
        limit: Duration,
        on_timeout: OnTimeout,
    ) -> Result<Outcome, Fault> {
        let mut time = pin!(sleep_until(Instant::now() + limit));
        let (reply, mut answer) = oneshot::channel();
        let waiter = PendingRequest { reply, side: None };
        let write = |id: u64, out: &mut Vec<u8>| write_request(id, &method, &params, out);
        let entered = self
            .in_time(&mut time, self.pipe.begin(waiter, write))
            .await?;
        let mut ticket = entered.map_err(|closed| self.gone().because(closed))?;
        if on_timeout == OnTimeout::Silent {
            ticket.silence();
        }
        let answered = self.in_time(&mut time, &mut answer).await;
        answered?.map_err(|dropped| self.gone().because(dropped))?
    }
}

impl Peer for Arc<ChildSession> {
    async fn request(&self, method: Method, params: Vec<u8>) -> Result<Outcome, PeerError> {
        match method {
            // During the probe silence counts as an answer: a legacy server may ignore unknown requests.
            Method::Discover => self
                .request_own(method, params, PROBE_TIMEOUT, OnTimeout::Silent)
                .await
                .map_err(PeerError::NotSpoken),
            Method::Initialize => self
                .request_own(method, params, self.timeout, OnTimeout::Silent)
                .await
                .map_err(PeerError::Failed),
            _ => self
                .request_own(method, params, self.timeout, OnTimeout::Cancel)
                .await
                .map_err(PeerError::Failed),
        }
    }

    async fn notify(&self, method: Method, params: Vec<u8>) -> Result<(), PeerError> {
        self.pipe
            .post(|out| envelope::write_notification(method.as_str(), &params, out));
        Ok(())
    }
}

fn write_request(id: u64, method: &Method, params: &[u8], out: &mut Vec<u8>) {
    let id = itoa::Buffer::new().format(id).to_owned();
    envelope::write_request(id.as_bytes(), method.as_str(), params, out);
}
