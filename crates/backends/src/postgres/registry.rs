//! Databases that have a registry of handlers: tables of routes and functions that a gateway calls.
//!
//! The tables `api.handler`, `api.rest_route`, `api.rpc_route` and `api.mcp_route` say what there is; `api.rest_invoke`,
//! `api.rpc_invoke` and `api.mcp_*` carry it out. A database that was made for another gateway works as it is.
//!
//! The parts: `catalog` reads the tables, `declare` makes operations of them, `pattern` decides which requests a route takes,
//! `headers` says who calls, `policy` how the transaction is opened, `http` and `mcp` carry out calls, `errors` says what went wrong.
//!
//! Not here: functions without a registry (`functions`, which leaves out the registry's own).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sentinel_config::Registry;
use sentinel_core::{Fault, Kind, Reply};
use sentinel_pg::{PgError, Session};
use sentinel_wire::json::Rules;
use sentinel_wire::{Outcome, Payload, Revision};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Config;
use super::failure::Failure;
use super::mode::Isolation;
use super::operation::Found;

mod catalog;
mod declare;
mod errors;
mod headers;
mod http;
mod mcp;
mod pattern;
mod policy;

use catalog::Presence;

/// The catalog is not read again sooner because an answer says that it has changed.
const STALE_AFTER: Duration = Duration::from_secs(1);

/// What the handlers of one reading share.
struct Shared {
    rest_sql: String,
    rpc_sql: String,
    default_isolation: Isolation,
    /// Answers name the version of the routes; another one means that they have changed.
    version: Option<String>,
    read_at: Instant,
}

impl Shared {
    fn is_other_version(&self, version: &str) -> bool {
        self.version
            .as_deref()
            .is_some_and(|known| known != version)
    }

    /// Has the catalog read again, if it was not read just now.
    fn note_stale(&self, changed: &Notify) {
        if self.read_at.elapsed() >= STALE_AFTER {
            changed.notify_one();
        }
    }
}

/// Reads the registry, if there is one and it is wanted.
/// `offered` has the ids of handlers that are offered already.
pub(super) async fn read(
    session: &mut Session,
    config: &Config,
    offered: &[String],
) -> Result<Found, PgError> {
    let mut found = Found::default();
    if config.registry == Registry::Off {
        return Ok(found);
    }
    let read_at = Instant::now();
    let place = match catalog::presence(session).await? {
        Presence::Complete(place) => place,
        Presence::None => {
            if config.registry == Registry::On {
                let notice = "registry = \"on\": the database has no registry of handlers";
                found.notices.push(notice.to_owned());
            }
            return Ok(found);
        }
        Presence::Unusable(why) => {
            let notice = format!("the registry of handlers cannot be used: {why}");
            found.notices.push(notice);
            return Ok(found);
        }
    };
    // Before the handlers: if they change meanwhile, answers name another version, and they are read again.
    let version = place.version(session).await?;
    let handlers = catalog::handlers(session, offered, &mut found.notices).await?;
    let shared = Arc::new(Shared {
        rest_sql: http::rest_sql(&place.hstore),
        rpc_sql: http::rpc_sql(&place.hstore),
        default_isolation: place.default_isolation,
        version,
        read_at,
    });
    for handler in handlers {
        found.sources.push(handler.id.clone());
        match declare::declared(handler, &shared) {
            Ok(declared) => found.operations.push(declared),
            Err(notice) => found.notices.push(notice),
        }
    }
    Ok(found)
}

/// An answer that is none.
fn bad_reply(why: &'static str) -> Failure {
    let text = "the database answered with something that is no answer";
    Failure::Refused(Fault::new(Kind::BackendBadReply, text).because(why))
}

/// The result of a call whose answer went elsewhere.
fn empty_reply() -> Reply {
    let empty = Bytes::from_static(br#"{"content":[],"resultType":"complete"}"#);
    Reply {
        revision: Revision::NEWEST,
        outcome: Outcome::Result(Payload::parse(empty, Rules::backend()).expect("this is JSON")),
    }
}
