//! A failure as the whole gateway knows it: what kind, whose side, whether trying again helps.
//!
//! `Kind` decides everything else; the numbers and statuses live in one table, `surfaces::rescue`.
//! A fault has two messages: `public` goes to callers, the source goes to the log.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

/// What went wrong, in the words that callers see in `error.data.kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    ParseError,
    InvalidRequest,
    MethodNotFound,
    /// No such tool, prompt or resource, or none that this caller may see.
    UnknownName,
    /// A URI that no backend owns.
    UnknownResource,
    InvalidParams,
    /// Arguments that the tool's own schema does not allow.
    InvalidArguments,
    /// A retry whose `requestState` is altered, expired, used or somebody else's.
    BadState,
    NotInitialized,
    /// No credential, or none that is good.
    Unauthorized,
    /// Visible to this caller, but not callable; or a good credential that does not reach this far.
    Forbidden,
    /// Switched off by an operator.
    Disabled,
    RateLimited,
    /// No place for another call.
    Overloaded,
    CircuitOpen,
    BackendUnavailable,
    /// It takes one call at a time, and the one that runs waits for a person.
    BackendBusy,
    BackendTimeout,
    /// The backend answered with something that is no answer.
    BackendBadReply,
    /// The backend needs something this caller did not declare.
    MissingCapability,
    Cancelled,
    TooLarge,
    /// The record that the guarantee `sync` wants could not be written.
    AuditUnavailable,
    Internal,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ParseError => "parse_error",
            Self::InvalidRequest => "invalid_request",
            Self::MethodNotFound => "method_not_found",
            Self::UnknownName => "unknown_name",
            Self::UnknownResource => "unknown_resource",
            Self::InvalidParams => "invalid_params",
            Self::InvalidArguments => "invalid_arguments",
            Self::BadState => "bad_state",
            Self::NotInitialized => "not_initialized",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::Disabled => "disabled",
            Self::RateLimited => "rate_limited",
            Self::Overloaded => "overloaded",
            Self::CircuitOpen => "circuit_open",
            Self::BackendUnavailable => "backend_unavailable",
            Self::BackendBusy => "backend_busy",
            Self::BackendTimeout => "backend_timeout",
            Self::BackendBadReply => "backend_bad_reply",
            Self::MissingCapability => "missing_capability",
            Self::Cancelled => "cancelled",
            Self::TooLarge => "too_large",
            Self::AuditUnavailable => "audit_unavailable",
            Self::Internal => "internal",
        }
    }

    pub fn side(self) -> Side {
        match self {
            Self::CircuitOpen
            | Self::BackendUnavailable
            | Self::BackendTimeout
            | Self::BackendBadReply => Side::Backend,
            // Neither has done anything wrong.
            Self::BackendBusy => Side::Gateway,
            Self::AuditUnavailable | Self::Internal | Self::Disabled | Self::Overloaded => {
                Side::Gateway
            }
            _ => Side::Caller,
        }
    }
}

/// Who would have to change something for the call to succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Caller,
    Gateway,
    Backend,
}

#[derive(Debug)]
pub struct Fault {
    pub kind: Kind,
    /// For the caller: says what to do, names nothing private.
    pub public: Cow<'static, str>,
    /// When trying again may help, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// Further members for `error.data`, as JSON members without braces (`"uri":"x"`).
    pub data: Option<String>,
    /// A configured code for callers up to 2025-11-25, in place of the kind's own.
    pub legacy_code: Option<i32>,
    /// The backend heard nothing of the call and is about to be back: its failures are not one more by this.
    pub is_unheard: bool,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl Fault {
    pub fn new(kind: Kind, public: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind,
            public: public.into(),
            retry_after_ms: None,
            data: None,
            legacy_code: None,
            is_unheard: false,
            source: None,
        }
    }

    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Names the backend where its connector, which fails in the same words for all, says "the backend".
    #[must_use]
    pub fn of_backend(mut self, name: &str) -> Self {
        if self.side() == Side::Backend && self.public.contains("the backend") {
            let named = format!("backend `{name}`");
            self.public = self.public.replacen("the backend", &named, 1).into();
        }
        self
    }

    #[must_use]
    pub fn retry_after_ms(mut self, ms: u64) -> Self {
        self.retry_after_ms = Some(ms);
        self
    }

    #[must_use]
    pub fn with_data(mut self, members: impl Into<String>) -> Self {
        self.data = Some(members.into());
        self
    }

    #[must_use]
    pub fn legacy_code(mut self, code: i32) -> Self {
        self.legacy_code = Some(code);
        self
    }

    #[must_use]
    pub fn unheard(mut self) -> Self {
        self.is_unheard = true;
        self
    }

    pub fn side(&self) -> Side {
        self.kind.side()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.public)
    }
}

impl Error for Fault {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
