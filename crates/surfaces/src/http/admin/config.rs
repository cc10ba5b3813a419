//! The configuration in force.

use schemars::JsonSchema;
use sentinel_core::Fault;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Endpoint, Exchange, control};

/// The sections of the file with every default filled in, without secrets. `sentinel schema` describes them.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ConfigInForce(#[schemars(with = "Map<String, Value>")] pub Value);

pub(crate) struct Read;

impl Endpoint for Read {
    type Input = ();
    type Output = ConfigInForce;

    async fn handle(exchange: &Exchange<'_>, (): ()) -> Result<ConfigInForce, Fault> {
        Ok(ConfigInForce(control(exchange.server)?.config()))
    }
}
