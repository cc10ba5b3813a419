//! The methods of MCP, and which revision knows which.

use crate::revision::Revision;

macro_rules! methods {
    ($($name:ident = $text:literal,)*) => {
        /// A JSON-RPC method name; those of MCP are told apart once, here.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum Method {
            $($name,)*
            Other(Box<str>),
        }

        impl Method {
            pub fn parse(text: &str) -> Self {
                match text {
                    $($text => Self::$name,)*
                    other => Self::Other(other.into()),
                }
            }

            /// The name, if it is one of MCP's own.
            pub fn known(&self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some($text),)*
                    Self::Other(_) => None,
                }
            }

            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$name => $text,)*
                    Self::Other(text) => text,
                }
            }
        }
    };
}

methods! {
    // Requests of callers.
    Initialize = "initialize",
    Ping = "ping",
    Discover = "server/discover",
    ToolsList = "tools/list",
    ToolsCall = "tools/call",
    ResourcesList = "resources/list",
    ResourceTemplatesList = "resources/templates/list",
    ResourcesRead = "resources/read",
    ResourcesSubscribe = "resources/subscribe",
    ResourcesUnsubscribe = "resources/unsubscribe",
    PromptsList = "prompts/list",
    PromptsGet = "prompts/get",
    Complete = "completion/complete",
    SetLevel = "logging/setLevel",
    Listen = "subscriptions/listen",
    TasksGet = "tasks/get",
    TasksUpdate = "tasks/update",
    TasksCancel = "tasks/cancel",
    // Of 2025-11-25 only: sent to legacy backends, never accepted from callers.
    TasksResult = "tasks/result",
    TasksList = "tasks/list",
    // Questions of legacy backends, and the kinds of input that modern ones request.
    Sample = "sampling/createMessage",
    Elicit = "elicitation/create",
    RootsList = "roots/list",
    // Notifications.
    Initialized = "notifications/initialized",
    Cancelled = "notifications/cancelled",
    Progress = "notifications/progress",
    LogMessage = "notifications/message",
    ToolsChanged = "notifications/tools/list_changed",
    ResourcesChanged = "notifications/resources/list_changed",
    ResourceUpdated = "notifications/resources/updated",
    PromptsChanged = "notifications/prompts/list_changed",
    RootsChanged = "notifications/roots/list_changed",
    ElicitationComplete = "notifications/elicitation/complete",
    Acknowledged = "notifications/subscriptions/acknowledged",
    TaskChanged = "notifications/tasks",
}

impl Method {
    /// Whether a caller of this revision may send it as a request.
    pub fn is_request_in(&self, revision: Revision) -> bool {
        match self {
            Self::ToolsList
            | Self::ToolsCall
            | Self::ResourcesList
            | Self::ResourceTemplatesList
            | Self::ResourcesRead
            | Self::PromptsList
            | Self::PromptsGet
            | Self::Complete => true,
            Self::Initialize
            | Self::Ping
            | Self::SetLevel
            | Self::ResourcesSubscribe
            | Self::ResourcesUnsubscribe => !revision.is_modern(),
            Self::Discover
            | Self::Listen
            | Self::TasksGet
            | Self::TasksUpdate
            | Self::TasksCancel => revision.is_modern(),
            _ => false,
        }
    }

    /// The member of `params` that the `Mcp-Name` header of 2026-07-28 repeats.
    pub fn name_member(&self) -> Option<&'static str> {
        match self {
            Self::ToolsCall | Self::PromptsGet => Some("name"),
            Self::ResourcesRead => Some("uri"),
            Self::TasksGet | Self::TasksUpdate | Self::TasksCancel => Some("taskId"),
            _ => None,
        }
    }

    /// Results of these carry `ttlMs` and `cacheScope` in 2026-07-28.
    pub fn is_cacheable(&self) -> bool {
        matches!(
            self,
            Self::Discover
                | Self::ToolsList
                | Self::ResourcesList
                | Self::ResourceTemplatesList
                | Self::PromptsList
                | Self::ResourcesRead
        )
    }

    /// Only these may be answered with `input_required`.
    pub fn may_need_input(&self) -> bool {
        matches!(
            self,
            Self::ToolsCall | Self::PromptsGet | Self::ResourcesRead
        )
    }
}
