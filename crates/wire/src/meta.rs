//! The `_meta` keys of 2026-07-28.

pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
pub const PROGRESS_TOKEN: &str = "progressToken";
/// Links a message to a task, in 2025-11-25 only.
pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
/// The W3C trace context, in either era.
pub const TRACEPARENT: &str = "traceparent";

/// Keys that only a modern server understands; they are not sent to legacy ones.
pub const MODERN_REQUEST_KEYS: [&str; 4] = [
    PROTOCOL_VERSION,
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
];
