//! `/health`: the process runs. `/ready`: calls can be served. Open to everybody, under any host name.

use futures_util::future::{FutureExt, ready};
use http::StatusCode;
use hyper::body::Incoming;
use sentinel_core::Health;
use serde_json::json;

use super::exchange::Exchange;
use super::reply;
use super::routes::Handled;

pub(super) fn health<'a>(_: &'a Exchange<'a>, _: Incoming) -> Handled<'a> {
    let body = json!({"status": "ok", "version": env!("CARGO_PKG_VERSION")});
    let body = body.to_string().into_bytes();
    ready(Ok(reply::json(StatusCode::OK, body))).boxed()
}

/// Ready once every eager backend was tried and one is usable, or none is configured.
pub(super) fn readiness<'a>(exchange: &'a Exchange<'a>, _: Incoming) -> Handled<'a> {
    let gateway = &exchange.server.gateway;
    let registry = &gateway.registry;
    let mut checks = serde_json::Map::new();
    let (mut wanted, mut usable) = (0, 0);
    let mut starting = 0;
    // Built-in backends are always up, so they do not count.
    for (_, backend) in registry.backends() {
        if backend.is_builtin() {
            continue;
        }
        let health = backend.status().health;
        checks.insert(backend.name().to_owned(), health.as_str().into());
        // Whoever keeps it down knows.
        if health == Health::Stopped {
            continue;
        }
        wanted += 1;
        usable += usize::from(matches!(health, Health::Up | Health::Asleep));
        starting += usize::from(health == Health::Starting);
    }
    let reason = if gateway.is_draining() {
        Some("shutting down")
    } else if starting > 0 && !registry.all_tried() {
        Some("backends are starting")
    } else if usable == 0 && wanted > 0 {
        Some("no backend is usable")
    } else {
        None
    };
    let status = if reason.is_none() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let word = if reason.is_none() {
        "ready"
    } else {
        "not ready"
    };
    let body = json!({"status": word, "reason": reason, "backends": checks});
    let body = body.to_string().into_bytes();
    ready(Ok(reply::json(status, body))).boxed()
}
