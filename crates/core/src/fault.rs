//! A failure inside the gateway: its kind, its side, and whether a retry may help.
//!
//! `Kind` determines everything else; codes and statuses are in one table, `surfaces::rescue`. A fault has two
//! messages: `public` for callers, the source for the log.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)*) => {
        /// What went wrong. The word is what callers see in `error.data.kind`, and records in `kind`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Kind {
            $($(#[$doc])* $name,)*
        }

        impl Kind {
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }
        }
    };
}

kinds! {
    ParseError = "parse_error",
    InvalidRequest = "invalid_request",
    MethodNotFound = "method_not_found",
    /// No such tool, prompt or resource, or none that this caller may see.
    UnknownName = "unknown_name",
    /// A URI that no backend owns.
    UnknownResource = "unknown_resource",
    InvalidParams = "invalid_params",
    /// A member of `params._meta` that every request of 2026-07-28 needs is missing or malformed.
    InvalidMeta = "invalid_params",
    /// Arguments that the tool's own schema does not allow.
    InvalidArguments = "invalid_arguments",
    /// A query parameter that does not fit the tool's schema.
    InvalidParameter = "invalid_parameter",
    /// The call ran, and its result says that it failed.
    ToolError = "tool_error",
    /// The call waits for answers of its caller.
    InputRequired = "input_required",
    /// The call runs only with a confirmation token, which the refusal holds.
    ConfirmationRequired = "confirmation_required",
    /// A confirmation token that is expired, used, or of another request.
    ConfirmationInvalid = "confirmation_invalid",
    /// The first request with this idempotency key has not ended.
    IdempotencyInProgress = "idempotency_in_progress",
    /// The idempotency key belongs to a different request.
    IdempotencyMismatch = "idempotency_mismatch",
    /// The call was made, or may have been, and there is no answer to give.
    AnswerLost = "answer_lost",
    /// A header that repeats a part of the body is missing or differs from it.
    HeaderMismatch = "header_mismatch",
    /// A protocol revision that the gateway does not speak.
    UnsupportedVersion = "unsupported_version",
    /// A retry whose `requestState` is altered, expired, used or somebody else's.
    BadState = "bad_state",
    NotInitialized = "not_initialized",
    /// A session that ended, never was, or belongs to another caller: these must not differ.
    UnknownSession = "unknown_session",
    /// No credential, or none that is good.
    Unauthorized = "unauthorized",
    /// Visible to this caller, but not callable; or a good credential that does not reach this far.
    Forbidden = "forbidden",
    /// Switched off by an operator.
    Disabled = "disabled",
    RateLimited = "rate_limited",
    /// No place for another call.
    Overloaded = "overloaded",
    CircuitOpen = "circuit_open",
    BackendUnavailable = "backend_unavailable",
    /// It takes one call at a time, and the one that runs waits for a person.
    BackendBusy = "backend_busy",
    BackendTimeout = "backend_timeout",
    /// The backend answered with something that is no answer.
    BackendBadReply = "backend_bad_reply",
    /// The backend's handler answered with a JSON-RPC error of its own; MCP callers get that error as it is.
    BackendError = "backend_error",
    /// The backend needs something this caller did not declare.
    MissingCapability = "missing_capability",
    Cancelled = "cancelled",
    /// The record that the guarantee `sync` wants could not be written.
    AuditUnavailable = "audit_unavailable",
    Internal = "internal",
    /// No such path, or nothing there in this configuration.
    NotFound = "not_found",
    MethodNotAllowed = "method_not_allowed",
    /// The client accepts no form in which the answer could be written.
    NotAcceptable = "not_acceptable",
    /// The request came too slowly.
    RequestTimeout = "timeout",
    TooLarge = "too_large",
    UriTooLong = "uri_too_long",
    RangeNotSatisfiable = "range_not_satisfiable",
    UnsupportedMediaType = "unsupported_media_type",
    ExpectationFailed = "expectation_failed",
    /// A transfer coding that the gateway does not know: where the request ends cannot be told.
    UnsupportedCoding = "unsupported_coding",
    /// What was sent is well-formed and cannot be put in force.
    Unprocessable = "unprocessable",
    /// It contradicts what is stored.
    Conflict = "conflict",
    /// The transaction lost against others each time it was tried.
    TransactionConflict = "transaction_conflict",
    TooManySessions = "too_many_sessions",
    TooManyStreams = "too_many_streams",
    /// The caller does not read what it was sent before.
    Unavailable = "unavailable",
    /// The gateway is shutting down.
    GoingDown = "going_down",
}

impl Kind {
    pub fn side(self) -> Side {
        match self {
            Self::CircuitOpen
            | Self::BackendUnavailable
            | Self::BackendTimeout
            | Self::BackendBadReply => Side::Backend,
            // Neither has done anything wrong.
            Self::BackendBusy | Self::TransactionConflict => Side::Gateway,
            Self::AuditUnavailable
            | Self::Internal
            | Self::Disabled
            | Self::Overloaded
            | Self::TooManySessions
            | Self::GoingDown => Side::Gateway,
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
    /// For the caller: says what to do, without private names.
    pub public: Cow<'static, str>,
    /// When trying again may help, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// Further members for `error.data`, as JSON members without braces (`"uri":"x"`).
    pub data: Option<String>,
    /// A configured code for callers up to 2025-11-25, in place of the kind's own.
    pub legacy_code: Option<i32>,
    /// It says nothing about whether the backend works: the circuit breaker does not count it.
    pub is_uncounted: bool,
    /// The backend certainly ran nothing: the request was not delivered, or turned away.
    pub is_not_run: bool,
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
            is_uncounted: false,
            is_not_run: false,
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

    /// Leaves out the cause, once it was logged.
    #[must_use]
    pub fn without_source(mut self) -> Self {
        self.source = None;
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

    /// The backend did not receive the call and will recover soon.
    #[must_use]
    pub fn unheard(self) -> Self {
        self.uncounted().not_run()
    }

    #[must_use]
    pub fn uncounted(mut self) -> Self {
        self.is_uncounted = true;
        self
    }

    #[must_use]
    pub fn not_run(mut self) -> Self {
        self.is_not_run = true;
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
