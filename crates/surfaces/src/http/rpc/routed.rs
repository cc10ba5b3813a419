//! Methods that backends declare (`core::catalog::routes`).
//!
//! The name of a tool that the caller sees means that tool; then come these. Where the backend takes the request as a whole, its
//! answer is the answer, whatever form the params have. Otherwise the params are the arguments of the route's tool.

use std::borrow::Cow;

use bytes::Bytes;
use sentinel_core::audit::Surface;
use sentinel_core::catalog::FoundRoute;
use sentinel_core::invocation::params_named;
use sentinel_core::{Addressing, Fault, Kind, Operation};
use sentinel_wire::envelope::Refusal;
use sentinel_wire::json::Rules;
use sentinel_wire::{Id, Message, Method, Notification, Payload, Request};

use super::super::exchange::Exchange;
use super::super::operations::{self, Wanted, Way};
use super::super::rest::whole::{self, WholeRequest};
use super::super::rest::{self, visible_tool};
use super::{Answer, Element, run, unread};

/// A request that takes a route.
pub(super) struct Taken {
    route: FoundRoute,
    id: Option<Id>,
    method: String,
    /// The params, where they have names.
    params: Option<Bytes>,
}

/// The route that an element of the request takes, if any. `sent` is the element as it came.
pub(super) fn taken(
    exchange: &Exchange<'_>,
    message: &Result<Message, Refusal>,
    sent: &Bytes,
) -> Option<Taken> {
    let (id, method, params): (_, Cow<'_, str>, _) = match message {
        Ok(Message::Request(Request { id, method, params })) => {
            (Some(id.clone()), method.as_str().into(), Some(params))
        }
        Ok(Message::Notification(Notification { method, params })) => {
            (None, method.as_str().into(), Some(params))
        }
        Ok(Message::Response(_)) => return None,
        // By position; what else is wrong with it stays so.
        Err(refusal) if refusal.message == super::NO_OBJECT => {
            let rules = Rules::caller(exchange.server.gateway.limits().json_depth_max);
            let request = Payload::parse(sent.clone(), rules).ok()?;
            let method = request.string("method")?.into_owned();
            let id = request.get_bytes("id").and_then(Id::from_raw);
            (id, method.into(), None)
        }
        Err(_) => return None,
    };
    if method.starts_with("rpc.") || visible_tool(exchange, &method, Addressing::Name).is_some() {
        return None;
    }
    let policy = &exchange.server.gateway.policy;
    let caller = operations::caller_by(exchange, Addressing::Rpc);
    let sees = |operation: &Operation| policy.grant(&caller, operation).see;
    let route = policy.registry().rpc_route(&method, sees)?;
    (route.is_whole || params.is_some()).then(|| Taken {
        route,
        id,
        params: params.map(|params| Bytes::copy_from_slice(params.as_bytes())),
        method: method.into_owned(),
    })
}

impl Taken {
    /// The answer; a notification has none.
    pub(super) async fn answer(
        self,
        exchange: &Exchange<'_>,
        sent: Bytes,
        element: &Element,
    ) -> Option<Answer> {
        let id = self.id.clone();
        let made = match self.route.is_whole {
            true => self.by_itself(exchange, sent).await,
            false => self.by_arguments(exchange, element).await,
        };
        let answer = made.unwrap_or_else(|fault| unread(exchange, id.as_ref(), &fault));
        id.is_some().then_some(answer)
    }

    async fn by_arguments(
        self,
        exchange: &Exchange<'_>,
        element: &Element,
    ) -> Result<Answer, Fault> {
        let rules = Rules::caller(exchange.server.gateway.limits().json_depth_max);
        let arguments = self.params.as_deref().unwrap_or(b"{}");
        let params = params_named(&self.route.operation.exposed, arguments, b"", rules);
        let wanted = Wanted {
            method: Method::ToolsCall,
            params: params.map_err(rest::malformed)?,
            id: self.id,
            bytes_in: element.bytes_in,
            with_notices: false,
            way: Way {
                addressing: Addressing::Rpc,
                ..Way::default()
            },
        };
        Ok(run(exchange, &self.method, wanted, element.is_alone).await)
    }

    async fn by_itself(self, exchange: &Exchange<'_>, sent: Bytes) -> Result<Answer, Fault> {
        let mut request = WholeRequest::read(exchange, sent)?;
        request.id = self.id.clone();
        let (wanted, http) = request.wanted(&self.route.operation, Addressing::Rpc)?;
        let completed = operations::run(exchange, Surface::Rpc, wanted).await;
        let refused = match whole::answer_of(*completed, &http) {
            Ok((completed, answer)) if is_message(&answer.body) => {
                let len = answer.body.len();
                completed.answered_with(answer.status).record(len);
                return Ok(Answer::of_backend(answer));
            }
            Ok((mut completed, _)) => {
                let text = "the backend's answer is no JSON-RPC";
                completed.spoil(Fault::new(Kind::BackendBadReply, text));
                Box::new(completed)
            }
            Err(completed) => completed,
        };
        let answer = match &refused.outcome {
            Err(fault) => Answer::refusal(self.id.as_ref(), fault),
            Ok(_) => Answer::refusal(self.id.as_ref(), &nothing()),
        };
        refused.record(answer.message.len());
        Ok(answer)
    }
}

fn nothing() -> Fault {
    Fault::new(Kind::Internal, "a result was taken for a fault")
}

/// What can stand among the answers to a batch: an object, or nothing at all.
fn is_message(body: &Bytes) -> bool {
    body.is_empty() || Payload::parse(body.clone(), Rules::backend()).is_ok_and(is_object)
}

fn is_object(payload: Payload) -> bool {
    payload.as_bytes().first() == Some(&b'{')
}
