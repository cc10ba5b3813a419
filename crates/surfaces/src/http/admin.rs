//! The admin API: what an operator asks and switches, as JSON under `/admin/api`. One module per noun holds the types of
//! its requests and answers, which the command line uses as well, and its endpoints.
//!
//! It takes no place of `admission` and asks no backend, so it answers however busy the gateway is. Only what is to be
//! approved is looked at first.
//!
//! Not here: who the operator is (`exchange`), the rows of these endpoints (`routes`), what a kill does (`core::policy`).

pub mod access;
pub mod audit;
pub mod backends;
pub mod catalog;
pub mod config;
pub mod config_file;
pub mod history;
pub mod import;
pub mod keys;
pub mod kill;
pub mod limits;
pub mod live;
mod parameters;
pub mod pins;
pub mod reload;
pub mod restart;
pub mod status;
pub mod stderr;
pub mod stop;
pub(super) mod streaming;
pub mod usage;
pub mod visits;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use http::StatusCode;
use hyper::body::Incoming;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use sentinel_core::{Fault, Kind};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::exchange::Exchange;
use super::routes::Handled;
use super::{HttpServer, post, reply};
use crate::gateway::Control;

/// What an operator sends is small, but for texts of files.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// How long a backend may take to start, or to list what it offers, before an answer: less than clients wait.
const LOOK_MAX: Duration = Duration::from_secs(45);

/// One operation of the API.
pub(super) trait Endpoint: 'static {
    type Input: FromRequest;
    type Output: Serialize + JsonSchema;

    fn handle(
        exchange: &Exchange<'_>,
        input: Self::Input,
    ) -> impl Future<Output = Result<Self::Output, Fault>> + Send;
}

/// Where the input of an endpoint comes from.
pub(super) trait FromRequest: Sized + Send {
    /// `None`: there is no input.
    fn schema() -> Option<Schema>;

    fn read(
        exchange: &Exchange<'_>,
        body: Incoming,
    ) -> impl Future<Output = Result<Self, Fault>> + Send;
}

/// The JSON object of a POST.
pub(super) struct Json<T, const BYTES_MAX: usize = BODY_BYTES_MAX>(pub(super) T);

/// A POST without a meaning of its own. The type must still be JSON: another page could send a form.
pub(super) struct Posted;

/// Reads the input, runs the endpoint, writes its output.
pub(super) fn run<'a, E: Endpoint>(exchange: &'a Exchange<'a>, body: Incoming) -> Handled<'a> {
    async move {
        let input = E::Input::read(exchange, body).await?;
        let output = E::handle(exchange, input).await?;
        let body = serde_json::to_vec(&output).expect("answers of the admin API are JSON");
        Ok(reply::json(StatusCode::OK, body))
    }
    .boxed()
}

/// The schema of what is read.
pub(super) fn schema_of<T: JsonSchema>() -> Schema {
    SchemaGenerator::default().into_root_schema_for::<T>()
}

/// The schema of what is written, in which every member is there.
pub(super) fn output_schema_of<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::default().for_serialize();
    settings.into_generator().into_root_schema_for::<T>()
}

impl FromRequest for () {
    fn schema() -> Option<Schema> {
        None
    }

    async fn read(_: &Exchange<'_>, _: Incoming) -> Result<Self, Fault> {
        Ok(())
    }
}

impl FromRequest for Posted {
    fn schema() -> Option<Schema> {
        None
    }

    async fn read(exchange: &Exchange<'_>, _: Incoming) -> Result<Self, Fault> {
        post::check_types(exchange.headers()).map(|()| Self)
    }
}

impl<T: DeserializeOwned + JsonSchema + Send, const BYTES_MAX: usize> FromRequest
    for Json<T, BYTES_MAX>
{
    fn schema() -> Option<Schema> {
        Some(schema_of::<T>())
    }

    async fn read(exchange: &Exchange<'_>, body: Incoming) -> Result<Self, Fault> {
        post::check_types(exchange.headers())?;
        let pace = exchange.server.gateway.pace();
        let bytes = post::gather(body, BYTES_MAX, &pace).await;
        let bytes = bytes.map_err(|why| why.fault(BYTES_MAX))?;
        // A list would be taken for the members in their order.
        if !bytes.trim_ascii_start().starts_with(b"{") {
            let text = "the body must be a JSON object";
            return Err(Fault::new(Kind::InvalidParams, text));
        }
        let read = serde_json::from_slice(&bytes);
        read.map(Self)
            .map_err(|error| invalid(format!("the body: {error}")))
    }
}

fn invalid(text: impl Into<String>) -> Fault {
    Fault::new(Kind::InvalidParams, text.into())
}

/// The program around the gateway, where there is one.
fn control(server: &HttpServer) -> Result<&Arc<dyn Control>, Fault> {
    let missing = || Fault::new(Kind::NotFound, "this gateway has no configuration file");
    server.gateway.control().ok_or_else(missing)
}

/// Runs what waits for the disk away from the workers.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let failed = |_| Err(Fault::new(Kind::Internal, "it failed: see the log"));
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(failed)
}
