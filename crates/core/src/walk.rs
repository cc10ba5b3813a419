//! The walk of one call through the core, outermost step first.
//!
//! Every surface enters here, so a step that is added holds for all of them. The walk is a stack of Tower
//! services over `CallContext`; the response is the final reply, while notices and questions travel on the call's own
//! line.
//!
//! A step is a module with an async function `step` of the call and the rest of the walk. The futures nest without a
//! box between them, so the whole walk is one allocation. A step that also decides in `Walk::permits` has a function
//! `check`.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use tower::layer::layer_fn;
use tower::{Layer, Service, ServiceBuilder};

use crate::admission::PermitSlot;
use crate::audit::story::StepName as Name;
use crate::audit::{AuditTrail, Auditor};
use crate::backend::Call;
use crate::caller::Caller;
use crate::fault::Fault;
use crate::invocation::Invocation;
use crate::line::{Conversation, Events, Line, UNREAD_BYTES_MAX};
use crate::policy::Policy;
use crate::reply::Reply;
use crate::tasks::{self, Tasks};

mod admit;
mod arguments;
mod authorize;
mod circuit;
mod confirm;
mod explain;
mod intend;
mod kill;
mod limit;
mod outputs;
mod recall;
mod resolve;
mod route;
mod sign;

pub use confirm::CONFIRMATION;
pub use explain::{ExplainedStep, Explanation, Verdict};

type Outcome = Result<Reply, Fault>;

/// The composed walk; cheap to clone.
#[derive(Clone)]
pub struct Walk {
    shared: Arc<Shared>,
    /// What a slow caller may leave unread of notices.
    unread_bytes_max: usize,
    start: Arc<dyn Fn(CallContext) -> BoxFuture<'static, Outcome> + Send + Sync>,
}

/// What all calls share. One `Arc`: several per call made workers contend on reference counts.
struct Shared {
    policy: Arc<Policy>,
    auditor: Arc<Auditor>,
    tasks: Arc<Tasks>,
}

/// One call on its way through the steps.
struct CallContext {
    /// Boxed, so that no step moves more than two pointers.
    call: Box<Call>,
    shared: Arc<Shared>,
}

/// Composes the walk, in the order in which things happen. Authorization comes before the kill switch
/// and the kill switch before the limit, so that unauthorized calls drain no bucket and a disabled
/// tool costs nothing; admission comes last, so that a queued call holds nothing else. The audit record of
/// the call belongs to the surface, around all of this; only the intent is written here.
pub fn walk(policy: Arc<Policy>, auditor: Arc<Auditor>) -> Walk {
    let stack = ServiceBuilder::new()
        .layer(step(Name::Resolve, resolve::step)) // whose is it?
        .layer(step(Name::Authorize, authorize::step)) // may this caller see it, and call it?
        .layer(step(Name::Kill, kill::step)) // is it switched off, now or before it ends?
        .layer(step(Name::Limit, limit::step)) // does this caller call it too often?
        .layer(step(Name::Arguments, arguments::step)) // are the arguments what its schema asks for?
        .layer(step(Name::Confirm, confirm::step)) // does it need a confirmation, and is that given?
        .layer(step(Name::Recall, recall::step)) // is the answer cached?
        .layer(step(Name::Circuit, circuit::step)) // fail at once while its backend keeps failing
        .layer(step(Name::Admit, admit::step)) // wait for a permit, and hold it to the end
        .layer(step(Name::Intend, intend::step)) // where `sync` is promised, the intent is on disk before the work
        .layer(inner(outputs::step)) // is the result what its schema promises?
        .layer(inner(sign::step)) // its questions and failures name the backend
        .service(route::Route); // to its backend
    Walk {
        shared: Arc::new(Shared {
            tasks: Tasks::new(policy.clone()),
            policy,
            auditor,
        }),
        unread_bytes_max: UNREAD_BYTES_MAX,
        start: Arc::new(move |ctx| stack.clone().call(ctx).boxed()),
    }
}

impl Walk {
    /// Bytes of notices that a slow caller may leave unread.
    #[must_use]
    pub fn leaving_unread(mut self, bytes_max: usize) -> Self {
        self.unread_bytes_max = bytes_max;
        self
    }

    /// How long a caller may think about what a task asks.
    #[must_use]
    pub fn patient(self, think: Duration) -> Self {
        self.shared.tasks.set_patience(think);
        self
    }

    /// Starts a call. The conversation owns it: drop it to cancel.
    pub fn begin(&self, invocation: Invocation, trail: Arc<AuditTrail>) -> Conversation {
        let (call, events) = self.call(invocation, trail.clone());
        let (slot, shared) = (call.slot.clone(), self.shared.clone());
        let reply = (self.start)(CallContext { call, shared });
        Conversation::new(reply, events, trail, slot)
    }

    /// A call before its first step, and the other end of its line.
    fn call(&self, invocation: Invocation, trail: Arc<AuditTrail>) -> (Box<Call>, Events) {
        let slot = PermitSlot::default();
        let (line, events) = Line::open(slot.clone(), self.unread_bytes_max);
        let call = Call::new(invocation, line, trail, slot);
        (Box::new(call), events)
    }

    /// Whether there is nothing that this caller may not use, so that single calls need no check.
    pub fn permits_all(&self, caller: &Caller) -> bool {
        self.shared.policy.permits_all(caller)
    }

    /// Whether the operation exists.
    pub fn knows(&self, invocation: &Invocation) -> bool {
        let (method, _) = invocation.action.clone().into_method();
        let registry = self.shared.policy.registry();
        let operation = registry.operation(invocation.view, &method, &invocation.input);
        operation.is_some()
    }

    /// Whether the caller may make such a call now, by the steps that a call takes; it is not made. For what began
    /// earlier and goes on now: a parked call, a subscription.
    pub fn permits(&self, invocation: Invocation, trail: Arc<AuditTrail>) -> Result<(), Fault> {
        let (mut call, _) = self.call(invocation, trail);
        resolve::find(&self.shared, &mut call)?;
        authorize::check(&self.shared, &call)?;
        kill::check(&self.shared, &call)
    }

    /// Has a backend cancel a task that the gateway polled for its caller. No step stands in the way, least of all a kill.
    pub async fn end_task(&self, cancellation: Invocation) {
        if let Err(fault) = tasks::end(&self.shared.tasks, cancellation).await {
            tracing::warn!(why = %fault.public, "a task could not be cancelled");
        }
    }
}

/// What comes after a step.
trait Rest:
    Service<CallContext, Response = Reply, Error = Fault, Future: Send> + Clone + Send + Sync + 'static
{
}

impl<S> Rest for S where
    S: Service<CallContext, Response = Reply, Error = Fault, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// A step as a service: its function, and the rest of the walk that it may go on to.
#[derive(Clone)]
struct Step<F, S> {
    /// For the call's story.
    name: Option<Name>,
    step: F,
    rest: S,
}

fn step<F, S, W>(name: Name, step: F) -> impl Layer<S, Service = Step<F, S>>
where
    F: Fn(CallContext, S) -> W + Clone,
    W: Future<Output = Outcome>,
{
    layer(Some(name), step)
}

/// A step that looks at the reply only, which is a part of the time at the backend.
fn inner<F, S, W>(step: F) -> impl Layer<S, Service = Step<F, S>>
where
    F: Fn(CallContext, S) -> W + Clone,
    W: Future<Output = Outcome>,
{
    layer(None, step)
}

fn layer<F: Clone, S>(name: Option<Name>, step: F) -> impl Layer<S, Service = Step<F, S>> {
    layer_fn(move |rest| Step {
        name,
        step: step.clone(),
        rest,
    })
}

impl<F, S, W> Service<CallContext> for Step<F, S>
where
    F: Fn(CallContext, S) -> W,
    S: Clone,
    W: Future<Output = Outcome>,
{
    type Response = Reply;
    type Error = Fault;
    type Future = W;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, ctx: CallContext) -> W {
        if let Some(name) = self.name {
            ctx.call.trail.enters(name);
        }
        (self.step)(ctx, self.rest.clone())
    }
}
