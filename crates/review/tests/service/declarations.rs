//! B-9 to B-13, B-27: what is declared.

use serde_json::Value;

use super::*;

fn declared(extended_tools: bool) -> Vec<Value> {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("s.db");
    let db = Sqlite::open(&path, Synchronous::Full, &[review::MIGRATIONS]).unwrap();
    let clock = Arc::new(SystemClock::new());
    let store = SqliteReviews::new(&db, clock, machine::expire);
    let settings = Settings {
        claim_timeout: Duration::from_secs(1),
        extended_tools,
        enforce_roles: false,
    };
    let offer = sentinel_review::backend(Service::new(Arc::new(store), settings)).offer();
    let raw = offer.tools.iter().map(|item| &item.raw);
    raw.map(|raw| serde_json::from_slice(raw).unwrap())
        .collect()
}

#[test]
fn b_12_twelve_tools_in_four_groups_and_five_more_on_request() {
    let mut named: Vec<(String, String)> = declared(false)
        .iter()
        .map(|tool| {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            (text(&tool["_meta"]["tags"][0]), text(&tool["name"]))
        })
        .collect();
    named.sort();
    let shown: Vec<String> = named
        .iter()
        .map(|(tag, name)| format!("{tag} {name}"))
        .collect();
    assert_eq!(
        shown,
        [
            "discussion get_messages",
            "discussion get_patch",
            "discussion post_message",
            "discussion submit_patch",
            "proposal get_proposal",
            "proposal submit_proposal",
            "review claim_review",
            "review close_review",
            "review submit_verdict",
            "status get_review_status",
            "status list_pending",
            "status list_reviews",
        ]
    );
    assert_eq!(declared(true).len(), 17);
}

#[test]
fn b_28_reads_say_that_they_are_reads_and_every_tool_describes_what_it_takes_and_gives() {
    for tool in declared(true) {
        let name = tool["name"].as_str().unwrap();
        let reads = name.starts_with("get_") || name.starts_with("list_");
        assert_eq!(tool["annotations"]["readOnlyHint"], reads, "{name}");
        assert!(tool["description"].as_str().unwrap().len() > 40, "{name}");
        for schema in ["inputSchema", "outputSchema"] {
            assert_eq!(tool[schema]["type"], "object", "{name} {schema}");
            let text = tool[schema].to_string();
            assert!(
                !text.contains("$ref") && !text.contains("$schema"),
                "{name} {schema}"
            );
        }
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{name}");
    }
}
