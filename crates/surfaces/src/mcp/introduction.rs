//! The introduction of a modern caller, contained in the `_meta` of every request.

use sentinel_core::{Addressing, Caller, ClientCapabilities, Fault, Identity, Kind, LogLevel};
use sentinel_wire::{Request, Revision, json, meta};

/// A version that the gateway does not speak.
pub(crate) fn unsupported_version(requested: &str) -> Fault {
    // Legacy versions are listed too, which tells a client of a later revision that `initialize` works.
    let supported: Vec<&str> = Revision::ALL.iter().rev().map(|r| r.as_str()).collect();
    let supported = serde_json::json!(supported);
    let requested = serde_json::json!(requested);
    Fault::new(Kind::UnsupportedVersion, "unsupported protocol version").with_data(format!(
        r#""supported":{supported},"requested":{requested}"#
    ))
}

/// A request's introduction before its version was checked.
pub(crate) struct Introduction {
    pub(crate) version: String,
    caller: Caller,
}

impl Introduction {
    pub(crate) fn read(request: &Request, identity: &Identity) -> Result<Self, Fault> {
        let params = &request.params;
        let missing = |key: &str, what: &str| {
            let text = format!("params._meta needs {key:?}, {what}");
            Fault::new(Kind::InvalidMeta, text)
        };
        let version = params
            .meta(meta::PROTOCOL_VERSION)
            .and_then(json::decode_string)
            .ok_or_else(|| missing(meta::PROTOCOL_VERSION, "a string"))?;
        let capabilities = params
            .meta_bytes(meta::CLIENT_CAPABILITIES)
            .and_then(ClientCapabilities::parse)
            .ok_or_else(|| missing(meta::CLIENT_CAPABILITIES, "an object"))?;
        if params
            .meta(meta::LOG_LEVEL)
            .is_some_and(|level| LogLevel::rank(level).is_none())
        {
            return Err(missing(
                meta::LOG_LEVEL,
                "if present, to be one of the eight levels",
            ));
        }
        let caller = Caller {
            subject: identity.subject.clone(),
            role: identity.role.clone(),
            scopes: identity.scopes.clone(),
            tenant: identity.tenant.clone(),
            revision: Revision::NEWEST,
            capabilities,
            client_info: params.meta_bytes(meta::CLIENT_INFO),
            session: None,
            log_level: LogLevel::of(params.meta(meta::LOG_LEVEL).and_then(LogLevel::rank)),
            tags: None,
            addressing: Addressing::Name,
            account: identity.account.clone(),
        };
        Ok(Self {
            version: version.into_owned(),
            caller,
        })
    }

    /// The caller, if the gateway supports its version.
    pub(crate) fn caller(self) -> Result<Caller, Fault> {
        if self.version == Revision::NEWEST.as_str() {
            return Ok(self.caller);
        }
        Err(unsupported_version(&self.version))
    }
}
