//! The last step: hands the call to its backend.

use std::task::{Context, Poll};

use futures_util::future::{BoxFuture, FutureExt};
use tower::Service;

use super::{CallContext, Outcome};
use crate::audit::story::StepName;
use crate::fault::Fault;
use crate::reply::Reply;
use crate::tasks;

#[derive(Clone)]
pub(super) struct Route;

impl Service<CallContext> for Route {
    type Response = Reply;
    type Error = Fault;
    type Future = BoxFuture<'static, Outcome>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, ctx: CallContext) -> Self::Future {
        let CallContext { call, shared } = ctx;
        call.trail.enters(StepName::Backend);
        call.trail.dispatched();
        let backend = call.target().backend.clone();
        match tasks::concern(&call) {
            true => tasks::run(shared.tasks.clone(), backend, call).boxed(),
            false => backend.call(call),
        }
    }
}
