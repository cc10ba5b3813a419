//! Roles and denials, in every reading of a URI.

use proptest::prelude::*;
use sentinel_wire::template::Template;

use super::*;

fn operation(kind: ItemKind, backend: &str, own: &str, exposed: &str) -> Operation {
    Operation {
        exposed: exposed.into(),
        ..Operation::unlisted(Some(kind), 0, &backend.into(), own)
    }
}

fn grant(permissions: &[&str], denied: &[&str], operation: &Operation) -> Grant {
    Role::new(permissions.to_vec(), denied.to_vec()).grant(operation)
}

#[test]
fn g_66_each_permission_means_what_it_says() {
    let echo = operation(ItemKind::Tool, "gamma", "echo", "gamma__echo");
    let page = operation(ItemKind::Resource, "gamma", "test://a", "test://a");
    for (permissions, for_echo, for_page) in [
        (&["*"][..], Grant::FULL, Grant::FULL),
        (&["tools.read"], Grant::SEE, Grant::SEE),
        (&["tools.execute"], Grant::FULL, Grant::FULL),
        (&["tools.read", "tools.execute"], Grant::FULL, Grant::FULL),
        (&["admin"], Grant::NONE, Grant::NONE),
        (&[], Grant::NONE, Grant::NONE),
        (&["gamma.*"], Grant::FULL, Grant::FULL),
        (&["gamma.ec*"], Grant::FULL, Grant::NONE),
        (&["gamma.test://*"], Grant::NONE, Grant::FULL),
        (&["beta.*"], Grant::NONE, Grant::NONE),
        (&["tool:gamma__*"], Grant::FULL, Grant::NONE),
        // The merged name, not the own one.
        (&["tool:echo"], Grant::NONE, Grant::NONE),
        (&["tool:*"], Grant::FULL, Grant::NONE),
        (&["tools.read", "gamma.echo"], Grant::FULL, Grant::SEE),
        (&["nonsense"], Grant::NONE, Grant::NONE),
    ] {
        assert_eq!(grant(permissions, &[], &echo), for_echo, "{permissions:?}");
        assert_eq!(grant(permissions, &[], &page), for_page, "{permissions:?}");
    }
}

#[test]
fn denied_tools_win_over_everything() {
    let echo = operation(ItemKind::Tool, "gamma", "echo", "gamma__echo");
    let prompt = operation(ItemKind::Prompt, "gamma", "gamma__echo", "gamma__echo");
    for denied in ["gamma__echo", "*", "gamma.echo", "gamma.*", "*echo"] {
        for permissions in [
            &["*"][..],
            &["tool:gamma__echo"],
            &["gamma.*", "tools.execute"],
        ] {
            assert_eq!(
                grant(permissions, &[denied], &echo),
                Grant::NONE,
                "{denied}"
            );
        }
    }
    assert_eq!(grant(&["*"], &["echo"], &echo), Grant::FULL);
    assert_eq!(grant(&["*"], &["beta.echo"], &echo), Grant::FULL);
    // Decisions 2 and 3: a pattern is about every kind of operation.
    let page = operation(ItemKind::Resource, "gamma", "test://a", "test://a");
    for denied in ["gamma__echo", "*echo", "gamma.gamma*"] {
        assert_eq!(grant(&["*"], &[denied], &prompt), Grant::NONE, "{denied}");
        assert_eq!(grant(&["*"], &[denied], &page), Grant::FULL, "{denied}");
    }
    for denied in ["test://a", "test://*", "*", "gamma.test://a", "TEST://a"] {
        assert_eq!(grant(&["*"], &[denied], &page), Grant::NONE, "{denied}");
    }
}

#[test]
fn a_uri_found_by_a_template_is_granted_with_it_unless_denied() {
    let mut page = operation(ItemKind::Resource, "gamma", "doc://7", "doc://7");
    page.template = Some("doc://{id}".into());
    assert_eq!(grant(&["gamma.doc://{id}"], &[], &page), Grant::FULL);
    assert_eq!(
        grant(&["gamma.doc://{id}"], &["gamma.doc://7"], &page),
        Grant::NONE
    );
    page.also = vec!["doc://{id}".into()];
    assert_eq!(grant(&["*"], &["gamma.doc://{id}"], &page), Grant::NONE);
    // Without a host as well, and however a denied one is spelt.
    let name: Arc<str> = "doc:///{id}".into();
    let template = Template::parse(&name).expect("a template");
    for (uri, granted, denied) in [
        ("doc:///7", Grant::FULL, Grant::NONE),
        ("doc://7", Grant::NONE, Grant::NONE),
        ("doc:7", Grant::NONE, Grant::NONE),
        ("doc:///7/8", Grant::NONE, Grant::FULL),
        ("doc:///7/../8", Grant::NONE, Grant::NONE),
    ] {
        let page = operation(ItemKind::Resource, "gamma", uri, uri);
        let page = page.spelt_out([(&template, &name)].into_iter());
        assert_eq!(grant(&["gamma.doc:///{id}"], &[], &page), granted, "{uri}");
        assert_eq!(
            grant(&["*"], &["gamma.doc:///{id}"], &page),
            denied,
            "{uri}"
        );
    }
}

/// Decision 1: two spellings that a backend may take for one resource are judged so that respelling never passes a
/// denial, and a permission on URIs without a host is worth what it says.
#[test]
fn decision_1_a_uri_without_a_host_is_granted_and_denied_in_every_reading() {
    let page =
        |uri: &str| operation(ItemKind::Resource, "gamma", uri, uri).spelt_out(std::iter::empty());
    for (permission, denied, uri, wanted) in [
        ("gamma.docs:///*", "", "docs:///a", Grant::FULL),
        ("gamma.docs:///*", "", "docs:///a/b", Grant::FULL),
        ("gamma.docs:///pub/*", "", "docs:///pub/a", Grant::FULL),
        (
            "gamma.docs:///pub/*",
            "",
            "docs:///pub//x/../a",
            Grant::FULL,
        ),
        ("gamma.urn:book:*", "", "urn:book:7", Grant::FULL),
        ("gamma.docs:/a", "", "docs:/a", Grant::FULL),
        // By the book those have a host, which nobody granted.
        ("gamma.docs:///*", "", "docs://a", Grant::NONE),
        ("gamma.docs:///*", "", "docs://a/b", Grant::NONE),
        ("gamma.docs:///*", "", "docs:a", Grant::NONE),
        ("gamma.docs:///pub/*", "", "docs:///pub/../a", Grant::NONE),
        (
            "gamma.docs:///pub/*",
            "",
            "docs:///pub/%2e%2e/a",
            Grant::NONE,
        ),
        ("gamma.docs:///pub/*", "", "docs://pub/a", Grant::NONE),
        ("gamma.docs://pub/*", "", "docs:///pub/a", Grant::NONE),
        // A star that is written so is none that stands for anything.
        ("gamma.docs://a/b%2A", "", "docs://a/bc", Grant::NONE),
        ("*", "gamma.docs://a/b%2A", "docs://a/b*", Grant::NONE),
        // What is denied is so however many slashes either has.
        ("*", "gamma.docs:///a", "docs:///a", Grant::NONE),
        ("*", "gamma.docs:///a", "docs://a", Grant::NONE),
        ("*", "gamma.docs:///a", "docs:/a", Grant::NONE),
        ("*", "gamma.docs:///a", "docs:a/", Grant::NONE),
        ("*", "gamma.docs://a", "docs:///a", Grant::NONE),
        ("*", "gamma.docs://a", "docs:a", Grant::NONE),
        ("*", "docs:///a*", "docs://ab", Grant::NONE),
        ("*", "docs:a", "docs:///%61", Grant::NONE),
        (
            "gamma.docs:///*",
            "gamma.docs://a",
            "docs:///a",
            Grant::NONE,
        ),
        (
            "gamma.docs:///*",
            "gamma.docs://a",
            "docs:////a",
            Grant::NONE,
        ),
        (
            "gamma.docs:///*",
            "gamma.docs://a",
            "docs:///b",
            Grant::FULL,
        ),
        ("*", "gamma.docs:///a", "docs://b", Grant::FULL),
    ] {
        let denied: &[&str] = if denied.is_empty() { &[] } else { &[denied] };
        let given = grant(&[permission], denied, &page(uri));
        assert_eq!(given, wanted, "{permission} without {denied:?}: {uri}");
    }
}

fn page(uri: &str) -> Operation {
    operation(ItemKind::Resource, "be", uri, uri).spelt_out(std::iter::empty())
}

/// Decision 1: each line a denial, and URIs that some server takes for what it denies. They differ in what is done
/// first: decoding, splitting, resolving dots.
#[test]
fn decision_1_a_denial_holds_in_whatever_order_a_uri_is_read() {
    for (denied, uris) in [
        (
            "be.docs://host/secret",
            &[
                "docs://u%23@host/secret",
                "docs://u%3f@host/secret",
                "docs://u%2f@host/secret",
                "docs://u%5c@host/secret",
                "docs://u%2523@host/secret",
                "docs://u\\@host/secret",
                "docs://u\\@host/x\\..\\secret",
                "docs://u@v@host/secret",
                "docs://host/%23/../secret",
                "docs://host/x?/../secret",
                "docs://host/x#/../secret",
                "docs://x?/../host/secret",
                "docs://host/secret%23",
                "docs://host/secret%3f",
                "docs://host/secret%23s",
            ][..],
        ),
        (
            "be.https://h/secret*",
            &[
                "https://u%23@h/secret",
                "https://u%2f@h/secret/x",
                "https:u%23@h/secret",
                "https:///u%3f@h:443/secret",
            ],
        ),
        ("be.https://*.internal/*", &["https://a%2f@x.internal/a"]),
        (
            "be.file:///secret/*",
            &[
                "file:///x%23/../secret/a",
                "file:///x%3f/../secret/a",
                "file:///x%253f/../secret/a",
                "file:///x?/../secret/a",
                "file:///x#/../secret/a",
                "file:///x?/../secret/a#/../../x",
                "file:///x#/../secret/a?/../../x",
                "file:///%73ecret/x\\..\\..\\pub",
                "file:///%73ecret/..?x",
                "file://127.0.0.1/secret/a",
                "file://[::1]/secret/a",
            ],
        ),
        ("be.docs:///secret1", &["docs:///a%3f/../secret1"]),
    ] {
        for uri in uris {
            let given = grant(&["*"], &[denied], &page(uri));
            assert_eq!(given, Grant::NONE, "without {denied}: {uri}");
        }
    }
    for (denied, uri) in [
        ("be.docs://host/secret", "docs://host/a?next=/secret"),
        ("be.docs://b/*", "docs://search?mail=a@b/"),
        ("be.file:///secret/*", "file:///pub/a%23b"),
        ("be.file:///secret/*", "file:///pub/a?x=../y"),
    ] {
        let given = grant(&["*"], &[denied], &page(uri));
        assert_eq!(given, Grant::FULL, "without {denied}: {uri}");
    }
}

/// Decision 1: a permission leads nowhere else in any reading, and still gives what is ordinary.
#[test]
fn decision_1_a_permission_holds_in_whatever_order_a_uri_is_read() {
    for (permission, given, refused) in [
        (
            "be.file:///pub/*",
            &[
                "file:///pub/a%20b",
                "file:///pub/a%23b",
                "file:///pub/a%3Fb",
                "file:///pub/a%25b",
                "file:///pub/a#top",
                "file:///pub/a?v=2",
                "file:///pub/x/../a",
            ][..],
            &[
                "file:///pub/x%23/../../secret/a",
                "file:///pub/x%3f/../../secret/a",
                "file:///pub/x?/../../secret/a",
                "file:///pub/x#/../../secret/a",
                "file:///pub/x%5c..%5c..%5csecret",
            ][..],
        ),
        (
            "be.docs://host/*",
            &[
                "docs://host/a?x=1",
                "docs://host/a?to=https://x.example/y",
                "docs://host/a?mail=a@b.example",
                "docs://host/a?q=%23%3F%2F",
                "docs://host/a?x=1#top",
            ],
            &[
                "docs://host/x%3f/../../../b/a",
                "docs://host%3f@evil/a",
                "docs://host%23@evil/a",
                "docs://host\\@evil/a",
            ],
        ),
        (
            "be.docs://host/a*",
            &["docs://host/a?x=1", "docs://host/a%23b"],
            &["docs://host/a?/../b", "docs://host/a%23/../b"],
        ),
        (
            "be.docs://search?*",
            &["docs://search?mail=a@b.example", "docs://search?q=a%40b"],
            &["docs://search", "docs://search?/../b"],
        ),
        (
            "be.https://api.h/*",
            &["https://api.h/a", "https://api.h/a?u=https://x/y"],
            &["https://api.h/%23/../../../x", "https://api.h%2f@evil/"],
        ),
    ] {
        for uri in given {
            let found = grant(&[permission], &[], &page(uri));
            assert_eq!(found, Grant::FULL, "{permission}: {uri}");
            // One that is named as it is listed is given, whatever it looks like.
            let found = grant(&[&*format!("be.{uri}")], &[], &page(uri));
            assert_eq!(found, Grant::FULL, "{uri}");
        }
        for uri in refused {
            let found = grant(&[permission], &[], &page(uri));
            assert_eq!(found, Grant::NONE, "{permission}: {uri}");
        }
    }
}

/// A URI that has too many readings to look at all of them passes no rule about URIs.
#[test]
fn decision_1_what_is_too_long_to_be_read_passes_no_rule_about_uris() {
    let long = page(&format!("file:///pub/{}", "%23".repeat(10_000)));
    for (permission, denied, wanted) in [
        ("*", &[][..], Grant::FULL),
        ("be.*", &[], Grant::FULL),
        ("be.*", &["be.delete_x", "other.file:///a"], Grant::FULL),
        ("be.*", &["be.file:///secret/*"], Grant::NONE),
        ("be.file:///pub/*", &[], Grant::NONE),
    ] {
        assert_eq!(grant(&[permission], denied, &long), wanted, "{denied:?}");
    }
}

/// A mark, encoded up to three times.
fn mark() -> impl Strategy<Value = String> {
    let plain = prop::sample::select(vec!["%23", "%3f", "%3F", "%2f", "%5C"]);
    (plain, 0..3_usize).prop_map(|(mark, times)| format!("%{}{}", "25".repeat(times), &mark[1..]))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Decision 1, for a server that splits, decodes and then resolves dots; and one that knows no query.
    #[test]
    fn decision_1_no_respelling_passes_a_denial(
        scheme in prop::sample::select(vec!["docs", "https", "DOCS"]),
        user in prop::option::of(prop::collection::vec(mark(), 0..3)),
        detour in prop::option::of((mark(), prop::sample::select(vec!["", "?", "#", "?#"]))),
        encoded in prop::collection::vec(0..3_usize, 6),
        end in prop::sample::select(vec!["", "/", "?", "#x", "/."]),
    ) {
        let user = user.map(|marks| format!("u{}@", marks.concat())).unwrap_or_default();
        let detour = match detour {
            // A slash in the name of a folder makes two of it.
            Some((mark, _)) if mark.ends_with("2f") || mark.ends_with("5C") => String::new(),
            Some((mark, raw)) => format!("x{mark}{raw}/../"),
            None => String::new(),
        };
        let secret: String = "secret".chars().zip(encoded).map(|(c, times)| match times {
            0 => c.to_string(),
            times => format!("%{}{:x}", "25".repeat(times - 1), u32::from(c)),
        }).collect();
        // Behind a raw mark an end with another one is read as part of the name by who cuts neither.
        let end = if detour.contains(['?', '#']) { "" } else { end };
        let uri = format!("{scheme}://{user}host/{detour}{secret}{end}");
        let denied = format!("be.{}://host/secret", scheme.to_lowercase());
        prop_assert_eq!(grant(&["*"], &[&*denied], &page(&uri)), Grant::NONE, "{}", uri);
    }
}

#[test]
fn decision_1_only_patterns_that_can_mean_a_uri_hide_resources() {
    for (permissions, denied, all) in [
        (&["*"][..], &[][..], true),
        (&["tools.read"], &[], true),
        (&["gamma.*"], &[], true),
        (&["gamma.test://*"], &[], false),
        (&["tool:*"], &[], false),
        (&["beta.*"], &[], false),
        (&["*"], &["delete_*", "echo", "gamma.delete_x*"], true),
        (&["*"], &["beta.test://a"], true),
        (&["*"], &["gamma.test://a"], false),
        (&["*"], &["test://*"], false),
        (&["*"], &["*secret"], false),
        (&["*"], &["te*"], false),
    ] {
        let role = Role::new(permissions.to_vec(), denied.to_vec());
        assert_eq!(
            role.sees_all_resources("gamma"),
            all,
            "{permissions:?} {denied:?}"
        );
    }
}

#[test]
fn decision_3_admin_is_built_in_and_may_be_written() {
    assert!(Roles::default().get(ADMIN).is_some_and(|r| r.is_full()));
    let narrow = Roles::new([(ADMIN.to_owned(), Role::new(["tools.read"], []))]);
    assert!(!narrow.get(ADMIN).is_some_and(|r| r.is_full()));
    assert!(narrow.get("nobody").is_none());
}
