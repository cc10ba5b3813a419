//! What the children of a backend write to standard error.

use futures_util::FutureExt;
use hyper::body::Incoming;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::query::Params;
use super::{Exchange, FromRequest, invalid};
use crate::http::reply;
use crate::http::routes::Handled;

#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StderrQuery {
    pub(super) backend: String,
}

/// The data of an event `line`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct StderrLine {
    pub at_ms: u64,
    /// Without its end. A longer line is cut.
    pub text: String,
    /// Which child wrote it: its process id, and with isolation whose it is.
    pub child: String,
}

pub(in super::super) fn follow<'a>(exchange: &'a Exchange<'a>, body: Incoming) -> Handled<'a> {
    async move {
        let Params(StderrQuery { backend }) = Params::<StderrQuery>::read(exchange, body).await?;
        exchange.about(format!("backend {backend}"));
        let unknown = || invalid(format!("there is no backend `{backend}`"));
        let registry = &exchange.server.gateway.registry;
        let running = registry.running(&backend).ok_or_else(unknown)?;
        let mut out = String::new();
        for text in running.status().stderr {
            let line = StderrLine {
                at_ms: 0,
                text,
                child: String::new(),
            };
            let line = serde_json::to_string(&line).expect("a line is JSON");
            out.push_str(&format!("event: line\ndata: {line}\n\n"));
        }
        Ok(reply::events(out.into_bytes().into()))
    }
    .boxed()
}
