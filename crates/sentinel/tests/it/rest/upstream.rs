//! What a described API says besides its body, told to callers of REST and JSON-RPC: further pages, and the cause of an error.

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::support::http::Answer;
use crate::support::setup::{Gateway, Server};
use crate::support::web::{JSON_BODY, Web};

struct Described {
    gateway: Gateway,
    _api: Server,
    _spec: NamedTempFile,
}

impl Described {
    fn start(more: &str) -> Self {
        let api = Server::api(&[]);
        let query =
            |name: &str, schema: Value| json!([{"name": name, "in": "query", "schema": schema}]);
        let get = |id: &str, parameters: Value| json!({"get": {"operationId": id, "parameters": parameters}});
        let mut page = query("page", json!({"type": "integer"}));
        page.as_array_mut()
            .expect("ours")
            .push(query("ms", json!({"type": "integer"}))[0].clone());
        let cursor = query("cursor", json!({"type": "string"}));
        let code =
            json!([{"name": "code", "in": "path", "required": true, "schema": {"type": "string"}}]);
        let document = json!({
            "openapi": "3.1.0",
            "info": {"title": "An API", "version": "1"},
            "paths": {
                "/pages": get("pages", page),
                "/cursor": get("cursor", cursor),
                "/status/{code}": get("status", code),
            },
        });
        let spec = NamedTempFile::with_suffix(".json").expect("a file");
        std::fs::write(spec.path(), document.to_string()).expect("written");
        let gateway = Gateway::ready(&format!(
            "{more}[[backends]]\nname = \"api\"\ntype = \"openapi\"\nspec = {:?}\nbase_url = \"http://{}\"\n",
            spec.path(),
            api.address
        ));
        Self {
            gateway,
            _api: api,
            _spec: spec,
        }
    }
}

/// The URL of the next page.
fn next_url(answer: &Answer) -> Option<String> {
    let (url, rel) = answer.header("link").split_once(">; ")?;
    assert_eq!(rel, "rel=\"next\"");
    Some(url.strip_prefix('<').expect("a URL in brackets").to_owned())
}

fn next_arguments(answer: &Answer) -> Option<Value> {
    let text = answer.header("next-arguments");
    (!text.is_empty()).then(|| serde_json::from_str(text).expect("JSON"))
}

#[test]
fn issue_18_the_next_page_is_named_by_url_and_by_arguments() {
    let described = Described::start("");
    let web = Web::new(&described.gateway);
    for (tool, pages) in [("pages", 3), ("cursor", 2)] {
        let path = format!("/api/{tool}");
        let mut url = Some(path.clone());
        for page in 1..=pages {
            let answer = web.get(&url.expect("a page"));
            assert_eq!(answer.status, 200, "{answer:?}");
            assert!(!answer.header("etag").is_empty());
            url = next_url(&answer);
            assert_eq!(url.is_some(), page < pages, "{tool}: {answer:?}");
            assert_eq!(next_arguments(&answer).is_some(), page < pages);
        }
        for over_rpc in [false, true] {
            let (mut arguments, mut seen) = (json!({}), 0);
            loop {
                let answer = match over_rpc {
                    true => web.rpc(tool, &arguments),
                    false => web.post(&path, &arguments),
                };
                assert_eq!(answer.status, 200, "{answer:?}");
                seen += 1;
                assert!(next_url(&answer).is_none() || !over_rpc);
                let Some(next) = next_arguments(&answer) else {
                    break;
                };
                let next = next.as_object().expect("an object").clone();
                arguments.as_object_mut().expect("ours").extend(next);
            }
            assert_eq!(seen, pages, "{tool}");
        }
    }
    let lines = [JSON_BODY, ("Accept", "application/jsonl")];
    let streamed = web.send("POST", "/api/pages", &lines, "{}").finish();
    let last: Value = serde_json::from_str(streamed.text.trim()).expect("one record");
    assert_eq!(last["next"], json!({"page": 2}), "{last}");
}

/// Answers that come later or again name the page, too; a URL is below the path that the surface has.
#[test]
fn issue_18_the_next_page_is_named_in_kept_answers_and_at_other_paths() {
    let described = Described::start("[surfaces]\nrest_path = \"/tools\"\n");
    let web = Web::new(&described.gateway);
    let key = ("Idempotency-Key", "k");
    for _ in 0..2 {
        let answer = web.post_with("/tools/pages", &json!({"page": 2}), &[key]);
        assert_eq!(next_url(&answer).as_deref(), Some("/tools/pages?page=3"));
    }
    let later = ("Prefer", "respond-async");
    let accepted = web.post_with("/tools/pages", &json!({"page": 1, "ms": 300}), &[later]);
    assert_eq!(accepted.status, 202, "{accepted:?}");
    let patiently = [("Prefer", "wait=30")];
    let answer = web
        .send("GET", accepted.header("location"), &patiently, "")
        .finish();
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(
        next_url(&answer).as_deref(),
        Some("/tools/pages?page=2&ms=300")
    );
    assert_eq!(next_arguments(&answer), Some(json!({"page": 2})));
}

#[test]
fn c_18_an_error_of_an_api_says_its_status_its_problem_and_when_to_try_again() {
    let described = Described::start("");
    let web = Web::new(&described.gateway);
    for (code, seconds) in [(503, "7"), (429, "7"), (404, "")] {
        let arguments = json!({"code": code.to_string()});
        let rest = web.post("/api/status", &arguments);
        let rpc = web.rpc("status", &arguments);
        let data = rpc.json()["error"]["data"].clone();
        for (answer, members) in [(&rest, &rest.json()), (&rpc, &data)] {
            assert_eq!(answer.status, 422, "{answer:?}");
            assert_eq!(members["code"], "tool_error", "{members}");
            assert_eq!(members["upstream"]["status"], code, "{members}");
            assert_eq!(members["upstream"]["problem"]["trace"], "t-1", "{members}");
            assert_eq!(answer.header("retry-after"), seconds, "{answer:?}");
            let is_worth_it = !seconds.is_empty();
            assert_eq!(members["retryable"], is_worth_it, "{members}");
            let ms = is_worth_it.then_some(7000);
            assert_eq!(members["retry_after_ms"].as_u64(), ms, "{members}");
        }
        // What can be tried again is not kept for its key.
        let key = ("Idempotency-Key", &*code.to_string());
        let [_, again] = [0, 1].map(|_| web.post_with("/api/status", &arguments, &[key]));
        let is_replayed = again.header("idempotency-replayed") == "true";
        assert_eq!(is_replayed, seconds.is_empty(), "{again:?}");
    }
}
