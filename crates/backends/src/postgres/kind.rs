//! The kind `postgres`: how its settings become a running backend.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use sentinel_config::{PostgresBackend as Settings, Secret};
use sentinel_core::Backend;
use sentinel_pg::tokio_postgres::Client;
use sentinel_pg::{BoxError, OnConnect, PoolOptions};

use super::database::Database;
use super::standby::Standby;
use super::{Config, PostgresBackend, TYPE};
use crate::kind::{BackendKind, Context, StartError};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

impl BackendKind for Settings {
    fn type_name(&self) -> &'static str {
        TYPE
    }

    /// The URL holds a password: shown is the variable that it comes from.
    fn target(&self) -> String {
        format!("{} (schema {})", self.url.shown(), self.schema)
    }

    fn start(&self, context: Context) -> Result<Arc<dyn Backend>, StartError> {
        // Pools live on the runtime that drives their connections.
        let _on_it = context.runtime.enter();
        let options = |url: &Secret| {
            let options = options(self, url, context.timeout);
            let mut options = options.map_err(|why| StartError::new(&context.name, why))?;
            options.on_connect = (!self.allow_superuser).then(check_login);
            Ok(options)
        };
        let primary = options(&self.url)?;
        let replicas = self.replicas.as_ref().map(options).transpose()?;
        let config = Config {
            reply_bytes_max: context.limits.reply,
            unhealthy_after: context.unhealthy_after,
            ..config(self, context.name, context.timeout)
        };
        let database = Database {
            name: config.name.clone(),
            primary: primary.clone().build(),
            standby: replicas.map(|options| Standby::new(options.build())),
        };
        let backend = PostgresBackend::new(config, database, primary, context.publisher);
        context.runtime.spawn(backend.clone().run());
        Ok(Arc::new(backend))
    }

    fn advice(&self, problem: &str, _stderr: &[String]) -> String {
        advice(problem).to_owned()
    }

    fn weakened(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.allow_superuser {
            found.push(
                "allow_superuser: its login may bypass every rule of the database".to_owned(),
            );
        }
        if self.token == sentinel_config::Token::Full {
            found.push(
                "token = \"full\": functions of the database can read the credentials of callers"
                    .to_owned(),
            );
        }
        found
    }
}

/// How the backend connects, before it looks at its login.
pub(super) fn options(
    settings: &Settings,
    url: &Secret,
    timeout: Duration,
) -> Result<PoolOptions, String> {
    let options = PoolOptions::new(url.expose());
    let mut options =
        options.map_err(|why| format!("the URL in {} cannot be used: {why}", url.shown()))?;
    if !settings.role.is_empty() {
        options = options.setting("role", &settings.role);
    }
    options.max_connections = settings.max_connections as usize;
    options.connect_timeout = CONNECT_TIMEOUT;
    options.answer_timeout = timeout + CONNECT_TIMEOUT;
    Ok(options)
}

/// What the settings come to, without the bounds that the gateway sets.
pub(super) fn config(settings: &Settings, name: String, timeout: Duration) -> Config {
    let per_operation = match settings.max_per_operation {
        0 => settings.max_connections - settings.max_connections / 4,
        some => some.min(settings.max_connections),
    };
    Config {
        name,
        target: settings.target(),
        schema: settings.schema.clone(),
        expose: settings.expose,
        select: settings.select.clone(),
        registry: settings.registry,
        provider: settings.provider.clone(),
        role: match settings.role.as_str() {
            "" => "none".to_owned(),
            role => role.to_owned(),
        },
        token: settings.token,
        statement_timeout: settings.statement_timeout,
        lock_timeout: settings.lock_timeout,
        per_operation: per_operation as usize,
        rows_max: settings.max_rows as usize,
        reply_bytes_max: usize::MAX,
        timeout,
        refresh: settings.refresh,
        unhealthy_after: u32::MAX,
    }
}

/// The login can do more than calls of strangers may.
#[derive(Debug, thiserror::Error)]
#[error(
    "the login role {name} {why}, so row-level security does not hold for it; use another role, or set allow_superuser = true"
)]
struct TooMighty {
    name: String,
    why: &'static str,
}

/// Refuses connections whose login bypasses row-level security. The session's user counts besides the present role, because a
/// function may reset the role.
fn check_login() -> OnConnect {
    const SQL: &str = "SELECT rolname, rolsuper, rolbypassrls FROM pg_catalog.pg_roles \
        WHERE rolname IN (session_user, current_user) AND (rolsuper OR rolbypassrls)";
    Arc::new(|client: &mut Client| {
        async move {
            let Some(row) = client.query_opt(SQL, &[]).await? else {
                return Ok(());
            };
            let why = match row.get::<_, bool>(1) {
                true => "is a superuser",
                false => "has BYPASSRLS",
            };
            let name = row.get(0);
            Err(Box::new(TooMighty { name, why }) as BoxError)
        }
        .boxed()
    })
}

fn advice(problem: &str) -> &'static str {
    let has = |words: &str| problem.contains(words);
    if has("allow_superuser") {
        "let the gateway log in with a role of its own that has rights on the functions only: `sentinel pg init` prints an example of one"
    } else if has("password authentication failed") || has("no password") {
        "correct the password in the URL of the variable that `url_env` names"
    } else if has("does not exist") {
        "correct the name of the database, role or schema"
    } else if has("took too long") || has("error connecting") || has("refused") {
        "look whether the database is running and reachable from this machine"
    } else if has("permission denied") {
        "grant the login role USAGE on the schema and EXECUTE on its functions; `sentinel pg check` says what is missing"
    } else {
        "`sentinel pg check` looks at the database as this backend does"
    }
}
