//! Hearing that lists changed: for the GET stream of a legacy session, for a legacy stdio caller,
//! and for `subscriptions/listen` of a modern one.

use std::sync::Arc;

use sentinel_core::View;
use sentinel_core::catalog::{Change, Generations, Registry};
use sentinel_wire::envelope::{write_notification, write_result};
use sentinel_wire::json::{Object, Rules};
use sentinel_wire::{Id, Method, Request, meta};
use tokio::sync::watch;

/// What changed in one view since the last look. Changes that come faster than they are heard are
/// told once.
pub(crate) struct Changes {
    view: View,
    source: watch::Receiver<Arc<Generations>>,
    seen: Arc<Generations>,
}

impl Changes {
    pub(crate) fn of(registry: &Registry, view: View) -> Self {
        let mut source = registry.changes();
        let seen = source.borrow_and_update().clone();
        Self { view, source, seen }
    }

    /// Waits for a change; empty when it was in other views only, `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Vec<Change>> {
        self.source.changed().await.ok()?;
        let now = self.source.borrow_and_update().clone();
        let changed = now.since(&self.seen, self.view).collect();
        self.seen = now;
        Some(changed)
    }
}

/// The notification for a legacy caller.
pub(crate) fn change_message(change: Change) -> Vec<u8> {
    let mut message = Vec::new();
    write_notification(change.method().as_str(), b"", &mut message);
    message
}

/// One `subscriptions/listen`: which changes its caller wants, under which id.
pub(crate) struct Listener {
    id: Id,
    wanted: Vec<Change>,
    changes: Changes,
}

impl Listener {
    pub(crate) fn new(registry: &Registry, view: View, request: Request) -> Self {
        Self {
            wanted: wanted(&request),
            id: request.id,
            changes: Changes::of(registry, view),
        }
    }

    /// The first message: what of the filter is honoured.
    pub(crate) fn acknowledgement(&self) -> Vec<u8> {
        let honoured: Vec<String> = self
            .wanted
            .iter()
            .map(|c| format!(r#""{}":true"#, filter_key(*c)))
            .collect();
        let params = format!(
            r#"{{{},"notifications":{{{}}}}}"#,
            self.id_member(),
            honoured.join(",")
        );
        let mut message = Vec::new();
        write_notification(
            Method::Acknowledged.as_str(),
            params.as_bytes(),
            &mut message,
        );
        message
    }

    /// The next notifications; may be none.
    pub(crate) async fn next(&mut self) -> Option<Vec<Vec<u8>>> {
        let changed = self.changes.next().await?;
        let params = format!("{{{}}}", self.id_member());
        let tell = |change: Change| {
            let mut message = Vec::new();
            write_notification(change.method().as_str(), params.as_bytes(), &mut message);
            message
        };
        Some(
            changed
                .into_iter()
                .filter(|c| self.wanted.contains(c))
                .map(tell)
                .collect(),
        )
    }

    /// The last message, when the gateway ends the subscription.
    pub(crate) fn farewell(&self) -> Vec<u8> {
        let mut message = Vec::new();
        let result = format!(r#"{{"resultType":"complete",{}}}"#, self.id_member());
        write_result(&self.id, result.as_bytes(), &mut message);
        message
    }

    fn id_member(&self) -> String {
        format!(
            r#""_meta":{{"{}":{}}}"#,
            meta::SUBSCRIPTION_ID,
            String::from_utf8_lossy(self.id.as_bytes())
        )
    }
}

fn wanted(request: &Request) -> Vec<Change> {
    let raw = request.params.get("notifications").unwrap_or_default();
    let filter = Object::parse(raw, Rules::backend()).unwrap_or_default();
    let asked =
        |change: &Change| filter.get(raw, filter_key(*change)).map(|s| s.of(raw)) == Some(b"true");
    Change::ALL.into_iter().filter(asked).collect()
}

fn filter_key(change: Change) -> &'static str {
    match change {
        Change::Tools => "toolsListChanged",
        Change::Resources => "resourcesListChanged",
        Change::Prompts => "promptsListChanged",
    }
}
