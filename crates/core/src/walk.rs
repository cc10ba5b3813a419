//! The walk of one call through the core, outermost step first.
//!
//! Every surface enters here, so whatever is added to the walk holds for all of them. It is a stack
//! of Tower services over `Call`; the response is the terminal reply, while notices and asks travel
//! on the call's own line. The layers themselves hold nothing: what they ask is the policy that the
//! call began with.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::{BoxFuture, FutureExt, TryFutureExt, ready};
use sentinel_wire::{Method, Params};
use tower::layer::layer_fn;
use tower::{Layer, Service, ServiceBuilder};

use crate::attribution;
use crate::audit::{Auditor, Trail};
use crate::call::{Call, Reply, View};
use crate::caller::Caller;
use crate::fault::{Fault, Kind, Side};
use crate::line::{Conversation, Line};
use crate::policy::steps::{self, Verdict};
use crate::policy::{Policy, Slot};

type Outcome = BoxFuture<'static, Result<Reply, Fault>>;

/// The composed walk; cheap to clone.
#[derive(Clone)]
pub struct Walk {
    policy: Arc<Policy>,
    stack: Stack,
}

type Stack = Resolve<Check<Kill<Check<Check<Break<Admit<Intend<Route>>>>>>>>;

/// Composes the walk, in the order in which things happen. Authorization comes before the kill switch
/// and the kill switch before the limit, so that nobody unauthorized drains a bucket and a disabled
/// tool costs nothing; admission comes last, so that a waiting call holds nothing else. The record of
/// the call is the surface's, around all of this; only the intent is written here.
pub fn walk(policy: Arc<Policy>, auditor: Arc<Auditor>) -> Walk {
    let stack = ServiceBuilder::new()
        .layer(layer_fn(|inner| Resolve { inner })) // whose is it?
        .layer(check(steps::authorize)) // may this caller see it, and call it?
        .layer(layer_fn(|inner| Kill { inner })) // is it switched off, now or before it ends?
        .layer(check(steps::limit)) // does this caller call it too often?
        .layer(check(steps::check_arguments)) // are the arguments what it asks for?
        .layer(layer_fn(|inner| Break { inner })) // fail at once while its backend keeps failing
        .layer(layer_fn(|inner| Admit { inner })) // wait for a place, and hold it to the end
        .layer(layer_fn(|inner| Intend {
            auditor: auditor.clone(),
            inner,
        })) // last before the work: where `sync` is promised, the intent is on disk first
        .service(Route); // to its backend
    Walk { policy, stack }
}

impl Walk {
    /// Sets a call going. The conversation owns it: drop it to cancel.
    pub fn begin(
        &self,
        caller: Arc<Caller>,
        view: View,
        method: Method,
        params: Params,
        trail: Arc<Trail>,
    ) -> Conversation {
        let (line, events) = Line::open();
        let slot = Slot::default();
        let call = Call {
            caller,
            view,
            method,
            params,
            line,
            target: None,
            trail: trail.clone(),
            policy: self.policy.clone(),
            slot: slot.clone(),
        };
        Conversation::new(self.stack.clone().call(call), events, trail).holding(slot)
    }
}

/// Looks the operation up in the catalog.
#[derive(Clone)]
struct Resolve<S> {
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
        match call.policy.registry.resolve(&call) {
            Ok(target) => {
                call.line = call.line.signed(target.backend.name());
                call.trail.resolved(&target.operation);
                call.target = Some(target);
                self.inner.call(call)
            }
            Err(fault) => ready(Err(fault)).boxed(),
        }
    }
}

type Judge = fn(&Policy, &Call) -> Verdict;

/// Asks one question about a call and lets it pass, or ends it with the answer.
#[derive(Clone)]
struct Check<S> {
    judge: Judge,
    inner: S,
}

fn check<S>(judge: Judge) -> impl Layer<S, Service = Check<S>> {
    layer_fn(move |inner| Check { judge, inner })
}

impl<S: Service<Call, Future = Outcome>> Service<Call> for Check<S> {
    type Response = Reply;
    type Error = Fault;
    type Future = Outcome;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> Outcome {
        match (self.judge)(&call.policy, &call) {
            Verdict::Continue(()) => self.inner.call(call),
            Verdict::Break(answer) => ready(answer).boxed(),
        }
    }
}

/// Refuses what is switched off, and ends what is switched off while it runs.
#[derive(Clone)]
struct Kill<S> {
    inner: S,
}

impl<S: Service<Call, Future = Outcome>> Service<Call> for Kill<S> {
    type Response = Reply;
    type Error = Fault;
    type Future = Outcome;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> Outcome {
        if let Verdict::Break(answer) = steps::is_killed(&call.policy, &call) {
            return ready(answer).boxed();
        }
        let watched = steps::until_killed(&call);
        watched(self.inner.call(call))
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
        let target = call.target();
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

/// Holds one of the places that calls run in.
#[derive(Clone)]
struct Admit<S> {
    inner: S,
}

impl<S> Service<Call> for Admit<S>
where
    S: Service<Call, Future = Outcome> + Clone + Send + 'static,
{
    type Response = Reply;
    type Error = Fault;
    type Future = Outcome;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> Outcome {
        let mut inner = self.inner.clone();
        steps::admit(&call)(move || inner.call(call))
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
        call.trail.dispatched();
        let backend = call.target().backend.clone();
        let asker = backend.clone();
        backend
            .call(call)
            .map_ok(move |reply| attribution::sign_reply(reply, asker.name()))
            .boxed()
    }
}
