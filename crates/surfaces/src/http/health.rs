//! `/health`: we are alive. `/ready`: calls can be served. Open to everybody, whatever the host.

use http::{Method as Verb, Response, StatusCode};
use sentinel_core::Health;
use serde_json::json;

use super::body::Body;
use super::reply;
use crate::gateway::Gateway;

pub(super) fn health(verb: &Verb) -> Response<Body> {
    if !matches!(*verb, Verb::GET | Verb::HEAD) {
        return reply::method_not_allowed("GET, HEAD");
    }
    let body = json!({"status": "ok", "version": env!("CARGO_PKG_VERSION")});
    reply::json(StatusCode::OK, body.to_string().into_bytes())
}

/// Ready once every eager backend was tried and one is usable, or none is configured.
pub(super) fn ready(verb: &Verb, gateway: &Gateway) -> Response<Body> {
    if !matches!(*verb, Verb::GET | Verb::HEAD) {
        return reply::method_not_allowed("GET, HEAD");
    }
    let registry = &gateway.registry;
    let mut checks = serde_json::Map::new();
    let mut usable = 0;
    let mut starting = 0;
    // Built-ins are always up: they must not hide that nothing else is.
    for (_, backend) in registry.backends() {
        if backend.is_builtin() {
            continue;
        }
        let health = backend.status().health;
        usable += usize::from(matches!(health, Health::Up | Health::Asleep));
        starting += usize::from(health == Health::Starting);
        checks.insert(backend.name().to_owned(), health.as_str().into());
    }
    let reason = if gateway.is_draining() {
        Some("shutting down")
    } else if starting > 0 && !registry.all_tried() {
        Some("backends are starting")
    } else if usable == 0 && !checks.is_empty() {
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
    reply::json(status, body.to_string().into_bytes())
}
