//! Who a modern request says it is, in its own `_meta`: every one introduces itself.

use sentinel_core::{Caller, ClientCapabilities, Identity, LogLevel};
use sentinel_wire::envelope::{INVALID_PARAMS, METHOD_NOT_FOUND, error_object, write_error_object};
use sentinel_wire::{Id, Request, Revision, json, meta};

const UNSUPPORTED_VERSION: i32 = -32022;
pub(crate) const HEADER_MISMATCH: i32 = -32020;

/// A request that does not get as far as being routed.
#[derive(Debug)]
pub(crate) struct Refused {
    code: i32,
    text: String,
    data: serde_json::Value,
}

impl Refused {
    pub(crate) fn new(code: i32, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
            data: serde_json::json!({}),
        }
    }

    /// A version that we do not speak.
    pub(crate) fn version(requested: &str) -> Self {
        // Legacy versions are named too: a client of a later revision then knows that
        // `initialize` will work.
        let supported: Vec<&str> = Revision::ALL.iter().rev().map(|r| r.as_str()).collect();
        Self {
            data: serde_json::json!({"supported": supported, "requested": requested}),
            ..Self::new(UNSUPPORTED_VERSION, "unsupported protocol version")
        }
    }

    /// For the caller, who finds it in `data`, and for the audit record.
    pub(crate) fn kind(&self) -> &'static str {
        match self.code {
            INVALID_PARAMS => "invalid_params",
            METHOD_NOT_FOUND => "method_not_found",
            HEADER_MISMATCH => "header_mismatch",
            UNSUPPORTED_VERSION => "unsupported_version",
            _ => "invalid_request",
        }
    }

    pub(crate) fn message(&self, id: &Id) -> Vec<u8> {
        let mut data = self.data.clone();
        data["kind"] = self.kind().into();
        let data = data.to_string();
        let error = error_object(i64::from(self.code), &self.text, Some(data.as_bytes()));
        let mut message = Vec::new();
        write_error_object(Some(id), Revision::NEWEST, &error, &mut message);
        message
    }
}

/// What a request says of itself, before its version was judged.
pub(crate) struct Introduction {
    pub(crate) version: String,
    caller: Caller,
}

impl Introduction {
    pub(crate) fn read(request: &Request, identity: &Identity) -> Result<Self, Refused> {
        let params = &request.params;
        let missing = |key: &str, what: &str| {
            Refused::new(
                INVALID_PARAMS,
                format!("params._meta needs {key:?}, {what}"),
            )
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
        };
        Ok(Self {
            version: version.into_owned(),
            caller,
        })
    }

    /// The caller, if we speak its version.
    pub(crate) fn caller(self) -> Result<Caller, Refused> {
        if self.version == Revision::NEWEST.as_str() {
            return Ok(self.caller);
        }
        Err(Refused::version(&self.version))
    }
}
