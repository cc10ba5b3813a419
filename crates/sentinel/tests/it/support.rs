//! What every test uses: gateways and backends as processes, callers of both eras, tokens, stores.

pub(crate) mod callers;
pub(crate) mod elicitation;
pub(crate) mod http;
pub(crate) mod old_server;
pub(crate) mod pipe;
#[path = "../../../pg/tests/pool/cluster.rs"]
pub(crate) mod postgres;
pub(crate) mod processes;
pub(crate) mod records;
#[path = "../../../stores/src/redis/server.rs"]
pub(crate) mod redis;
pub(crate) mod setup;
pub(crate) mod shop;
pub(crate) mod tokens;
pub(crate) mod web;
