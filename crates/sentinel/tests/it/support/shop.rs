//! A database with functions for two tenants, and a gateway in front of it.

use serde_json::{Value, json};

use crate::support::postgres::Cluster;
use crate::support::setup::{Gateway, Setup, until};
use crate::support::tokens::token;

const SCHEMA: &str = include_str!("../postgres/shop.sql");

/// Callers of these tests without a credential have the role `guest`.
pub(crate) const AUTH: &str = "[auth]\nanonymous_role = \"guest\"\n\
    [rbac.roles.agent]\npermissions = [\"tools.read\", \"tools.execute\"]\n\
    [rbac.roles.guest]\npermissions = [\"tools.read\", \"tools.execute\"]\n";

pub(crate) struct Shop {
    pub(crate) gateway: Gateway,
    pub(crate) cluster: Cluster,
}

impl Shop {
    pub(crate) fn start(more_of_backend: &str) -> Self {
        Self::with(AUTH, more_of_backend)
    }

    /// `config` comes before the backend, and `more_of_backend` into its section.
    pub(crate) fn with(config: &str, more_of_backend: &str) -> Self {
        let cluster = Cluster::start();
        cluster.run(SCHEMA);
        let gateway = gateway_of(&login_url(&cluster), config, more_of_backend);
        Self { gateway, cluster }
    }

    /// How many backends of the gateway run a statement that contains this.
    pub(crate) fn running(&self, text: &str) -> u64 {
        let sql = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE usename = 'gateway' AND state = 'active' \
             AND query LIKE '%{text}%'"
        );
        self.cluster.ask(&sql).parse().expect("a number")
    }

    /// Waits until so many statements that contain this run.
    pub(crate) fn wait_running(&self, text: &str, count: u64) {
        until("statements run", || {
            (self.running(text) == count).then_some(())
        });
    }
}

pub(crate) fn gateway_of(url: &str, config: &str, more_of_backend: &str) -> Gateway {
    let config = format!(
        "{config}\n[[backends]]\nname = \"shop\"\ntype = \"postgres\"\nurl_env = \"SHOP_DATABASE_URL\"\n{more_of_backend}\n"
    );
    let setup = Setup::with_env(&config, &[("SHOP_DATABASE_URL", url)]);
    let gateway = Gateway::start_in(setup);
    gateway.wait_ready();
    gateway
}

/// The URL with which gateways log in.
pub(crate) fn login_url(cluster: &Cluster) -> String {
    format!("postgres://gateway@{}/postgres", cluster.address())
}

/// The credential of somebody of a tenant.
pub(crate) fn member(subject: &str, tenant: &str) -> String {
    token(json!({"sub": subject, "role": "agent", "tenant_id": tenant,
                 "email": format!("{subject}@{tenant}.example")}))
}

/// The tenants of rows that an answer shows.
#[track_caller]
pub(crate) fn tenants(rows: &Value) -> Vec<&str> {
    let rows = rows["rows"]
        .as_array()
        .unwrap_or_else(|| panic!("no rows: {rows}"));
    let mut found: Vec<&str> = rows
        .iter()
        .map(|row| row["tenant"].as_str().expect("a tenant"))
        .collect();
    found.dedup();
    found
}
