//! The walk of one call through the core, outermost step first.
//!
//! Every surface enters here, so whatever is added to the walk holds for all of them. It is a stack
//! of Tower services over `Call`; the response is the terminal reply, while notices and asks travel
//! on the call's own line. The steps themselves hold nothing: what they ask is the policy that the
//! call began with.
//!
//! A step is an async function of the call and the rest of the walk. Their futures nest without a
//! box between them, and the whole walk is one allocation; the call itself is boxed, so that no
//! step moves more than a pointer.

use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use sentinel_wire::{Method, Params};
use tower::layer::layer_fn;
use tower::{Layer, Service, ServiceBuilder};

use crate::attribution;
use crate::audit::{Auditor, Trail};
use crate::call::{Call, Reply, TaskOf, View};
use crate::caller::Caller;
use crate::fault::{Fault, Kind, Side};
use crate::line::{Conversation, Events, Line, UNREAD_BYTES_MAX};
use crate::policy::steps::{self, Verdict};
use crate::policy::{Policy, Slot};
use crate::tasks::{self, Desk, Given};

type Outcome = Result<Reply, Fault>;

/// The composed walk; cheap to clone.
#[derive(Clone)]
pub struct Walk {
    house: Arc<House>,
    /// What a slow caller may leave unread of what is said on the way.
    unread_bytes_max: usize,
    start: Arc<dyn Fn(Box<Call>) -> BoxFuture<'static, Outcome> + Send + Sync>,
}

/// What all calls of a walk share. Behind one count, for threads that answer calls contend for each.
pub(crate) struct House {
    pub(crate) policy: Arc<Policy>,
    pub(crate) auditor: Arc<Auditor>,
    pub(crate) desk: Arc<Desk>,
    pub(crate) given: Given,
}

/// Composes the walk, in the order in which things happen. Authorization comes before the kill switch
/// and the kill switch before the limit, so that nobody unauthorized drains a bucket and a disabled
/// tool costs nothing; admission comes last, so that a waiting call holds nothing else. The record of
/// the call is the surface's, around all of this; only the intent is written here.
pub fn walk(policy: Arc<Policy>, auditor: Arc<Auditor>) -> Walk {
    let stack = ServiceBuilder::new()
        .layer(step(resolve)) // whose is it?
        .layer(check(steps::authorize)) // may this caller see it, and call it?
        .layer(step(kill)) // is it switched off, now or before it ends?
        .layer(step(limit)) // does this caller call it too often?
        .layer(step(check_arguments)) // are the arguments what it asks for?
        .layer(step(recall)) // was it answered lately, and may that be kept?
        .layer(step(guard)) // fail at once while its backend keeps failing
        .layer(step(admit)) // wait for a place, and hold it to the end
        .layer(step(intend)) // where `sync` is promised, the intent is on disk before the work
        .layer(step(sign)) // whatever it asks in its answer says who asks
        .service(Route); // to its backend
    Walk {
        house: Arc::new(House {
            policy,
            auditor,
            desk: Arc::default(),
            given: Given::default(),
        }),
        unread_bytes_max: UNREAD_BYTES_MAX,
        start: Arc::new(move |call| stack.clone().call(call).boxed()),
    }
}

impl Walk {
    /// What a slow caller may leave unread of what is said on the way.
    #[must_use]
    pub fn leaving_unread(mut self, bytes_max: usize) -> Self {
        self.unread_bytes_max = bytes_max;
        self
    }

    /// How long a caller may think about what a task asks.
    #[must_use]
    pub fn patient(self, think: Duration) -> Self {
        self.house.desk.be_patient(think);
        self
    }

    /// Sets a call going. The conversation owns it: drop it to cancel.
    pub fn begin(
        &self,
        caller: Arc<Caller>,
        view: View,
        method: Method,
        params: Params,
        trail: Arc<Trail>,
    ) -> Conversation {
        self.begin_about(None, caller, view, method, params, trail)
    }

    /// The same for a request about a task.
    pub fn begin_about(
        &self,
        about: Option<Arc<TaskOf>>,
        caller: Arc<Caller>,
        view: View,
        method: Method,
        params: Params,
        trail: Arc<Trail>,
    ) -> Conversation {
        let (call, events) = self.enter(about, caller, view, method, params, trail.clone());
        let slot = call.slot.clone();
        Conversation::new((self.start)(call), events, trail, slot)
    }

    /// A call before its first step, and where what is said on its way is heard.
    fn enter(
        &self,
        about: Option<Arc<TaskOf>>,
        caller: Arc<Caller>,
        view: View,
        method: Method,
        params: Params,
        trail: Arc<Trail>,
    ) -> (Box<Call>, Events) {
        let slot = Slot::default();
        let (line, events) = Line::open(slot.clone(), self.unread_bytes_max);
        let call = Call {
            caller,
            view,
            method,
            params,
            about,
            task_ttl_ms: None,
            line,
            target: None,
            trail,
            house: self.house.clone(),
            slot,
        };
        (Box::new(call), events)
    }

    /// Whether there is nothing that this caller may not use, so that nobody needs to look at single calls.
    pub fn permits_all(&self, caller: &Caller) -> bool {
        self.house.policy.permits_all(caller)
    }

    /// Whether there is anything that such a call would be about.
    pub fn knows(&self, view: View, method: &Method, params: &Params) -> bool {
        let registry = self.house.policy.registry();
        registry.operation(view, method, params).is_some()
    }

    /// Whether this caller may make such a call at this moment, by the steps that a call takes; it is not made. For what
    /// was begun earlier and goes on only now: a call that waited for its caller, news that were asked for once.
    pub fn permits(
        &self,
        about: Option<Arc<TaskOf>>,
        caller: &Arc<Caller>,
        view: View,
        method: Method,
        params: Params,
        trail: Arc<Trail>,
    ) -> Result<(), Fault> {
        let (mut call, _) = self.enter(about, caller.clone(), view, method, params, trail);
        find(&mut call)?;
        for judge in [steps::authorize, steps::is_killed] {
            if let Verdict::Break(answer) = judge(call.policy(), &call) {
                return answer.map(drop);
            }
        }
        Ok(())
    }

    /// Has a backend end a task that was ours to follow. Nothing stands in the way of that, least of all a kill.
    pub async fn end_task(&self, of: Arc<TaskOf>, caller: Arc<Caller>, owner: usize, id: &str) {
        if let Err(fault) = tasks::end(&self.house, of, caller, owner, id, None).await {
            tracing::warn!(why = %fault.public, "a task could not be cancelled");
        }
    }
}

/// What comes after a step.
trait Rest:
    Service<Box<Call>, Response = Reply, Error = Fault, Future: Send> + Clone + Send + Sync + 'static
{
}

impl<S> Rest for S where
    S: Service<Box<Call>, Response = Reply, Error = Fault, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// A step as a service: its function, and the rest of the walk that it may go on to.
#[derive(Clone)]
struct Step<F, S> {
    step: F,
    rest: S,
}

fn step<F, S, W>(step: F) -> impl Layer<S, Service = Step<F, S>>
where
    F: Fn(Box<Call>, S) -> W + Clone,
    W: Future<Output = Outcome>,
{
    layer_fn(move |rest| Step {
        step: step.clone(),
        rest,
    })
}

/// A step that asks one question about a call and lets it pass, or ends it with the answer.
fn check<S: Rest>(judge: fn(&Policy, &Call) -> Verdict) -> impl Layer<S, Service: Rest> {
    step(move |call: Box<Call>, mut rest: S| async move {
        match judge(call.policy(), &call) {
            Verdict::Continue(()) => rest.call(call).await,
            Verdict::Break(answer) => answer,
        }
    })
}

impl<F, S, W> Service<Box<Call>> for Step<F, S>
where
    F: Fn(Box<Call>, S) -> W,
    S: Clone,
    W: Future<Output = Outcome>,
{
    type Response = Reply;
    type Error = Fault;
    type Future = W;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Box<Call>) -> W {
        (self.step)(call, self.rest.clone())
    }
}

/// Looks the operation up in the catalog.
fn find(call: &mut Call) -> Result<(), Fault> {
    let target = call.policy().registry.resolve(call)?;
    call.line.sign(&target.operation.backend);
    call.trail.resolved(&target.operation);
    call.target = Some(target);
    Ok(())
}

/// Looks the operation up, and keeps its backend from telling what is hidden from what is not there.
async fn resolve(mut call: Box<Call>, mut rest: impl Rest) -> Outcome {
    find(&mut call)?;
    let veil = steps::veil(call.policy(), &call);
    steps::veiled(veil, rest.call(call).await)
}

/// Refuses what is switched off, and ends what is switched off while it runs.
async fn kill(call: Box<Call>, mut rest: impl Rest) -> Outcome {
    if let Verdict::Break(answer) = steps::is_killed(call.policy(), &call) {
        return answer;
    }
    let house = call.house.clone();
    let (caller, operation) = (call.caller.clone(), call.target().operation.clone());
    let (view, ends_a_task) = (call.view, call.ends_a_task());
    let work = pin!(rest.call(call));
    let kills = house.policy.kills();
    kills
        .watch(&caller, &operation, view, ends_a_task, work)
        .await
}

/// Refuses whoever calls too often. A gateway that shares its limits with nobody decides at once.
async fn limit(call: Box<Call>, mut rest: impl Rest) -> Outcome {
    let said = match steps::ask_others(call.policy(), &call) {
        None => None,
        Some(asking) => Some(asking.await),
    };
    match steps::limit(call.policy(), &call, said) {
        Verdict::Continue(()) => rest.call(call).await,
        Verdict::Break(answer) => answer,
    }
}

/// Refuses arguments that are not what the tool asks for, and goes on with those that were checked.
async fn check_arguments(mut call: Box<Call>, mut rest: impl Rest) -> Outcome {
    match steps::check_arguments(&call) {
        ControlFlow::Continue(None) => {}
        ControlFlow::Continue(Some(params)) => call.params = params,
        ControlFlow::Break(answer) => return answer,
    }
    rest.call(call).await
}

/// Answers from what the backend allowed to be kept, and keeps what it allows.
async fn recall(call: Box<Call>, mut rest: impl Rest) -> Outcome {
    let asked = match call.policy().registry.cache().look(&call) {
        None => return rest.call(call).await,
        Some(Ok(reply)) => return Ok(reply),
        Some(Err(asked)) => asked,
    };
    let house = call.house.clone();
    let reply = rest.call(call).await?;
    house.policy.registry.cache().note(asked, &reply);
    Ok(reply)
}

/// Asks the backend's circuit breaker, and tells it how the call ended.
async fn guard(call: Box<Call>, mut rest: impl Rest) -> Outcome {
    let target = call.target();
    let pass = target.circuit.admit().map_err(|open| {
        let text = format!(
            "backend `{}` keeps failing; try again later",
            target.backend.name()
        );
        Fault::new(Kind::CircuitOpen, text).retry_after_ms(open.retry_after_ms)
    })?;
    let outcome = rest.call(call).await;
    match &outcome {
        Ok(_) => pass.end(true),
        Err(fault) if fault.side() == Side::Backend && !fault.is_unheard => pass.end(false),
        Err(_) => drop(pass),
    }
    outcome
}

/// Holds one of the places that calls run in. Until there is one a call holds nothing but its turn,
/// and no deadline of its backend's runs.
async fn admit(call: Box<Call>, mut rest: impl Rest) -> Outcome {
    let admission = match call.policy().admission() {
        Some(admission) if steps::takes_a_place(&call.method) => admission.clone(),
        _ => return rest.call(call).await,
    };
    let (slot, subject) = (call.slot.clone(), call.caller.subject.clone());
    let backend = call.target().index;
    slot.run(&admission, &subject, backend, || rest.call(call))
        .await
}

/// Writes the intent of calls whose records are `sync`; without it the call is not made.
async fn intend(call: Box<Call>, mut rest: impl Rest) -> Outcome {
    if let Some(intent) = call.house.auditor.intend(&call) {
        intent.await.map_err(|error| {
            let text = "the audit record of this call could not be written, so it was not made";
            Fault::new(Kind::AuditUnavailable, text).because(error)
        })?;
    }
    rest.call(call).await
}

/// Names the backend in the questions of an answer that needs input first and in its failures, and keeps it from being
/// stopped to the very end: it may let go of the call before that.
async fn sign(call: Box<Call>, mut rest: impl Rest) -> Outcome {
    let asker = call.target().operation.backend.clone();
    let _hold = call.target().hold.clone();
    let reply = rest.call(call).await;
    let reply = reply.map_err(|fault| fault.of_backend(&asker))?;
    Ok(attribution::sign_reply(reply, &asker))
}

/// Hands the call to its backend.
#[derive(Clone)]
struct Route;

impl Service<Box<Call>> for Route {
    type Response = Reply;
    type Error = Fault;
    type Future = BoxFuture<'static, Outcome>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Box<Call>) -> Self::Future {
        call.trail.dispatched();
        let backend = call.target().backend.clone();
        match tasks::concern(&call) {
            true => tasks::run(backend, call).boxed(),
            false => backend.call(call),
        }
    }
}
