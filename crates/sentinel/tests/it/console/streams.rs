//! When streams of the admin API end, who may open them, and what of them is on record.

use std::time::Duration;

use serde_json::{Value, json};

use super::live::{event, open};
use crate::support::records::export;
use crate::support::setup::{Gateway, Setup, until, within};
use crate::support::tokens::token;
use crate::support::web::Web;

const AUTH: &str = "[auth]\n[rbac.roles.reader]\npermissions = [\"tool:echo\"]\n";
const STREAMS: [&str; 2] = ["live", "audit/live"];

fn admin(gateway: &Gateway, subject: &str) -> Web {
    let token = token(json!({"sub": subject, "role": "admin"}));
    Web::new(gateway).bearing(&token)
}

/// Reads until the stream ends.
#[track_caller]
fn ends(mut stream: crate::support::http::Stream) {
    within(Duration::from_secs(10), "the stream ends", || {
        stream.event().is_none().then_some(())
    });
}

#[test]
fn streams_are_for_admins_and_leave_one_record_each() {
    let gateway = Gateway::start(AUTH);
    let reader = Web::new(&gateway).bearing(&token(json!({"sub": "r", "role": "reader"})));
    for what in STREAMS
        .iter()
        .chain(&["audit/export", "audit/record?key=n.1.1"])
    {
        let path = format!("/admin/api/{what}");
        assert_eq!(Web::new(&gateway).get(&path).status, 401, "{what}");
        assert_eq!(reader.get(&path).status, 403, "{what}");
    }
    let web = admin(&gateway, "op");
    for what in STREAMS {
        let stream = open(&web, what);
        stream.hang_up();
        let path = format!("/admin/api/{what}");
        let head = web.send("HEAD", &path, &[], "").finish();
        assert_eq!(head.status, 405, "{what}");
        assert_eq!(head.header("allow"), "GET", "{what}");
    }
    let records = export(&gateway.end());
    for what in STREAMS {
        let method = format!("admin/{what}");
        let of_op = |record: &&Value| record["caller"] == "op" && record["method"] == method;
        let opened = records
            .iter()
            .filter(of_op)
            .filter(|r| r["outcome"] == "success");
        assert_eq!(opened.count(), 1, "{what}");
    }
}

#[test]
fn streams_end_when_the_gateway_drains() {
    let mut gateway = Gateway::start("");
    let web = Web::new(&gateway);
    let streams = STREAMS.map(|what| open(&web, what));
    gateway.process.signal("TERM");
    streams.into_iter().for_each(ends);
    assert!(gateway.process.wait().success());
}

#[test]
fn streams_end_with_the_key_or_the_rights_of_their_reader() {
    let setup = Setup::new(AUTH);
    let (code, key, said) = setup.sentinel(&["key", "create", "op", "--role", "admin"]);
    assert_eq!(code, 0, "{said}");
    let key = key.trim().to_owned();
    let gateway = Gateway::start_in(setup);
    let holder = Web::new(&gateway).bearing(&key);
    let by_key = STREAMS.map(|what| open(&holder, what));
    let killed = admin(&gateway, "mallory");
    let mut by_subject = open(&killed, "live");
    event(&mut by_subject);

    let operator = admin(&gateway, "op");
    let keys = operator.get("/admin/api/keys").json();
    let id = keys["keys"][0]["id"].clone();
    let revoked = operator.post("/admin/api/keys/revoke", &json!({"id": id}));
    assert_eq!(revoked.status, 200, "{revoked:?} {keys}");
    by_key.into_iter().for_each(ends);

    let kill = json!({"scope": "caller", "name": "mallory", "reason": "a test"});
    assert_eq!(operator.post("/admin/api/kill", &kill).status, 200);
    ends(by_subject);
}

#[test]
fn streams_count_toward_the_bound_of_streams() {
    let gateway = Gateway::start("[limits]\nstreams = 2\n");
    let web = Web::new(&gateway);
    let streams = STREAMS.map(|what| open(&web, what));
    let refused = web.get("/admin/api/live");
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_eq!(refused.json()["kind"], "too_many_streams");
    streams
        .into_iter()
        .for_each(crate::support::http::Stream::hang_up);
    until("there is room again", || {
        let stream = web.send("GET", "/admin/api/live", &[], "").head();
        (stream.status == 200).then(|| stream.hang_up())
    });
}
