//! `[[listeners]]`: further addresses, each for everything, one backend or some surfaces.

use serde_json::{Value, json};

use crate::support::callers::{Caller, Modern};
use crate::support::setup::{Gateway, Server, http_backend};
use crate::support::web::Web;

/// The addresses of `[[listeners]]`, in their order.
fn listeners(gateway: &Gateway) -> Vec<String> {
    let file = format!("{}.json", gateway.process.pid());
    let file = gateway.setup.data().join("run").join(file);
    let said = std::fs::read(file).expect("the gateway has said where it listens");
    let said: Value = serde_json::from_slice(&said).expect("JSON");
    let all = said["listeners"].as_array().expect("listeners");
    all.iter()
        .map(|address| address.as_str().expect("a text").to_owned())
        .collect()
}

#[test]
fn b_1_a_listener_serves_one_backend_at_mcp_and_nothing_else() {
    let (one, two) = (Server::start(&[]), Server::start(&[]));
    let gateway = Gateway::ready(&format!(
        "[review]\nenabled = true\n\
         [[listeners]]\nlisten = \"127.0.0.1:0\"\nbackend = \"review\"\n\
         [[listeners]]\nlisten = \"127.0.0.1:0\"\nbackend = \"two\"\n\
         [[listeners]]\nlisten = \"127.0.0.1:0\"\nsurfaces = [\"rest\"]\n\
         [[listeners]]\nlisten = \"127.0.0.1:0\"\n{}{}",
        http_backend("one", &one.address, "prefix = \"always\""),
        http_backend("two", &two.address, "prefix = \"always\""),
    ));
    let addresses = listeners(&gateway);
    let [review, two, rest, all] = &addresses[..] else {
        panic!("four listeners: {addresses:?}");
    };
    let tools = Modern::at(review, "/mcp", json!({})).tools();
    assert!(tools.contains(&"submit_proposal".to_owned()), "{tools:?}");
    assert!(!tools.iter().any(|tool| tool.contains("echo")), "{tools:?}");
    let own = Modern::at(two, "/mcp", json!({}));
    assert_eq!(own.said("echo", json!({"text": "own name"})), "own name");
    let web = Web::at(two);
    for path in ["/mcp/one", "/mcp/two", "/api/two__echo", "/rpc"] {
        let answer = web.post(path, &json!({"text": "x"}));
        assert_eq!(answer.status, 404, "{path}: {answer:?}");
        let text = "there is nothing at this path; MCP is at /mcp";
        assert_eq!(answer.json()["detail"], text, "{path}");
    }
    assert_eq!(web.get("/admin/api/status").status, 404);
    assert_eq!(web.get("/health").status, 200);

    // A session that was opened elsewhere shows everything, so it takes no messages here.
    let mut stream = Web::at(all).send("GET", "/sse", &[], "").head();
    let endpoint = stream.event().expect("where messages go");
    let path = endpoint
        .split("data:")
        .nth(1)
        .expect("a path")
        .trim()
        .to_owned();
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    assert_eq!(Web::at(two).post(&path, &ping).status, 404, "{path}");
    assert_eq!(Web::at(all).post(&path, &ping).status, 202);

    let echo = json!({"text": "x"});
    assert_eq!(Web::at(rest).post("/api/two__echo", &echo).status, 200);
    assert_eq!(Web::at(rest).rpc("two__echo", &echo).status, 404);
    assert_eq!(Web::at(rest).post("/mcp", &echo).status, 404);
    assert_eq!(Web::at(all).rpc("one__echo", &echo).status, 200);
    assert_eq!(Web::at(all).get("/admin/api/status").status, 200);
}

#[test]
fn b_1_an_address_that_is_taken_is_named_with_its_key() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address");
    let setup =
        crate::support::setup::Setup::new(&format!("[[listeners]]\nlisten = \"{address}\"\n"));
    let (code, _, text) = setup.sentinel(&["serve"]);
    assert_eq!(code, 1, "{text}");
    let want = format!("cannot listen on {address}");
    assert!(
        text.contains(&want) && text.contains("listeners.listen"),
        "{text}"
    );
}
