//! Results and resources that are bytes, as the media type that they are.

use std::io::Read;

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::support::setup::{Gateway, Server};
use crate::support::web::Web;

/// The body of an answer as it came.
fn bytes_of(
    web: &Web,
    verb: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (String, Vec<u8>) {
    let mut socket = std::net::TcpStream::connect(&web.address).expect("it listens");
    let headers: String = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let request = format!(
        "{verb} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        web.address,
        body.len()
    );
    std::io::Write::write_all(&mut socket, request.as_bytes()).expect("it reads");
    let mut all = Vec::new();
    socket.read_to_end(&mut all).expect("an answer");
    let at = all
        .windows(4)
        .position(|part| part == b"\r\n\r\n")
        .expect("a head");
    let head = String::from_utf8_lossy(&all[..at]).to_ascii_lowercase();
    (head, all.split_off(at + 4))
}

fn gateway(api: &Server) -> (Gateway, NamedTempFile) {
    let operation = |id: &str| {
        json!({"get": {"operationId": id, "parameters": [
            {"name": "n", "in": "query", "schema": {"type": "integer"}}],
            "responses": {"200": {"description": "Bytes"}}}})
    };
    let description = json!({
        "openapi": "3.1.0", "info": {"title": "An API", "version": "1"},
        "servers": [{"url": format!("http://{}", api.address)}],
        "paths": {"/bytes/image/png": operation("picture"), "/bytes/audio/wav": operation("sound"),
                  "/bytes/application/pdf": operation("paper")},
    });
    let spec = NamedTempFile::with_suffix(".json").expect("a file");
    std::fs::write(spec.path(), description.to_string()).expect("written");
    let gateway = Gateway::ready(&format!(
        "[[backends]]\nname = \"api\"\ntype = \"openapi\"\nspec = {:?}\nbase_url = \"http://{}\"\n",
        spec.path(),
        api.address
    ));
    (gateway, spec)
}

/// A-2, with a result that JSON does not have.
#[test]
fn a_2_a_result_that_is_one_image_sound_or_file_comes_as_its_bytes_if_asked_for() {
    let api = Server::api(&[]);
    let (gateway, _spec) = gateway(&api);
    let web = Web::new(&gateway);
    for (tool, media_type) in [
        ("picture", "image/png"),
        ("sound", "audio/wav"),
        ("paper", "application/pdf"),
    ] {
        let path = format!("/api/{tool}");
        let (direct, wanted) = bytes_of(
            &Web::at(&api.address),
            "GET",
            &format!("/bytes/{media_type}?n=900"),
            &[],
            "",
        );
        assert!(
            direct.starts_with("http/1.1 200") && wanted.len() == 900,
            "{direct}"
        );
        let json_body = ("Content-Type", "application/json");
        let (head, bytes) = bytes_of(
            &web,
            "POST",
            &path,
            &[json_body, ("Accept", media_type)],
            r#"{"n": 900}"#,
        );
        assert!(
            head.starts_with("http/1.1 200")
                && head.contains(&format!("content-type: {media_type}")),
            "{head}"
        );
        assert_eq!(bytes, wanted, "{tool}: as the API has them");
        let (head, body) = bytes_of(
            &web,
            "POST",
            &path,
            &[json_body, ("Accept", "*/*")],
            r#"{"n": 900}"#,
        );
        assert!(head.contains("content-type: application/json"), "{head}");
        let blocks: Value = serde_json::from_slice(&body).expect("JSON");
        assert!(blocks["content"].is_array(), "{blocks}");
    }
}
