//! Servers of MCP clients become backends of a gateway that runs.

use std::fs;

use serde_json::{Value, json};

use crate::support::callers::{Caller, Modern};
use crate::support::http::Answer;
use crate::support::setup::{Gateway, Server, Setup, fixture, http_backend};
use crate::support::web::Web;

fn import(operator: &Web, body: &Value) -> Answer {
    operator.post("/admin/api/import", body)
}

fn file_of(gateway: &Gateway) -> String {
    let path = gateway.setup.data().with_file_name("sentinel.toml");
    fs::read_to_string(path).expect("a file")
}

/// A client's file with the fixture as a child.
fn pasted(name: &str, env: &Value) -> String {
    let fixture = fixture().to_str().expect("text");
    let server = json!({"command": fixture, "args": ["stdio"], "env": env});
    json!({"mcpServers": {name: server}}).to_string()
}

#[test]
fn a_pasted_server_is_added_to_the_file_and_can_be_called() {
    let server = Server::start(&[]);
    let alpha = http_backend("alpha", &server.address, "");
    let gateway = Gateway::ready(&format!("# kept\n{alpha}"));
    let operator = Web::new(&gateway);
    let before = file_of(&gateway);
    let text = pasted("My Files!", &json!({"MODE": "ro"}));
    // A look changes nothing.
    let looked = import(&operator, &json!({"text": text}));
    assert_eq!(looked.status, 200, "{looked:?}");
    let looked = looked.json();
    let server = &looked["servers"][0];
    assert_eq!(
        (&server["name"], &server["original"]),
        (&json!("my-files"), &json!("My Files!"))
    );
    assert!(
        server["summary"]
            .as_str()
            .is_some_and(|text| text.ends_with(" stdio")),
        "{server}"
    );
    assert_eq!(
        (&looked["added"], &looked["reloaded"]),
        (&json!([]), &Value::Null)
    );
    assert_eq!(file_of(&gateway), before);

    let digest = operator.get("/admin/api/config/file").json()["digest"].clone();
    let stale = json!({"text": text, "apply": true, "digest": "00"});
    assert_eq!(import(&operator, &stale).status, 409);
    let added = import(
        &operator,
        &json!({"text": text, "apply": true, "digest": digest}),
    );
    assert_eq!(added.status, 200, "{added:?}");
    let added = added.json();
    assert_eq!(added["added"], json!(["my-files"]));
    assert_eq!(added["reloaded"]["added"], json!(["my-files"]), "{added}");
    // It was tried once by now.
    assert_eq!(added["backends"][0]["name"], "my-files");
    assert_eq!(added["backends"][0]["health"], "up", "{added}");
    let after = file_of(&gateway);
    assert!(after.starts_with(&before), "{after}");
    let caller = Modern::new(&gateway, "/mcp");
    assert!(caller.tools().contains(&"my-files__echo".to_owned()));
    assert_eq!(caller.said("my-files__echo", json!({"text": "hi"})), "hi");

    // The same once more is known, and added only by name; its name is another.
    let again = import(&operator, &json!({"text": text, "apply": true}));
    assert_eq!(again.status, 422, "{again:?}");
    let again = import(&operator, &json!({"text": text})).json();
    assert_eq!(
        (&again["servers"][0]["name"], &again["servers"][0]["known"]),
        (&json!("my-files-2"), &json!("my-files"))
    );
    for body in [
        json!({}),
        json!({"text": "{}"}),
        json!({"text": "not json"}),
        json!({"text": text, "file": "/x"}),
        json!({"file": "/etc/passwd"}),
        json!({"text": text, "more": 1}),
    ] {
        let refused = import(&operator, &body);
        assert_eq!(refused.status, 400, "{body}: {refused:?}");
    }
    let unknown = import(
        &operator,
        &json!({"text": text, "names": ["nothing"], "apply": true}),
    );
    assert_eq!(unknown.status, 422, "{unknown:?}");
}

#[test]
fn a_credential_is_named_or_written_where_the_operator_says_so() {
    let setup = Setup::with_env("", &[("GIVEN_TOKEN", "from the environment")]);
    let gateway = Gateway::start_in(setup);
    let operator = Web::new(&gateway);
    let named = pasted("named", &json!({"GIVEN_TOKEN": "ghp_zq9credential0001"}));
    let added = import(&operator, &json!({"text": named, "apply": true}));
    assert_eq!(added.status, 200, "{added:?}");
    assert!(file_of(&gateway).contains("GIVEN_TOKEN_ENV = \"GIVEN_TOKEN\""));
    assert!(!file_of(&gateway).contains("zq9"));

    let missing = pasted("missing", &json!({"OTHER_TOKEN": "ghp_zq9credential0002"}));
    let refused = import(&operator, &json!({"text": missing, "apply": true}));
    assert_eq!(refused.status, 422, "{refused:?}");
    assert!(refused.text.contains("OTHER_TOKEN"), "{refused:?}");
    let looked = import(&operator, &json!({"text": missing})).json();
    let variable = &looked["servers"][0]["variables"][0];
    assert_eq!(
        variable,
        &json!({"name": "OTHER_TOKEN", "set": false, "literal": true})
    );
    assert!(!file_of(&gateway).contains("missing"));

    let added = import(
        &operator,
        &json!({"text": missing, "names": ["missing"], "apply": true, "literals": true}),
    );
    assert_eq!(added.status, 200, "{added:?}");
    assert!(file_of(&gateway).contains("zq9credential0002"));
    let config = operator.get("/admin/api/config").text;
    assert!(!config.contains("zq9"), "{config}");
}

#[test]
fn servers_of_this_machines_clients_are_found_and_added_by_their_file() {
    let setup = Setup::new("");
    let home = setup.data().parent().expect("a folder").to_owned();
    fs::write(home.join(".mcp.json"), pasted("found", &json!({}))).expect("ours");
    fs::create_dir(home.join(".cursor")).expect("ours");
    fs::write(home.join(".cursor/mcp.json"), "broken").expect("ours");
    let gateway = Gateway::start_in(setup);
    let operator = Web::new(&gateway);
    let found = operator.get("/admin/api/import").json();
    let files = found["files"].as_array().expect("files");
    assert_eq!(files.len(), 2, "{found}");
    let path = home.join(".mcp.json");
    let path = path.to_str().expect("text");
    assert_eq!(
        (&files[0]["path"], &files[0]["client"]),
        (&json!(path), &json!("claude-code"))
    );
    assert_eq!(files[0]["servers"][0]["name"], "found");
    assert!(files[1]["problem"].is_string(), "{found}");
    let body = json!({"file": path, "names": ["found"], "apply": true});
    let added = import(&operator, &body);
    assert_eq!(added.status, 200, "{added:?}");
    assert_eq!(added.json()["backends"][0]["health"], "up");
    let again = operator.get("/admin/api/import").json();
    assert_eq!(again["files"][0]["servers"][0]["known"], "found", "{again}");
}

#[test]
fn a_server_that_does_not_start_is_told_with_its_problem() {
    let gateway = Gateway::start("");
    let operator = Web::new(&gateway);
    let text = r#"{"broken": {"command": "/no/such/program"}}"#;
    let added = import(&operator, &json!({"text": text, "apply": true}));
    assert_eq!(added.status, 200, "{added:?}");
    let backend = &added.json()["backends"][0];
    assert_ne!(backend["health"], "up", "{backend}");
    assert!(backend["problem"].is_string(), "{backend}");
    // Where nothing is edited, nothing is added.
    gateway.setup.rewrite("[console]\nedit = false\n");
    assert_eq!(operator.post("/admin/api/reload", &json!({})).status, 200);
    let refused = import(
        &operator,
        &json!({"text": r#"{"x": {"command": "y"}}"#, "apply": true}),
    );
    assert_eq!(refused.status, 403, "{refused:?}");
}
