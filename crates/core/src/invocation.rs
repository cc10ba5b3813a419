//! What a caller asks for, whatever surface it came in by.

use std::sync::Arc;

/// Which endpoint a call came in by, and so which names it may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum View {
    /// `/mcp`: all backends, exposed names.
    Merged,
    /// `/mcp/<backend>`: one backend, its own names. The index is the backend's place in the registry,
    /// which it keeps for the life of the process.
    Only(usize),
}

/// What we know of a task besides its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskOf {
    /// The tool that became the task, by its backend's own name: policy decides on it.
    pub tool: Arc<str>,
    /// What its caller could be asked for when it began (`ClientCapabilities::questions`): a legacy server
    /// knows the task in the session of such callers.
    pub questions: u8,
}
