//! What is read of a registry, and when there is none.

use sentinel_config::{Expose, Registry as RegistryUse};
use sentinel_core::ItemKind;
use serde_json::Value;
use tokio::time::Instant;

use super::deployment::{deployment, deployment_with, serve, until};
use crate::cluster::Cluster;

#[tokio::test]
async fn handlers_are_declared_as_their_tables_say() {
    let d = deployment().await;
    let offer = d.registry.publisher(0).offer().expect("an offer");
    let item = |kind: ItemKind, key: &str| -> Value {
        let found = offer.items(kind).iter().find(|item| item.key == key);
        let found = found.unwrap_or_else(|| panic!("{key} is not there"));
        serde_json::from_slice(&found.raw).unwrap()
    };
    let greet = item(ItemKind::Tool, "greet");
    assert_eq!(
        (&greet["title"], &greet["description"]),
        (&"Greet".into(), &"Greets.".into())
    );
    assert_eq!(greet["inputSchema"]["properties"]["who"]["type"], "string");
    assert_eq!(greet["annotations"]["readOnlyHint"], true);
    assert_eq!(greet["_meta"]["tags"][0], "nice");
    assert_eq!(
        item(ItemKind::Resource, "shop://about")["mimeType"],
        "text/plain"
    );
    assert_eq!(
        item(ItemKind::Template, "shop://orders/{id}")["name"],
        "order"
    );
    assert_eq!(
        item(ItemKind::Prompt, "hello")["arguments"][0]["required"],
        true
    );
    item(ItemKind::Tool, "rest/orders_get");
    item(ItemKind::Tool, "rpc/orders.list");
    let shown = offer.routes.iter().filter_map(|route| match &route.kind {
        sentinel_core::RouteKind::Http { pattern, .. } => Some(pattern.shown().to_owned()),
        sentinel_core::RouteKind::Rpc { .. } => None,
    });
    assert!(shown.into_iter().any(|path| path == "/orders/{id}"));
}

#[tokio::test]
async fn expressions_lead_to_the_same_route_here_and_in_the_database() {
    let addresses = [
        (r"^/e1/\d{2,3}$", "/e1/123"),
        (r"^/e2/[[:alpha:]_-]+$", "/e2/a_b-c"),
        (r"^/e3/(?:a|b)*$", "/e3/abab"),
        (r"^/e4/[^/]+(/x)?$", "/e4/q/x"),
        (r"^/e5/\mword\M$", "/e5/word"),
        (r"\A/e6/[]x]+\Z", "/e6/]x"),
        (r"^/e7/a{1}\.json$", "/e7/a.json"),
        (r"^/e8/{x}$", "/e8/{x}"),
        (r"^/e9/[\w.]+?$", "/e9/a.b"),
    ];
    let register = addresses.iter().enumerate().map(|(n, (address, _))| {
        let address = address.replace('\\', "\\\\");
        format!(
            "SELECT api.create_or_replace_rest_handler('{{\"name\": \"expression{n}\", \"path\": \"{address}\", \
             \"requiresAuth\": false}}', $$ BEGIN RETURN internal.json(200, '{n}'); END $$);"
        )
    });
    let d = deployment_with(&register.collect::<String>(), |_| {}).await;
    for (n, (address, path)) in addresses.iter().enumerate() {
        let said = d.rest("GET", path, &[]).await;
        assert_eq!((said.status, said.json()), (200, n.into()), "{address}");
    }
}

#[tokio::test]
async fn a_registry_is_used_if_it_is_there_wanted_and_allowed() {
    let d = deployment_with("", |settings| settings.registry = RegistryUse::Off).await;
    assert!(!d.registry.has_routes());
    let revoke = "REVOKE SELECT ON api.rpc_route FROM registry_api; \
        REVOKE USAGE ON SCHEMA extensions FROM registry_api";
    let d = deployment_with(revoke, |settings| settings.expose = Expose::All).await;
    let notices = d.backend.status().notices;
    let wanted = "the login has no rights on table api.rpc_route, schema extensions";
    assert!(
        notices.iter().any(|notice| notice.contains(wanted)),
        "{notices:?}"
    );
    let offer = d.registry.publisher(0).offer().expect("an offer");
    assert!(
        offer.tools.is_empty(),
        "the registry's own functions are no tools"
    );
    let bare = Cluster::start();
    bare.ask("CREATE ROLE registry_customer LOGIN; CREATE SCHEMA api");
    let d = serve(bare, |settings| settings.registry = RegistryUse::On).await;
    let notices = d.backend.status().notices;
    assert!(
        notices
            .iter()
            .any(|notice| notice.contains("has no registry")),
        "{notices:?}"
    );
}

/// Any role of the database may notify.
#[tokio::test]
async fn a_flood_of_notifications_is_few_readings() {
    // Each reading asks for the version, and no call does here.
    let counting = "CREATE SEQUENCE api.readings; GRANT USAGE ON SEQUENCE api.readings TO PUBLIC;
        CREATE OR REPLACE FUNCTION api.catalog_version() RETURNS text LANGUAGE sql AS
            $$SELECT 'v' FROM (SELECT nextval('api.readings') OFFSET 0) AS s$$;";
    let deployment = deployment_with(counting, |_| {}).await;
    let readings = || -> u64 {
        let last = deployment
            .cluster
            .ask("SELECT last_value FROM api.readings");
        last.parse().unwrap()
    };
    let (before, began) = (readings(), Instant::now());
    for _ in 0..20 {
        deployment.cluster.run(
            "DO $$ BEGIN FOR n IN 1..500 LOOP PERFORM pg_notify('sentinel_catalog', n::text); END LOOP; END $$;",
        );
    }
    until("the last one was heard", async || readings() > before).await;
    let (made, took) = (readings() - before, began.elapsed());
    println!("10,000 notifications in {took:?} were {made} readings");
    let most = took.as_millis() as u64 / 50 + 2;
    assert!(made <= most, "{made} readings in {took:?}");
}
