//! A gateway in front of the shop, and a client of it.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use sentinel_core::audit::{AuditSettings, Draft, NotKept, Sink};
use sentinel_core::catalog::Listing;
use sentinel_core::policy::{Role, Roles, Settings};
use sentinel_core::{Auditor, Identity, Policy, Registry};
use sentinel_surfaces::http::{Access, Allowed, HttpServer, Mounts, Scrape, Serving};
use sentinel_surfaces::{Gateway, Limits};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::sync::{OwnedRwLockWriteGuard, RwLock};

use crate::shop::{Shop, offer};

/// A record, as far as tests look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) surface: String,
    pub(crate) operation: String,
    pub(crate) outcome: String,
    pub(crate) kind: String,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
}

#[derive(Default)]
struct Records(Mutex<Vec<Kept>>);

impl Sink for Records {
    fn append(&self, draft: &Draft<'_>) {
        self.0.lock().push(Kept {
            surface: draft.surface.to_owned(),
            operation: draft.operation.to_owned(),
            outcome: draft.outcome.to_owned(),
            kind: draft.kind.to_owned(),
            bytes_in: draft.bytes_in,
            bytes_out: draft.bytes_out,
        });
    }

    fn intend(&self, _: &Draft<'_>) -> BoxFuture<'static, Result<u64, NotKept>> {
        Box::pin(std::future::ready(Ok(1)))
    }
}

pub(crate) struct Site {
    pub(crate) gateway: Arc<Gateway>,
    records: Arc<Records>,
    server: Arc<HttpServer>,
    gate: Arc<RwLock<()>>,
}

/// An answer, whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// In lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

impl Site {
    /// For a caller of this role. `viewer` sees nothing of `secret`, and must confirm pages.
    pub(crate) fn of(role: &str) -> Self {
        Self::with(
            Access::Trusted(Identity::local(role)),
            Mounts::default(),
            Limits::default(),
        )
    }

    pub(crate) fn with(access: Access, mounts: Mounts, limits: Limits) -> Self {
        let registry = Registry::new(vec![Listing::new("shop")]);
        let gate = Arc::<RwLock<()>>::default();
        registry.attach(0, Arc::new(Shop { gate: gate.clone() }));
        registry.publisher(0).publish(offer());
        let viewer = Role::new(["tools.execute"], ["secret"]).confirming(["page"]);
        let roles = Roles::new([("viewer".to_owned(), viewer)]);
        let settings = Settings {
            roles,
            ..Settings::default()
        };
        let records = Arc::new(Records::default());
        let auditor = Auditor::new(
            Arc::default(),
            Some(records.clone()),
            AuditSettings::default(),
        );
        let gateway = Gateway::new(Policy::new(registry, settings), limits, auditor);
        let (allowed, scrape) = (Allowed::default(), Scrape::Off);
        let server = HttpServer::new(gateway.clone(), allowed, mounts, access, scrape);
        Self {
            gateway,
            records,
            server,
            gate,
        }
    }

    /// Has calls of the shop wait until the guard is dropped.
    pub(crate) async fn hold(&self) -> OwnedRwLockWriteGuard<()> {
        self.gate.clone().write_owned().await
    }

    pub(crate) fn records(&self) -> Vec<Kept> {
        std::mem::take(&mut *self.records.0.lock())
    }

    /// `line`: verb and path.
    pub(crate) async fn send(&self, line: &str, headers: &[&str], body: &str) -> Answer {
        self.send_to(None, line, headers, body).await
    }

    pub(crate) async fn get(&self, line: &str) -> Answer {
        self.send(line, &[], "").await
    }

    pub(crate) async fn json(&self, line: &str, body: &str) -> Answer {
        self.send(line, &["Content-Type: application/json"], body)
            .await
    }

    pub(crate) async fn send_to(
        &self,
        serving: Option<Serving>,
        line: &str,
        headers: &[&str],
        body: &str,
    ) -> Answer {
        let (mut ours, stream) = duplex(1 << 20);
        let (server, from) = (self.server.clone(), IpAddr::V4(Ipv4Addr::LOCALHOST));
        tokio::spawn(server.serve(stream, from, serving.map(Arc::new)));
        let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
        let len = match body.is_empty() {
            true => String::new(),
            false => format!("Content-Length: {}\r\n", body.len()),
        };
        let request = format!(
            "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}{len}\r\n{body}"
        );
        ours.write_all(request.as_bytes())
            .await
            .expect("it is sent");
        let mut answer = Vec::new();
        ours.read_to_end(&mut answer).await.expect("it is answered");
        parse(&answer).expect("an answer")
    }
}

fn parse(bytes: &[u8]) -> io::Result<Answer> {
    let text = String::from_utf8_lossy(bytes);
    let broken = || io::Error::other(text.to_string());
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(broken)?;
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1));
    let status = status
        .and_then(|status| status.parse().ok())
        .ok_or_else(broken)?;
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let body = match headers.get("transfer-encoding") {
        Some(_) => unchunked(body).ok_or_else(broken)?,
        None => body.to_owned(),
    };
    Ok(Answer {
        status,
        headers,
        body,
    })
}

fn unchunked(mut text: &str) -> Option<String> {
    let mut out = String::new();
    loop {
        let (len, rest) = text.split_once("\r\n")?;
        let len = usize::from_str_radix(len, 16).ok()?;
        if len == 0 {
            return Some(out);
        }
        out.push_str(rest.get(..len)?);
        text = rest.get(len + 2..)?;
    }
}
