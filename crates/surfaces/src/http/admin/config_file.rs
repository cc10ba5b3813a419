//! The configuration file: as it is, checked, and replaced.

use schemars::JsonSchema;
use sentinel_core::Fault;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::reload::Reloaded;
use super::{Endpoint, Exchange, Json, control};

/// The longest text that is shown, checked or written here. Longer files are for editors.
pub const TEXT_BYTES_MAX: usize = 1 << 20;
/// JSON may write each byte as six.
const BODY_BYTES_MAX: usize = 6 * TEXT_BYTES_MAX + 1024;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ConfigFile {
    /// Where it is, or would be made. `None`: there is no place for one.
    pub path: Option<String>,
    /// `false`: there is no file, and everything is default. A replacement makes it.
    pub exists: bool,
    /// The file as it is, with whatever credentials stand in it. `None` where `console.edit` is false, or the file is
    /// larger than 1 MiB.
    pub text: Option<String>,
    /// SHA-256 of the text, in hexadecimal: what a replacement names.
    pub digest: Option<String>,
    /// It can be replaced from here.
    pub writable: bool,
    /// Why it cannot.
    pub problem: Option<String>,
    /// Every key and what it has in force.
    pub keys: Vec<ConfigKey>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ConfigKey {
    /// `limits.body_max_kb`, `backends.<name>.command`, `rbac.roles.<name>.permissions`.
    pub key: String,
    /// What is in force. A credential is shown as the variable that it comes from, or as `<hidden>`.
    pub value: Value,
    pub source: KeySource,
    /// Where it stands in the file, from 1.
    pub line: Option<usize>,
    /// The variable, where `source` is that.
    pub variable: Option<String>,
    /// A change takes effect when the gateway starts again.
    pub restart: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeySource {
    File,
    Default,
    Environment,
    CommandLine,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckRequest {
    /// A whole configuration file.
    pub text: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Checked {
    /// As `sentinel check` finds them; none: it can be put in force.
    pub mistakes: Vec<ConfigMistake>,
    /// What a reload of this text would do; nothing was done.
    pub plan: Option<Reloaded>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ConfigMistake {
    pub message: String,
    /// The key that it is about.
    pub key: Option<String>,
    /// From 1.
    pub line: Option<usize>,
    pub column: Option<usize>,
    /// What to write.
    pub suggestion: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplaceRequest {
    pub text: String,
    /// Of the file that this text replaces: if it is another by now, nothing is written.
    pub digest: String,
}

pub(crate) struct Read;

impl Endpoint for Read {
    type Input = ();
    type Output = ConfigFile;

    async fn handle(exchange: &Exchange<'_>, (): ()) -> Result<ConfigFile, Fault> {
        control(exchange.server)?.config_file().await
    }
}

pub(crate) struct Check;

impl Endpoint for Check {
    type Input = Json<CheckRequest, BODY_BYTES_MAX>;
    type Output = Checked;

    async fn handle(
        exchange: &Exchange<'_>,
        Json(CheckRequest { text }): Self::Input,
    ) -> Result<Checked, Fault> {
        control(exchange.server)?.check_config(text).await
    }
}

pub(crate) struct Replace;

impl Endpoint for Replace {
    type Input = Json<ReplaceRequest, BODY_BYTES_MAX>;
    type Output = Reloaded;

    async fn handle(
        exchange: &Exchange<'_>,
        Json(request): Self::Input,
    ) -> Result<Reloaded, Fault> {
        control(exchange.server)?.replace_config(request).await
    }
}
