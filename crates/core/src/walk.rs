//! The walk of one call through the core, outermost step first.
//!
//! Every surface enters here, so whatever is added to the walk holds for all of them. It is a stack
//! of Tower services over `Call`; the response is the terminal reply, while notices and asks travel
//! on the call's own line.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::{BoxFuture, FutureExt, TryFutureExt, ready};
use tower::layer::layer_fn;
use tower::{Service, ServiceBuilder};

use crate::attribution;
use crate::audit::{Auditor, Trail};
use crate::call::{Call, Reply, View};
use crate::caller::Caller;
use crate::catalog::Registry;
use crate::fault::{Fault, Kind, Side};
use crate::line::{Conversation, Line};

type Outcome = BoxFuture<'static, Result<Reply, Fault>>;

/// The composed walk; cheap to clone.
#[derive(Clone)]
pub struct Walk(Resolve<Break<Intend<Route>>>);

/// Composes the walk.
pub fn walk(registry: Arc<Registry>, auditor: Arc<Auditor>) -> Walk {
    let stack = ServiceBuilder::new()
        .layer(layer_fn(|inner| Resolve {
            registry: registry.clone(),
            inner,
        })) // whose is it?
        .layer(layer_fn(|inner| Break { inner })) // fail at once while its backend keeps failing
        .layer(layer_fn(|inner| Intend {
            auditor: auditor.clone(),
            inner,
        })) // last before the work: where `sync` is promised, the intent is on disk first
        .service(Route);
    Walk(stack)
}

impl Walk {
    /// Sets a call going. The conversation owns it: drop it to cancel.
    pub fn begin(
        &self,
        caller: Arc<Caller>,
        view: View,
        method: sentinel_wire::Method,
        params: sentinel_wire::Params,
        trail: Arc<Trail>,
    ) -> Conversation {
        let (line, events) = Line::open();
        let call = Call {
            caller,
            view,
            method,
            params,
            line,
            target: None,
            trail: trail.clone(),
        };
        Conversation::new(self.0.clone().call(call), events, trail)
    }
}

/// Looks the operation up in the catalog.
#[derive(Clone)]
struct Resolve<S> {
    registry: Arc<Registry>,
    inner: S,
}

impl<S: Service<Call, Future = Outcome>> Service<Call> for Resolve<S> {
    type Response = Reply;
    type Error = Fault;
    type Future = Outcome;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut call: Call) -> Outcome {
        match self.registry.resolve(&call) {
            Ok(target) => {
                call.line = call.line.signed(target.backend.name());
                call.trail.resolved(&target, &call.params);
                call.target = Some(target);
                self.inner.call(call)
            }
            Err(fault) => ready(Err(fault)).boxed(),
        }
    }
}

/// Asks the backend's circuit breaker, and tells it how the call ended.
#[derive(Clone)]
struct Break<S> {
    inner: S,
}

impl<S: Service<Call, Future = Outcome>> Service<Call> for Break<S> {
    type Response = Reply;
    type Error = Fault;
    type Future = Outcome;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> Outcome {
        let target = call.target.as_ref().expect("resolved by the step before");
        let pass = match target.circuit.admit() {
            Ok(pass) => pass,
            Err(open) => {
                let text = format!(
                    "backend `{}` keeps failing; try again later",
                    target.backend.name()
                );
                let fault = Fault::new(Kind::CircuitOpen, text).retry_after_ms(open.retry_after_ms);
                return ready(Err(fault)).boxed();
            }
        };
        let work = self.inner.call(call);
        async move {
            let outcome = work.await;
            match &outcome {
                Ok(_) => pass.end(true),
                Err(fault) if fault.side() == Side::Backend => pass.end(false),
                Err(_) => drop(pass),
            }
            outcome
        }
        .boxed()
    }
}

/// Writes the intent of calls whose records are `sync`; without it the call is not made.
#[derive(Clone)]
struct Intend<S> {
    auditor: Arc<Auditor>,
    inner: S,
}

impl<S> Service<Call> for Intend<S>
where
    S: Service<Call, Response = Reply, Error = Fault, Future = Outcome> + Clone + Send + 'static,
{
    type Response = Reply;
    type Error = Fault;
    type Future = Outcome;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> Outcome {
        let Some(intent) = self.auditor.intend(&call) else {
            return self.inner.call(call);
        };
        let mut inner = self.inner.clone();
        async move {
            if let Err(error) = intent.await {
                let text = "the audit record of this call could not be written, so it was not made";
                return Err(Fault::new(Kind::AuditUnavailable, text).because(error));
            }
            inner.call(call).await
        }
        .boxed()
    }
}

/// Hands the call to its backend.
#[derive(Clone)]
struct Route;

impl Service<Call> for Route {
    type Response = Reply;
    type Error = Fault;
    type Future = Outcome;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> Outcome {
        let backend = call
            .target
            .as_ref()
            .expect("resolved by an earlier step")
            .backend
            .clone();
        let asker = backend.clone();
        backend
            .call(call)
            .map_ok(move |reply| attribution::sign_reply(reply, asker.name()))
            .boxed()
    }
}
