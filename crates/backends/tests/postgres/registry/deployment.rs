//! The deployment: a server of its own with the registry, a backend that logs in as its customer, and the walk of calls.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sentinel_backends::{BackendKind, Context, MessageLimits};
use sentinel_config::{Expose, PostgresBackend, Registry as RegistryUse, Secret, Token};
use sentinel_core::catalog::{Listing, PathMatch, RouteRequest};
use sentinel_core::identity::{Authenticator, Config, Rules, mint, now};
use sentinel_core::invocation::{Extra, Refusals};
use sentinel_core::{
    Addressing, Auditor, Backend, Caller, Fault, Health, HttpAnswer, HttpCall, Identity,
    Invocation, Policy, Registry, Reply, Round, Step, View, Walk, policy, walk,
};
use sentinel_pg::{PoolOptions, Session};
use sentinel_wire::json::Rules as JsonRules;
use sentinel_wire::{Method, Outcome, Params};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cluster::Cluster;

/// Stands in every error that a handler raises.
pub(crate) const MARKER: &str = "SECRET-MARKER";
pub(crate) const ISSUER: &str = "https://idp.example";

const REGISTRY: [&str; 4] = [
    include_str!("1-schema.sql"),
    include_str!("2-http.sql"),
    include_str!("3-mcp.sql"),
    include_str!("4-handlers.sql"),
];
const PATIENCE: Duration = Duration::from_secs(20);
const SIGNING: &[u8] = b"0123456789abcdef0123456789abcdef";

pub(crate) struct Deployment {
    pub(crate) cluster: Cluster,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) registry: Arc<Registry>,
    walk: Walk,
}

/// An answer, its body as text.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
}

impl Said {
    fn of(answer: &HttpAnswer) -> Self {
        Self {
            status: answer.status,
            headers: answer.headers.clone(),
            body: answer.body.clone(),
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|why| panic!("{why}: {self:?}"))
    }

    /// Nothing of it holds the marker.
    pub(crate) fn assert_clean(&self) {
        let text = format!("{self:?}");
        assert!(!text.contains(MARKER), "{text}");
        assert!(!String::from_utf8_lossy(&self.body).contains(MARKER));
    }
}

/// A caller without a credential.
pub(crate) fn nobody() -> Caller {
    Caller::of(&Identity::local("admin"))
}

/// A caller with a token.
pub(crate) fn known(subject: &str, tenant: &str) -> Caller {
    let authenticator = Authenticator::new(Config {
        secret: Some(SIGNING.to_vec()),
        rules: Rules {
            issuer: ISSUER.into(),
            audiences: vec!["gateway".into()],
            role_claim: "role".into(),
            default_role: "admin".into(),
            tenant_claim: "tenant_id".into(),
            leeway: 60,
        },
        api_keys: None,
        anonymous_role: String::new(),
        has_key_source: false,
    });
    let claims = json!({
        "iss": ISSUER, "aud": "gateway", "sub": subject, "tenant_id": tenant,
        "email": format!("{subject}@example.com"), "exp": now() + 600, "iat": now(),
    });
    let token = mint::hs256(SIGNING, claims.as_object().unwrap());
    Caller::of(&authenticator.verify(&token).unwrap())
}

pub(crate) async fn deployment() -> Deployment {
    deployment_with("", |_| {}).await
}

/// The deployment after this SQL of a superuser, with changed settings.
pub(crate) async fn deployment_with(
    sql: &str,
    change: impl FnOnce(&mut PostgresBackend),
) -> Deployment {
    let cluster = Cluster::start();
    let pool = PoolOptions::new(&cluster.url()).unwrap().build();
    let script = format!("{}; {sql}", REGISTRY.join("\n"));
    let made = pool.run(async |session: &mut Session| session.batch(&script).await);
    made.await.unwrap().unwrap();
    serve(cluster, change).await
}

/// A backend on whatever the cluster holds.
pub(crate) async fn serve(
    cluster: Cluster,
    change: impl FnOnce(&mut PostgresBackend),
) -> Deployment {
    let url = format!(
        "postgres://registry_customer@{}/postgres",
        cluster.address()
    );
    let mut settings = PostgresBackend {
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
        statement_timeout: PATIENCE,
        lock_timeout: Duration::from_secs(5),
        max_connections: 4,
        max_per_operation: 4,
        max_rows: 1000,
        refresh: Duration::ZERO,
    };
    change(&mut settings);
    let registry = Registry::new(vec![Listing::new("db")]);
    let context = Context {
        name: "db".to_owned(),
        publisher: registry.publisher(0),
        runtime: tokio::runtime::Handle::current(),
        timeout: PATIENCE,
        health_interval: Duration::ZERO,
        unhealthy_after: 3,
        idempotent_tools: Vec::new(),
        limits: MessageLimits {
            line: 1 << 20,
            reply: 1 << 20,
            event: 1 << 20,
        },
        keep_running: false,
    };
    let backend = settings.start(context).unwrap();
    registry.attach(0, backend.clone());
    let policy = Policy::new(registry.clone(), policy::Settings::default());
    let deployment = Deployment {
        cluster,
        backend,
        registry,
        walk: walk(policy, Auditor::off()),
    };
    until("the backend is up", async || {
        deployment.backend.status().health == Health::Up
    })
    .await;
    deployment
}

/// Waits for a state.
pub(crate) async fn until(what: &str, is: impl AsyncFn() -> bool) {
    let began = Instant::now();
    while !is().await {
        assert!(
            began.elapsed() < PATIENCE,
            "not within {PATIENCE:?}: {what}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

impl Deployment {
    async fn run(&self, invocation: Invocation) -> Result<Reply, Fault> {
        let mut talk = self.walk.begin(invocation, Arc::default());
        match talk.next().await {
            Step::Done(reply) => reply,
            Step::Event(event) => panic!("nobody expected {event:?}"),
        }
    }

    fn invocation(caller: Caller, method: Method, params: &Value) -> Invocation {
        let params = Params::parse(params.to_string().into(), JsonRules::caller(64)).unwrap();
        let round = Round::first();
        Invocation::mcp(round, Arc::new(caller), View::Only(0), method, params)
    }

    /// A request as a whole, to this tool.
    pub(crate) async fn whole(
        &self,
        caller: Caller,
        tool: &str,
        request: HttpCall,
    ) -> Result<Said, Fault> {
        let request = Arc::new(request);
        let params = json!({"name": tool, "arguments": {}});
        let invocation = Invocation {
            refusals: Refusals::Faults,
            extra: Extra {
                http: Some(request.clone()),
                rows: None,
            },
            ..Self::invocation(caller, Method::ToolsCall, &params)
        };
        self.run(invocation).await?;
        Ok(Said::of(request.answered().expect("an answer")))
    }

    /// The tool that a request goes to.
    pub(crate) fn routed(
        &self,
        verb: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Option<String> {
        let header = |name: &str| {
            let found = headers.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| *value)
        };
        let request = RouteRequest {
            verb,
            path,
            header: &header,
        };
        match self.registry.http_route(request, |_| true) {
            PathMatch::Found(found) => {
                assert!(found.is_whole);
                Some(found.operation.own.to_string())
            }
            PathMatch::Unknown => None,
            PathMatch::OtherVerbs(_) => panic!("the database answers for other verbs"),
        }
    }

    /// A REST request.
    pub(crate) async fn try_rest(
        &self,
        caller: Caller,
        verb: &str,
        url: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Said, Fault> {
        let path = url.split('?').next().unwrap();
        let tool = self.routed(verb, path, headers);
        let tool = tool.unwrap_or_else(|| panic!("{path} has no route"));
        let headers = headers.iter().map(|(n, v)| ((*n).into(), (*v).into()));
        let body = Bytes::copy_from_slice(body);
        let request = HttpCall::new(verb, url, headers.collect(), body);
        let caller = Caller {
            addressing: Addressing::Route,
            ..caller
        };
        self.whole(caller, &tool, request).await
    }

    pub(crate) async fn rest(&self, verb: &str, url: &str, headers: &[(&str, &str)]) -> Said {
        let said = self.try_rest(nobody(), verb, url, headers, b"").await;
        said.unwrap_or_else(|fault| panic!("{verb} {url}: {fault:?}"))
    }

    pub(crate) async fn get_as(&self, caller: Caller, url: &str, headers: &[(&str, &str)]) -> Said {
        self.try_rest(caller, "GET", url, headers, b"")
            .await
            .unwrap()
    }

    /// A request of JSON-RPC.
    pub(crate) async fn rpc(&self, caller: Caller, method: &str, body: &str) -> Said {
        let found = self.registry.rpc_route(method, |_| true);
        let found = found.unwrap_or_else(|| panic!("{method} has no route"));
        assert!(found.is_whole);
        let body = Bytes::copy_from_slice(body.as_bytes());
        let headers = vec![("x-user-id".into(), "idp|root".into())];
        let request = HttpCall::new("POST", "/rpc", headers, body);
        let caller = Caller {
            addressing: Addressing::Rpc,
            ..caller
        };
        self.whole(caller, &found.operation.own, request)
            .await
            .unwrap()
    }

    /// A request of MCP: the result, or the error object.
    pub(crate) async fn mcp(
        &self,
        caller: Caller,
        method: Method,
        params: Value,
    ) -> Result<Result<Value, Value>, Fault> {
        let reply = self.run(Self::invocation(caller, method, &params)).await?;
        let parsed = |raw: &[u8]| serde_json::from_slice(raw).unwrap();
        Ok(match &reply.outcome {
            Outcome::Result(result) => Ok(parsed(result.as_bytes())),
            Outcome::Error(error) => Err(parsed(error.as_bytes())),
        })
    }
}
