//! The merged catalog: names, collisions, cold starts, views, routing.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use sentinel_wire::json::Rules;
use sentinel_wire::{Method, Params, Revision};

use super::*;
use crate::backend::{Health, Status};
use crate::fault::Kind;
use crate::identity::Identity;
use crate::invocation::View;
use crate::offer::{Item, ServerCapabilities};
use crate::policy::{Policy, Role, Roles, Settings};
use crate::reply::Reply;

/// A backend that is only a name; the catalog never calls it.
struct Named(String);

impl Backend for Named {
    fn name(&self) -> &str {
        &self.0
    }
    fn call(&self, _: Box<Call>) -> BoxFuture<'static, Result<Reply, Fault>> {
        unreachable!("the catalog routes, it does not call")
    }
    fn status(&self) -> Status {
        Status::of(Health::Up)
    }
    fn stop(&self) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }
}

fn registry(listings: Vec<Listing>) -> Arc<Registry> {
    let names: Vec<String> = listings.iter().map(|l| l.name.clone()).collect();
    let registry = Registry::new(listings);
    for (i, name) in names.into_iter().enumerate() {
        registry.attach(i, Arc::new(Named(name)));
    }
    registry
}

fn plain(names: &[&str]) -> Arc<Registry> {
    registry(names.iter().map(|n| Listing::new(*n)).collect())
}

fn items(kind: ItemKind, keys: &[&str]) -> Vec<Item> {
    let member = kind.key_member();
    keys.iter()
        .map(|key| {
            Item::parse(
                kind,
                Bytes::from(format!(r#"{{"{member}":"{key}","x":1.0}}"#)),
            )
            .expect("an item")
        })
        .collect()
}

fn tools(names: &[&str]) -> Offer {
    Offer {
        capabilities: ServerCapabilities {
            tools: true,
            ..Default::default()
        },
        tools: items(ItemKind::Tool, names),
        ..Offer::empty(Revision::V2025_11_25)
    }
}

fn listed(registry: &Registry, view: View) -> Vec<String> {
    let raw = registry
        .catalog()
        .pages(view, ItemKind::Tool, Revision::V2025_11_25, true)
        .concat();
    let value: serde_json::Value = serde_json::from_slice(&raw).expect("json");
    let tools = value["tools"].as_array().expect("tools");
    tools
        .iter()
        .map(|t| t["name"].as_str().expect("a name").to_owned())
        .collect()
}

#[tokio::test]
async fn decision_1_who_sees_nothing_of_a_backend_does_not_see_it_while_it_is_away_either() {
    let registry = plain(&["a", "b"]);
    let role = |permissions: &[&'static str], denied: &[&'static str]| {
        Role::new(permissions.to_vec(), denied.to_vec())
    };
    let roles = Roles::new([
        ("tool".to_owned(), role(&["tool:x"], &[])),
        ("own".to_owned(), role(&["a.x"], &[])),
        ("reader".to_owned(), role(&["tools.read"], &["a.nothing"])),
        ("denied".to_owned(), role(&["tools.read"], &["a.*"])),
        ("singly".to_owned(), role(&["tools.read"], &["a.x", "y"])),
        ("other".to_owned(), role(&["b.*", "tool:b*"], &[])),
        // Rules that mean nothing it lists, and those that may mean what is in no list.
        ("nothing".to_owned(), role(&["a.zzz", "a.z*"], &[])),
        ("uri".to_owned(), role(&["a.docs://z"], &[])),
        ("method".to_owned(), role(&["a.acme/z"], &[])),
    ]);
    let settings = Settings {
        roles,
        ..Settings::default()
    };
    let policy = Policy::new(registry.clone(), settings);
    let see = || -> Vec<&str> {
        let all = [
            "tool", "own", "reader", "denied", "singly", "other", "nothing", "uri", "method", "?",
        ];
        let sees = |role: &&str| policy.sees_backend(&Identity::local(role), 0);
        all.into_iter().filter(sees).collect()
    };
    // Nobody knows yet what it offers: whoever could see anything.
    assert_eq!(
        see(),
        ["own", "reader", "singly", "nothing", "uri", "method"]
    );
    let publisher = registry.publisher(0);
    publisher.publish(tools(&["x", "y"]));
    let seen = ["tool", "own", "reader", "method"];
    assert_eq!(see(), seen);
    // Those who saw something of it still have an endpoint, to hear when it is back.
    publisher.withdraw();
    assert_eq!(see(), seen);
    // Where there are resources, some may be in no list.
    let mut with_resources = tools(&["x", "y"]);
    with_resources.capabilities.resources = true;
    publisher.publish(with_resources);
    let seen = ["tool", "own", "reader", "nothing", "uri", "method"];
    assert_eq!(see(), seen);
    // What was found out is forgotten with the roles.
    assert_eq!(see(), seen);
    policy.set_roles(Roles::new([("other".to_owned(), role(&["a.x"], &[]))]));
    assert_eq!(see(), ["other"]);
}

fn find(
    registry: &Registry,
    view: View,
    method: Method,
    params: &str,
) -> Result<(usize, Option<String>), Kind> {
    let params =
        Params::parse(Bytes::copy_from_slice(params.as_bytes()), Rules::caller(8)).expect("params");
    let found = registry
        .catalog()
        .resolve(view, &method, &params)
        .map_err(|fault| fault.kind)?;
    Ok((found.operation.index, found.own_name.map(|n| n.to_string())))
}

fn find_tool(registry: &Registry, name: &str) -> Result<(usize, Option<String>), Kind> {
    find(
        registry,
        View::Merged,
        Method::ToolsCall,
        &format!(r#"{{"name":"{name}"}}"#),
    )
}

#[tokio::test]
async fn g_47_a_collider_is_exposed_with_its_backend_and_called_by_its_own_name() {
    let registry = plain(&["alpha", "n8n"]);
    registry.publisher(0).publish(tools(&["list", "echo"]));
    registry.publisher(1).publish(tools(&["list", "run"]));
    assert_eq!(
        listed(&registry, View::Merged),
        ["list", "echo", "n8n__list", "run"]
    );
    assert_eq!(find_tool(&registry, "list"), Ok((0, None)));
    assert_eq!(
        find_tool(&registry, "n8n__list"),
        Ok((1, Some("list".into())))
    );
    assert_eq!(find_tool(&registry, "alpha__list"), Err(Kind::UnknownName));
    assert_eq!(registry.complaints().len(), 1);
    assert_eq!(listed(&registry, View::Only(1)), ["list", "run"]);
}

#[tokio::test]
async fn c_37_names_go_by_configuration_order_not_by_who_was_faster() {
    let registry = plain(&["slow", "fast"]);
    registry.publisher(1).publish(tools(&["echo"]));
    assert!(
        listed(&registry, View::Merged).is_empty(),
        "waits for the earlier one"
    );
    registry.publisher(0).publish(tools(&["echo"]));
    assert_eq!(find_tool(&registry, "echo"), Ok((0, None)));
    assert_eq!(
        find_tool(&registry, "fast__echo"),
        Ok((1, Some("echo".into())))
    );
}

#[tokio::test(start_paused = true)]
async fn a_hanging_backend_holds_names_back_for_two_seconds_only() {
    let registry = plain(&["hangs", "fast"]);
    registry.publisher(1).publish(tools(&["echo"]));
    registry.clone().end_cold_start().await;
    assert_eq!(listed(&registry, View::Merged), ["echo"]);
    registry.publisher(0).publish(tools(&["echo"]));
    assert_eq!(
        find_tool(&registry, "echo"),
        Ok((1, None)),
        "a published name keeps its owner"
    );
    assert_eq!(
        find_tool(&registry, "hangs__echo"),
        Ok((0, Some("echo".into())))
    );
}

#[tokio::test(start_paused = true)]
async fn issue_17_12_a_list_waits_for_first_answers_within_a_bound() {
    let registry = plain(&["slow", "hangs", "built-in"]);
    registry.publisher(2).publish(tools(&["review"]));
    let waits = |view: View, most: u64| {
        let registry = registry.clone();
        async move {
            let began = Instant::now();
            registry.first_answers(view).await;
            assert!(
                began.elapsed() <= Duration::from_millis(most + 1),
                "{view:?}"
            );
            began.elapsed()
        }
    };
    let slow = registry.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(500)).await;
        slow.publisher(0).publish(tools(&["echo"]));
    });
    assert!(registry.awaits_first_answers(View::Only(0)));
    assert!(waits(View::Only(0), 500).await >= Duration::from_millis(500));
    assert!(!registry.awaits_first_answers(View::Only(0)));
    waits(View::Merged, 1_500).await;
    assert_eq!(listed(&registry, View::Merged), ["echo", "review"]);
    assert_eq!(waits(View::Merged, 0).await, Duration::ZERO, "once only");
    assert!(!registry.all_tried(), "readiness waits for the hanging one");
}

/// The answers come at the same moment from two threads; a list that is woken by one may see the other's already.
#[tokio::test]
async fn issue_17_12_a_list_that_sees_the_last_answer_finds_it_in_the_catalog() {
    let many: Vec<String> = (0..300).map(|n| format!("tool_{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for round in 0..100 {
        let registry = plain(&["one", "two"]);
        let publish = |index: usize, offer: Offer| {
            let publisher = registry.publisher(index);
            std::thread::spawn(move || publisher.publish(offer))
        };
        let threads = [publish(0, tools(&["first"])), publish(1, tools(&many))];
        registry.first_answers(View::Merged).await;
        assert_eq!(listed(&registry, View::Merged).len(), 301, "round {round}");
        for thread in threads {
            thread.join().expect("it published");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn issue_17_12_a_remembered_catalog_makes_no_list_wait() {
    let registry = plain(&["hangs", "fails"]);
    registry.publisher(0).remember(tools(&["echo"]));
    assert!(registry.awaits_first_answers(View::Merged));
    assert!(!registry.awaits_first_answers(View::Only(0)));
    registry.publisher(1).tried();
    assert!(!registry.awaits_first_answers(View::Merged));
    // A lazy backend is tried by name only until it was started once.
    registry.publisher(1).first_asked();
    assert!(registry.awaits_first_answers(View::Merged));
    assert!(!registry.awaits_first_answers(View::Only(0)));
    registry.set_first_answer_wait(Duration::ZERO);
    assert!(!registry.awaits_first_answers(View::Merged));
}

#[tokio::test]
async fn g_46_only_bare_names_wait_for_earlier_backends() {
    let mut prefixed = Listing::new("prefixed");
    prefixed.prefix = Prefix::Always;
    let mut listings: Vec<Listing> = ["hangs", "asleep", "fast"].map(Listing::new).into();
    listings.push(prefixed);
    let registry = registry(listings);
    registry.publisher(1).remember(tools(&["echo"]));
    registry.publisher(2).publish(tools(&["run"]));
    registry.publisher(3).publish(tools(&["echo"]));
    assert_eq!(
        listed(&registry, View::Merged),
        ["echo", "prefixed__echo"],
        "remembered names are reserved, and a prefix takes nobody's"
    );
    assert!(listed(&registry, View::Only(2)).is_empty());
    registry.publisher(0).publish(tools(&["echo"]));
    assert_eq!(
        listed(&registry, View::Merged),
        ["hangs__echo", "echo", "run", "prefixed__echo"]
    );
}

#[tokio::test]
async fn g_73_an_unhealthy_backend_leaves_the_catalog_and_keeps_its_names() {
    let registry = plain(&["a", "b"]);
    registry.publisher(0).publish(tools(&["echo"]));
    registry.publisher(1).publish(tools(&["echo"]));
    registry.publisher(0).withdraw();
    assert_eq!(listed(&registry, View::Merged), ["b__echo"]);
    assert_eq!(
        find_tool(&registry, "echo"),
        Ok((0, None)),
        "never re-routed: its own backend says when it is back"
    );
    registry.publisher(0).restore();
    assert_eq!(listed(&registry, View::Merged), ["echo", "b__echo"]);
}

#[tokio::test]
async fn prefixes_renames_and_filters_are_obeyed() {
    let mut always = Listing::new("a");
    always.prefix = Prefix::Always;
    let mut never = Listing::new("b");
    never.prefix = Prefix::Never;
    let mut picky = Listing::new("c");
    picky.include = vec![Glob::new("read_*"), Glob::new("list")];
    picky.exclude = vec![Glob::new("*_secret")];
    picky.rename = HashMap::from([("list".to_owned(), "catalogue".to_owned())]);
    let registry = registry(vec![always, never, picky]);
    registry.publisher(0).publish(tools(&["x"]));
    registry.publisher(1).publish(tools(&["a__x", "y"]));
    registry
        .publisher(2)
        .publish(tools(&["read_a", "read_secret", "write", "list"]));
    assert_eq!(
        listed(&registry, View::Merged),
        ["a__x", "y", "read_a", "catalogue"]
    );
    assert_eq!(
        find_tool(&registry, "catalogue"),
        Ok((2, Some("list".into())))
    );
    assert_eq!(listed(&registry, View::Only(2)), ["read_a", "list"]);
    let hidden = find(
        &registry,
        View::Only(2),
        Method::ToolsCall,
        r#"{"name":"write"}"#,
    );
    assert_eq!(hidden, Err(Kind::UnknownName), "hidden on every endpoint");
}

#[tokio::test]
async fn resources_go_by_exact_uri_then_by_the_most_literal_template() {
    let registry = plain(&["a", "b"]);
    let with = |resources: &[&str], templates: &[&str]| Offer {
        capabilities: ServerCapabilities {
            resources: true,
            ..Default::default()
        },
        resources: items(ItemKind::Resource, resources),
        templates: items(ItemKind::Template, templates),
        ..tools(&[])
    };
    registry
        .publisher(0)
        .publish(with(&["x://one"], &["x://{id}"]));
    registry
        .publisher(1)
        .publish(with(&["x://one", "x://items/7"], &["x://items/{id}"]));
    let read = |uri: &str| {
        find(
            &registry,
            View::Merged,
            Method::ResourcesRead,
            &format!(r#"{{"uri":"{uri}"}}"#),
        )
    };
    assert_eq!(read("x://one"), Ok((0, None)), "the first by configuration");
    assert_eq!(
        registry.complaints(),
        ["`x://one` is read from `a`, which lists it too and comes before `b`"],
        "c_37"
    );
    assert_eq!(read("x://items/7"), Ok((1, None)));
    assert_eq!(
        read("x://items/8"),
        Ok((1, None)),
        "most literal characters"
    );
    assert_eq!(read("x://other"), Ok((0, None)));
    assert_eq!(read("y://other"), Err(Kind::UnknownResource));
}

#[tokio::test]
async fn g_33_capabilities_are_the_union_of_the_backends() {
    let registry = plain(&["a", "b"]);
    assert_eq!(
        registry.catalog().capabilities(View::Merged),
        ServerCapabilities::UNKNOWN
    );
    registry.publisher(0).publish(tools(&["x"]));
    registry.publisher(1).publish(Offer {
        capabilities: ServerCapabilities {
            prompts: true,
            ..Default::default()
        },
        ..tools(&[])
    });
    let merged = registry.catalog().capabilities(View::Merged);
    assert!(merged.tools && merged.prompts && !merged.resources && !merged.logging);
    assert!(!registry.catalog().capabilities(View::Only(0)).prompts);
    assert_eq!(
        plain(&[]).catalog().capabilities(View::Merged),
        ServerCapabilities::default()
    );
}

#[tokio::test]
async fn c_10_only_lists_that_look_different_are_announced() {
    let registry = plain(&["a", "b"]);
    registry.publisher(0).publish(tools(&["x"]));
    registry.publisher(1).publish(tools(&["y"]));
    let mut changes = registry.changes();
    let before = changes.borrow_and_update().clone();
    registry.publisher(1).publish(tools(&["y"]));
    assert!(!changes.has_changed().expect("open"), "the same list again");
    registry.publisher(1).publish(tools(&["y", "z"]));
    let after = changes.borrow_and_update().clone();
    assert_eq!(
        after.since(&before, View::Merged).collect::<Vec<_>>(),
        [Change::Tools]
    );
    assert_eq!(after.since(&before, View::Only(0)).count(), 0);
}

#[tokio::test]
async fn lists_are_the_bytes_that_came() {
    let registry = plain(&["a"]);
    registry.publisher(0).publish(tools(&["x"]));
    let list = |revision| {
        registry
            .catalog()
            .pages(View::Merged, ItemKind::Tool, revision, true)
            .concat()
    };
    assert_eq!(
        list(Revision::V2025_06_18),
        br#"{"tools":[{"name":"x","x":1.0}]}"#
    );
    assert_eq!(
        list(Revision::V2026_07_28),
        br#"{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"x","x":1.0}]}"#
    );
}

/// protocol.md 6.1: one page or a composite cursor.
#[tokio::test]
async fn g_43_a_list_that_callers_would_not_take_comes_in_pages() {
    let registry = plain(&["a", "b"]);
    let big = "x".repeat(200_000);
    let large = |from: usize| {
        let item = |n| format!(r#"{{"name":"t{n}","description":"{big}"}}"#);
        let items = (from..from + 5)
            .map(|n| Item::parse(ItemKind::Tool, Bytes::from(item(n))).expect("an item"));
        let mut offer = tools(&[]);
        offer.tools = items.collect();
        offer
    };
    registry.publisher(0).publish(large(0));
    registry.publisher(1).publish(large(5));
    let catalog = registry.catalog();
    let page = |cursor: Option<&str>| {
        let of = (Revision::V2026_07_28, true);
        let page = catalog.page(View::Merged, ItemKind::Tool, of, cursor)?;
        assert!(page.len() < 1024 * 1024, "{}", page.len());
        Some(serde_json::from_slice::<serde_json::Value>(&page).expect("JSON"))
    };
    let (mut names, mut cursor) = (Vec::new(), None);
    loop {
        let found = page(cursor.as_deref()).expect("a page");
        assert_eq!(found["cacheScope"], "private", "on every page");
        let tools = found["tools"].as_array().expect("a list");
        names.extend(tools.iter().map(|tool| tool["name"].to_string()));
        match found["nextCursor"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    let all: Vec<String> = (0..10).map(|n| format!("\"t{n}\"")).collect();
    assert_eq!(names, all);
    let last = cursor.expect("more than one page");
    let mark = last.split('.').next().expect("a mark");
    for wrong in [
        "",
        "x",
        ".1",
        &format!("{mark}.0"),
        &format!("{mark}.9"),
        &format!("{mark}.-1"),
    ] {
        assert!(page(Some(wrong)).is_none(), "{wrong}");
    }
    registry.publisher(1).publish(tools(&["other"]));
    let of = (Revision::V2026_07_28, true);
    let stale = registry.catalog();
    assert!(
        stale
            .page(View::Merged, ItemKind::Tool, of, Some(&last))
            .is_none()
    );
}

/// P-S10 has lists read again and again.
#[tokio::test]
async fn c_10_lists_that_are_as_they_were_make_no_new_catalog() {
    let registry = plain(&["a"]);
    let publisher = registry.publisher(0);
    publisher.publish(tools(&["x"]));
    let before = registry.catalog();
    publisher.publish_changed(tools(&["x"]), &[]);
    assert!(Arc::ptr_eq(&before, &registry.catalog()));
    publisher.publish_changed(tools(&["x", "y"]), &[]);
    assert_eq!(listed(&registry, View::Merged), ["x", "y"]);
    // What a backend says itself is passed on in any case.
    let mut changes = registry.changes();
    changes.borrow_and_update();
    publisher.publish_changed(tools(&["x", "y"]), &[Change::Tools]);
    assert!(changes.has_changed().expect("a registry"));
}
