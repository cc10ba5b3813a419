//! Hearing that lists changed: for the GET stream of a legacy session, for a legacy stdio caller,
//! and for `subscriptions/listen` of a modern one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sentinel_core::catalog::{Change, Generations, Registry};
use sentinel_core::updates::{Hear, Ticket};
use sentinel_core::{Caller, Reply, Step, View};
use sentinel_wire::envelope::{write_notification, write_result};
use sentinel_wire::json::{self, Object, Rules};
use sentinel_wire::{Id, Method, Outcome, Params, Request, meta};
use tokio::sync::{mpsc, watch};

use super::subscribe::{SUBSCRIPTIONS_MAX, updated_message};
use crate::gateway::Gateway;

/// What changed in one view since the last look. Changes that come faster than they are heard are
/// told once.
#[derive(Clone)]
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
        // Not `changed`: a clone that is taken up later has changes before it that were never told.
        let seen = self.seen.clone();
        let newer = self.source.wait_for(|now| !Arc::ptr_eq(now, &seen));
        newer.await.ok()?;
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

/// News of resources waiting for one listener; one that lags behind this far is cut off.
const HEARD_MAX: usize = 256;
/// How long a backend may take to agree to a subscription.
const AGREE_MAX: Duration = Duration::from_secs(10);

/// One `subscriptions/listen`: which changes its caller wants, under which id.
pub(crate) struct Listener {
    id: Id,
    wanted: Vec<Change>,
    changes: Changes,
    followed: Vec<(String, Ticket)>,
    heard: mpsc::Receiver<String>,
    /// It did not keep up.
    lost: Arc<AtomicBool>,
}

impl Listener {
    /// Asks the owners of the resources it names; what they refuse is left out.
    pub(crate) async fn open(
        gateway: &Gateway,
        caller: Arc<Caller>,
        view: View,
        request: Request,
    ) -> Self {
        let (tell, heard) = mpsc::channel(HEARD_MAX);
        let lost = Arc::new(AtomicBool::new(false));
        let hear: Hear = {
            let lost = lost.clone();
            Arc::new(move |uri| {
                if tell.try_send(uri.to_owned()).is_err() {
                    lost.store(true, Ordering::Relaxed);
                }
            })
        };
        let changes = Changes::of(&gateway.registry, view);
        let mut followed = Vec::new();
        for uri in resources(&request) {
            let Some(ticket) = gateway.registry.listen(view, &uri, hear.clone()) else {
                continue;
            };
            if agrees(gateway, &caller, view, &uri).await {
                followed.push((uri, ticket));
            }
        }
        Self {
            wanted: wanted(&request),
            id: request.id,
            changes,
            followed,
            heard,
            lost,
        }
    }

    /// The first message: what of the filter is honoured.
    pub(crate) fn acknowledgement(&self) -> Vec<u8> {
        let mut honoured: Vec<String> = self
            .wanted
            .iter()
            .map(|c| format!(r#""{}":true"#, filter_key(*c)))
            .collect();
        if !self.followed.is_empty() {
            let uris: Vec<&str> = self.followed.iter().map(|(uri, _)| uri.as_str()).collect();
            honoured.push(format!(
                r#""resourceSubscriptions":{}"#,
                serde_json::json!(uris)
            ));
        }
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

    /// The next notifications, which may be none; `None` when it is over.
    pub(crate) async fn next(&mut self) -> Option<Vec<Vec<u8>>> {
        if self.lost.load(Ordering::Relaxed) {
            return None;
        }
        let id = self.id_member();
        tokio::select! {
            Some(uri) = self.heard.recv() => Some(vec![updated_message(&uri, &format!(",{id}"))]),
            changed = self.changes.next() => {
                let tell = |change: Change| {
                    let mut message = Vec::new();
                    write_notification(change.method().as_str(), format!("{{{id}}}").as_bytes(), &mut message);
                    message
                };
                Some(changed?.into_iter().filter(|c| self.wanted.contains(c)).map(tell).collect())
            }
        }
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

/// The resources a listener names, within the bound.
fn resources(request: &Request) -> Vec<String> {
    let raw = request.params.get("notifications").unwrap_or_default();
    let filter = Object::parse(raw, Rules::backend()).unwrap_or_default();
    let Some(list) = filter.get(raw, "resourceSubscriptions").map(|s| s.of(raw)) else {
        return Vec::new();
    };
    let spans = json::elements(list, Rules::backend()).unwrap_or_default();
    let uris = spans
        .iter()
        .filter_map(|span| json::decode_string(span.of(list)));
    uris.map(|uri| uri.into_owned())
        .take(SUBSCRIPTIONS_MAX)
        .collect()
}

/// Whether the caller may follow a resource and its backend agrees: asked like any other call.
async fn agrees(gateway: &Gateway, caller: &Arc<Caller>, view: View, uri: &str) -> bool {
    let mut params = br#"{"uri":"#.to_vec();
    json::encode_string(uri, &mut params);
    params.push(b'}');
    let params = Params::parse(params.into(), Rules::backend()).expect("what we wrote is JSON");
    let mut talk = gateway.walk.begin(
        caller.clone(),
        view,
        Method::ResourcesSubscribe,
        params,
        Arc::default(),
    );
    let outcome = async {
        loop {
            if let Step::Done(outcome) = talk.next().await {
                return outcome;
            }
        }
    };
    matches!(
        tokio::time::timeout(AGREE_MAX, outcome).await,
        Ok(Ok(Reply {
            outcome: Outcome::Result(_),
            ..
        }))
    )
}
