//! A gateway's core around one PostgreSQL backend, whose database the test fills.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use sentinel_backends::{BackendKind, Context, MessageLimits};
use sentinel_config::{Expose, PostgresBackend, Registry as RegistryUse, Secret, Token};
use sentinel_core::catalog::Listing;
use sentinel_core::identity::{self, KeyRecord, KeyStore, StoreProblem};
use sentinel_core::{
    Auditor, Backend, Caller, Extra, Fault, Health, Identity, Invocation, Item, ItemKind, Kind,
    Policy, Registry, Reply, Step, View, Walk, invocation, walk,
};
use sentinel_wire::Outcome;
use sentinel_wire::json::Rules;
use serde_json::Value;
use tokio::time::Instant;

use crate::cluster::Cluster;

/// Waiting longer than this for a state is a failure.
const PATIENCE: Duration = Duration::from_secs(20);

/// The login of the gateway: no superuser, and the owner of nothing.
const LOGIN: &str =
    "CREATE ROLE gateway LOGIN; CREATE SCHEMA api; GRANT USAGE ON SCHEMA api TO gateway;";

pub(crate) struct TestGateway {
    pub(crate) cluster: Cluster,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) registry: Arc<Registry>,
    auditor: Arc<Auditor>,
    walk: Walk,
}

/// The settings of a backend for this cluster.
pub(crate) fn settings(cluster: &Cluster) -> PostgresBackend {
    let url = format!("postgres://gateway@{}/postgres", cluster.address());
    PostgresBackend {
        url: Secret::from_variable("DATABASE_URL", &url),
        replicas: None,
        schema: "api".to_owned(),
        expose: Expose::Marked,
        select: Vec::new(),
        registry: RegistryUse::Auto,
        role: String::new(),
        allow_superuser: false,
        token: Token::Digest,
        provider: String::new(),
        statement_timeout: Duration::from_secs(20),
        lock_timeout: Duration::from_secs(5),
        max_connections: 4,
        max_per_operation: 0,
        max_rows: 1000,
        refresh: Duration::ZERO,
    }
}

/// A gateway in front of a database with these objects.
pub(crate) async fn gateway(sql: &str, change: impl FnOnce(&mut PostgresBackend)) -> TestGateway {
    let cluster = Cluster::start();
    cluster.ask(LOGIN);
    cluster.ask(sql);
    let mut settings = settings(&cluster);
    change(&mut settings);
    let gateway = start(cluster, &settings);
    gateway
        .until(|gateway| gateway.backend.status().health == Health::Up)
        .await;
    gateway
}

fn start(cluster: Cluster, settings: &PostgresBackend) -> TestGateway {
    let registry = Registry::new(vec![Listing::new("db")]);
    let context = Context {
        name: "db".to_owned(),
        publisher: registry.publisher(0),
        runtime: tokio::runtime::Handle::current(),
        timeout: Duration::from_secs(20),
        health_interval: Duration::ZERO,
        unhealthy_after: 3,
        idempotent_tools: Vec::new(),
        limits: MessageLimits {
            line: 1 << 20,
            reply: 4 << 20,
            event: 1 << 20,
        },
        keep_running: false,
    };
    let backend = settings.start(context).unwrap();
    registry.attach(0, backend.clone());
    let auditor = Auditor::off();
    let policy = Policy::new(registry.clone(), sentinel_core::policy::Settings::default());
    TestGateway {
        cluster,
        backend,
        registry,
        walk: walk(policy, auditor.clone()),
        auditor,
    }
}

/// A caller without a credential.
pub(crate) fn nobody() -> Arc<Caller> {
    Arc::new(Caller::of(&Identity::local("admin")))
}

struct OneKey(KeyRecord);

impl KeyStore for OneKey {
    fn find(&self, id: &str) -> Option<KeyRecord> {
        (self.0.id == id).then(|| self.0.clone())
    }

    fn list(&self) -> Result<Vec<KeyRecord>, StoreProblem> {
        Ok(vec![self.0.clone()])
    }

    fn add(&self, _: KeyRecord) -> Result<(), StoreProblem> {
        unreachable!("no test adds keys")
    }

    fn revoke(&self, _: &str, _: u64) -> Result<bool, StoreProblem> {
        unreachable!("no test revokes keys")
    }
}

/// A caller with a credential.
pub(crate) fn known(subject: &str, tenant: &str) -> Arc<Caller> {
    let (record, key) = KeyRecord::create("test", "admin", 0, None);
    let config = identity::Config {
        secret: None,
        rules: identity::Rules {
            issuer: String::new(),
            audiences: Vec::new(),
            role_claim: String::new(),
            default_role: String::new(),
            tenant_claim: String::new(),
            leeway: 0,
        },
        api_keys: Some(Arc::new(OneKey(record))),
        anonymous_role: String::new(),
        has_key_source: false,
    };
    let identity = identity::Authenticator::new(config).verify(&key).unwrap();
    Arc::new(Caller {
        subject: subject.into(),
        tenant: Some(tenant.into()),
        ..Caller::of(&identity)
    })
}

impl TestGateway {
    /// Waits for a state.
    pub(crate) async fn until(&self, is_so: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !is_so(self) {
            assert!(start.elapsed() < PATIENCE, "{:?}", self.backend.status());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// A tool's call with arguments as they are written here, for a program.
    pub(crate) async fn run_as(
        &self,
        caller: Arc<Caller>,
        tool: &str,
        arguments: &str,
        extra: Extra,
    ) -> Result<Reply, Fault> {
        let input = invocation::params_named(tool, arguments.as_bytes(), b"", Rules::caller(64));
        let call = Invocation {
            extra,
            ..Invocation::mcp(
                sentinel_core::Round::first(),
                caller,
                View::Only(0),
                sentinel_wire::Method::ToolsCall,
                input.unwrap(),
            )
        };
        let call = Invocation {
            refusals: sentinel_core::Refusals::Faults,
            ..call
        };
        self.finish(call).await
    }

    pub(crate) async fn finish(&self, call: Invocation) -> Result<Reply, Fault> {
        let mut talk = self.walk.begin(call, Arc::default());
        loop {
            if let Step::Done(reply) = talk.next().await {
                return reply;
            }
        }
    }

    pub(crate) async fn call_as(
        &self,
        caller: Arc<Caller>,
        tool: &str,
        arguments: &str,
    ) -> Result<String, Fault> {
        let reply = self
            .run_as(caller, tool, arguments, Extra::default())
            .await?;
        Ok(member(&reply, "structuredContent"))
    }

    /// The structured content of a tool's result, as it was written.
    pub(crate) async fn call(&self, tool: &str, arguments: &str) -> Result<String, Fault> {
        self.call_as(nobody(), tool, arguments).await
    }

    /// The kind of a tool's failure.
    pub(crate) async fn refusal(&self, tool: &str, arguments: &str) -> Kind {
        let outcome = self.call(tool, arguments).await;
        outcome
            .map(|content| panic!("{tool} {arguments}: {content}"))
            .unwrap_err()
            .kind
    }

    /// A resource's result.
    pub(crate) async fn read(&self, uri: &str) -> Result<Value, Fault> {
        let reply = self
            .finish(Invocation::resource(nobody(), View::Only(0), uri))
            .await?;
        Ok(value(&reply))
    }

    /// A prompt's result.
    pub(crate) async fn prompt(&self, name: &str, arguments: &str) -> Result<Value, Fault> {
        let input = invocation::params_named(name, arguments.as_bytes(), b"", Rules::caller(64));
        let call = Invocation::mcp(
            sentinel_core::Round::first(),
            nobody(),
            View::Only(0),
            sentinel_wire::Method::PromptsGet,
            input.unwrap(),
        );
        Ok(value(&self.finish(call).await?))
    }

    pub(crate) fn items(&self, kind: ItemKind) -> Vec<Item> {
        let offer = self.registry.publisher(0).offer().unwrap();
        offer.items(kind).to_vec()
    }

    /// The definition of an operation.
    pub(crate) fn item(&self, kind: ItemKind, key: &str) -> Value {
        let items = self.items(kind);
        let found = items.iter().find(|item| item.key == key);
        let found = found.unwrap_or_else(|| panic!("{key}: {:?}", self.backend.status().notices));
        serde_json::from_slice(&found.raw).unwrap()
    }

    pub(crate) fn has_tool(&self, name: &str) -> bool {
        self.items(ItemKind::Tool)
            .iter()
            .any(|item| item.key == name)
    }

    /// How many results of a tool did not fit its output schema, or could not be compared.
    pub(crate) fn misfits(&self, tool: &str) -> u64 {
        let rows = self.auditor.metrics.rows();
        let rows = rows.iter().filter(|row| row.tool == tool);
        let counts = rows.flat_map(|row| {
            let counted = &row.operation;
            [&counted.output_mismatches, &counted.output_unchecked].map(|one| one.load(Relaxed))
        });
        counts.sum()
    }
}

pub(crate) fn member(reply: &Reply, name: &str) -> String {
    let Outcome::Result(result) = &reply.outcome else {
        panic!("an error instead of a result");
    };
    let found = result.get(name).unwrap_or_default();
    String::from_utf8(found.to_vec()).unwrap()
}

pub(crate) fn value(reply: &Reply) -> Value {
    let Outcome::Result(result) = &reply.outcome else {
        panic!("an error instead of a result");
    };
    serde_json::from_slice(result.as_bytes()).unwrap()
}
