//! A caller of REST and JSON-RPC over HTTP.

use serde_json::{Value, json};

use crate::support::http::{self, Answer, Sent};
use crate::support::setup::Gateway;

pub(crate) const JSON_BODY: (&str, &str) = ("Content-Type", "application/json");

pub(crate) struct Web {
    pub(crate) address: String,
    authorization: Option<String>,
}

impl Web {
    pub(crate) fn new(gateway: &Gateway) -> Self {
        Self::at(&gateway.address)
    }

    pub(crate) fn at(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            authorization: None,
        }
    }

    /// The same with this credential.
    pub(crate) fn bearing(self, credential: &str) -> Self {
        Self {
            authorization: Some(format!("Bearer {credential}")),
            ..self
        }
    }

    pub(crate) fn send(
        &self,
        verb: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl AsRef<[u8]>,
    ) -> Sent {
        let authorization = self.authorization.as_deref();
        let mut headers = headers.to_vec();
        headers.extend(authorization.map(|value| ("Authorization", value)));
        http::send(&self.address, verb, path, &headers, body)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "").finish()
    }

    /// A GET by a client that takes only this media type.
    pub(crate) fn get_as(&self, path: &str, media_type: &str) -> Answer {
        self.send("GET", path, &[("Accept", media_type)], "")
            .finish()
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_with(path, body, &[])
    }

    /// A POST with headers beyond the type of its body.
    pub(crate) fn post_with(&self, path: &str, body: &Value, more: &[(&str, &str)]) -> Answer {
        let headers: Vec<_> = [JSON_BODY].iter().chain(more).copied().collect();
        self.send("POST", path, &headers, body.to_string()).finish()
    }

    pub(crate) fn rpc(&self, method: &str, params: &Value) -> Answer {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.post("/rpc", &call)
    }
}
