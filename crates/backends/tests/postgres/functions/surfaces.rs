//! Calls of functions: their arguments, their results, and the transactions they run in.

use std::time::Duration;

use sentinel_core::{Extra, Kind, rows};
use serde_json::json;

use crate::gateway::{gateway, known, member, nobody};

const ARGUMENTS: &str = r#"
CREATE FUNCTION api.defaults(a int, b int DEFAULT 10, c text DEFAULT 'x') RETURNS text LANGUAGE sql STABLE
    AS $$SELECT pg_catalog.concat_ws(',', a::text, COALESCE(b::text, 'null'), COALESCE(c, 'null'))$$;
COMMENT ON FUNCTION api.defaults IS '@tool';
CREATE FUNCTION api.variadic(a text, VARIADIC more int[]) RETURNS text LANGUAGE sql STABLE
    AS $$SELECT a || COALESCE(more::text, 'null')$$;
COMMENT ON FUNCTION api.variadic IS '@tool';
CREATE FUNCTION api.strict(a int) RETURNS int LANGUAGE sql STRICT STABLE AS 'SELECT 1';
COMMENT ON FUNCTION api.strict IS '@tool';
CREATE FUNCTION api."Odd ""name\; -- /*"(a int, f int, ff int, "x ""y\; é --" text, "select" text)
    RETURNS TABLE (f_ int, r text, "a b" text, fff bytea) LANGUAGE sql STABLE
    AS $$SELECT a + f + ff, "x ""y\; é --", "select", 'x'::bytea$$;
COMMENT ON FUNCTION api."Odd ""name\; -- /*" IS '@tool odd';
CREATE FUNCTION api.bound(a text, who text, tenant int DEFAULT 0, token text DEFAULT 'none', role text DEFAULT '') RETURNS text
    LANGUAGE sql STABLE AS $$SELECT pg_catalog.concat_ws(',', a, COALESCE(who, 'nobody'), COALESCE(tenant, -1), pg_catalog.length(token), role)$$;
COMMENT ON FUNCTION api.bound IS '@tool
@bind who auth.user_id
@bind tenant auth.tenant_id
@bind token auth.token
@bind role auth.role';
CREATE FUNCTION api.members_only() RETURNS text LANGUAGE sql STABLE AS $$SELECT current_setting('auth.user_id')$$;
COMMENT ON FUNCTION api.members_only IS '@tool
@auth';
"#;

#[tokio::test]
async fn arguments_reach_their_parameters() {
    let gateway = gateway(ARGUMENTS, |_| {}).await;
    for (tool, arguments, wanted) in [
        ("defaults", r#"{"a":1}"#, r#"{"result":"1,10,x"}"#),
        ("defaults", r#"{"c":"é","a":1}"#, r#"{"result":"1,10,é"}"#),
        (
            "defaults",
            r#"{"a":1,"b":null}"#,
            r#"{"result":"1,null,x"}"#,
        ),
        (
            "defaults",
            r#"{"a":null,"b":2,"c":null}"#,
            r#"{"result":"2,null"}"#,
        ),
        ("variadic", r#"{"a":"a"}"#, r#"{"result":"a{}"}"#),
        (
            "variadic",
            r#"{"a":"a","more":[1,2]}"#,
            r#"{"result":"a{1,2}"}"#,
        ),
        (
            "variadic",
            r#"{"a":"a","more":null}"#,
            r#"{"result":"anull"}"#,
        ),
        (
            "odd",
            r#"{"a":1,"f":2,"ff":3,"x \"y\\; é --":"'); DROP TABLE x; --","select":"\" $1 \\"}"#,
            r#"{"rows":[{"f_":6,"r":"'); DROP TABLE x; --","a b":"\" $1 \\","fff":"eA=="}],"truncated":false}"#,
        ),
        ("bound", r#"{"a":"x"}"#, r#"{"result":"x,nobody,-1"}"#),
    ] {
        let answer = gateway.call(tool, arguments).await;
        assert_eq!(
            answer.as_deref().unwrap_or("refused"),
            wanted,
            "{tool} {arguments}"
        );
    }
    let alice = known("alice", "42");
    let bound = gateway
        .call_as(alice.clone(), "bound", r#"{"a":"x"}"#)
        .await
        .unwrap();
    assert_eq!(bound, r#"{"result":"x,alice,42,64,admin"}"#);
    // The next call on the same connection is nobody's.
    assert_eq!(
        gateway.call("bound", r#"{"a":"x"}"#).await.unwrap(),
        r#"{"result":"x,nobody,-1"}"#
    );
    let members = gateway.call_as(alice, "members_only", "{}").await.unwrap();
    assert_eq!(members, r#"{"result":"alice"}"#);
    assert_eq!(
        gateway.refusal("members_only", "{}").await,
        Kind::Unauthorized
    );
    for (tool, arguments) in [
        ("defaults", "{}"),
        ("defaults", r#"{"a":1,"d":1}"#),
        ("defaults", r#"{"a":"1"}"#),
        ("strict", r#"{"a":null}"#),
        ("bound", r#"{"a":"x","who":"root"}"#),
    ] {
        let refusal = gateway.refusal(tool, arguments).await;
        assert_eq!(refusal, Kind::InvalidArguments, "{tool} {arguments}");
    }
    // What cannot be made a number is the fault of the caller's identity, and no crash.
    let odd = gateway
        .call_as(known("bob", "not a number"), "bound", r#"{"a":"x"}"#)
        .await;
    assert_eq!(odd.unwrap_err().kind, Kind::InvalidParams);
}

const RESULTS: &str = r#"
CREATE FUNCTION api.one_out(OUT n int) LANGUAGE sql STABLE AS 'SELECT 7';
CREATE FUNCTION api.one_column() RETURNS TABLE (n bytea) LANGUAGE sql STABLE AS $$SELECT 'a'::bytea UNION ALL SELECT NULL$$;
CREATE FUNCTION api.two_out(INOUT a int, OUT b text) LANGUAGE sql STABLE AS $$SELECT a + 1, 'b'$$;
CREATE TYPE api.one AS (n bytea);
CREATE FUNCTION api.composite_out(OUT x api.one) LANGUAGE sql STABLE AS $$SELECT ROW('a'::bytea)::api.one$$;
CREATE FUNCTION api.composite_column() RETURNS TABLE (x api.one) LANGUAGE sql STABLE AS $$SELECT ROW('a'::bytea)::api.one$$;
CREATE DOMAIN api.only AS api.one;
CREATE FUNCTION api.composite_domains() RETURNS SETOF api.only LANGUAGE sql STABLE AS $$SELECT ROW('a'::bytea)::api.one::api.only$$;
CREATE FUNCTION api.nothing() RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION api.none() RETURNS SETOF int LANGUAGE sql STABLE AS 'SELECT 1 WHERE false';
CREATE FUNCTION api.many(n int) RETURNS TABLE (f int, v json) LANGUAGE sql STABLE
    AS $$SELECT i, E'{"a":\n 1}'::json FROM pg_catalog.generate_series(1, n) AS i$$;
COMMENT ON FUNCTION api.many IS '@tool
@max_rows 3';
CREATE FUNCTION api.many_more(n int) RETURNS SETOF int LANGUAGE sql STABLE AS 'SELECT pg_catalog.generate_series(1, n)';
CREATE FUNCTION api.long() RETURNS bytea LANGUAGE sql STABLE AS $$SELECT pg_catalog.decode(pg_catalog.repeat('ff', 100), 'hex')$$;
CREATE FUNCTION api.plain() RETURNS text LANGUAGE sql STABLE AS $$SELECT 'a "b"'$$;
COMMENT ON FUNCTION api.plain IS '@tool
@mime text/plain';
CREATE FUNCTION api.large(n int) RETURNS text LANGUAGE sql STABLE AS $$SELECT pg_catalog.repeat('x', n)$$;
"#;

#[tokio::test]
async fn results_are_objects_with_the_columns_or_the_value() {
    let gateway = gateway(RESULTS, |settings| {
        settings.expose = sentinel_config::Expose::All;
        settings.max_rows = 5;
    })
    .await;
    let v = "{\"a\":\n 1}";
    let many = format!(
        r#"{{"rows":[{{"f":1,"v":{v}}},{{"f":2,"v":{v}}},{{"f":3,"v":{v}}}],"truncated":true}}"#
    );
    let long = format!(r#"{{"result":"{}w=="}}"#, "/".repeat(133));
    for (tool, arguments, wanted) in [
        ("one_out", "{}", r#"{"n":7}"#),
        (
            "one_column",
            "{}",
            r#"{"rows":[{"n":"YQ=="},{"n":null}],"truncated":false}"#,
        ),
        ("two_out", r#"{"a":1}"#, r#"{"a":2,"b":"b"}"#),
        ("composite_out", "{}", r#"{"n":"YQ=="}"#),
        (
            "composite_column",
            "{}",
            r#"{"rows":[{"n":"YQ=="}],"truncated":false}"#,
        ),
        (
            "composite_domains",
            "{}",
            r#"{"rows":[{"n":"YQ=="}],"truncated":false}"#,
        ),
        ("nothing", "{}", r#"{"result":null}"#),
        ("none", "{}", r#"{"rows":[],"truncated":false}"#),
        ("many", r#"{"n":4}"#, &many),
        (
            "many_more",
            r#"{"n":5}"#,
            r#"{"rows":[1,2,3,4,5],"truncated":false}"#,
        ),
        (
            "many_more",
            r#"{"n":6}"#,
            r#"{"rows":[1,2,3,4,5],"truncated":true}"#,
        ),
        ("long", "{}", &long),
        ("plain", "{}", r#"{"result":"a \"b\""}"#),
    ] {
        let answer = gateway.call(tool, arguments).await;
        assert_eq!(
            answer.as_deref().unwrap_or("refused"),
            wanted,
            "{tool} {arguments}"
        );
        assert_eq!(gateway.misfits(tool), 0, "{tool}: the output schema");
    }
    let text = async |tool: &str| {
        let reply = gateway
            .run_as(nobody(), tool, "{}", Extra::default())
            .await
            .unwrap();
        member(&reply, "content")
    };
    assert_eq!(text("plain").await, r#"[{"type":"text","text":"a \"b\""}]"#);
    assert_eq!(
        text("one_out").await,
        r#"[{"type":"text","text":"{\"n\":7}"}]"#
    );
    let too_large = gateway.refusal("large", r#"{"n":5000000}"#).await;
    assert_eq!(too_large, Kind::BackendError);
}

#[tokio::test]
async fn rows_of_a_set_go_to_the_caller_one_by_one() {
    let gateway = gateway(RESULTS, |settings| {
        settings.expose = sentinel_config::Expose::All;
        settings.max_rows = 5;
    })
    .await;
    let (sender, mut receiver) = rows::rows(Duration::from_secs(10));
    let extra = Extra {
        rows: Some(sender),
        ..Extra::default()
    };
    let call = gateway.run_as(nobody(), "many", r#"{"n":20000}"#, extra);
    let take = async {
        let mut lines = Vec::new();
        while let Some(piece) = receiver.recv().await {
            let piece = String::from_utf8(piece.to_vec()).unwrap();
            lines.extend(piece.lines().map(str::to_owned));
        }
        lines
    };
    let (reply, lines) = tokio::join!(call, take);
    assert_eq!(lines.len(), 20_000, "no bound of rows");
    assert_eq!(lines[19_999], r#"{"f":20000,"v":{"a":  1}}"#);
    let content = member(&reply.unwrap(), "structuredContent");
    assert_eq!(content, r#"{"rows":[],"truncated":false,"count":20000}"#);
    // A caller that left ends the call, and the connection is free for the next one.
    let (sender, receiver) = rows::rows(Duration::from_secs(10));
    drop(receiver);
    let extra = Extra {
        rows: Some(sender),
        ..Extra::default()
    };
    let gone = gateway
        .run_as(nobody(), "many", r#"{"n":1000000}"#, extra)
        .await;
    assert_eq!(gone.unwrap_err().kind, Kind::Cancelled);
    assert!(gateway.call("one_out", "{}").await.is_ok());
}

const OTHERS: &str = r#"
CREATE FUNCTION api.status() RETURNS jsonb LANGUAGE sql STABLE AS $$SELECT '{"ok": true}'::jsonb$$;
COMMENT ON FUNCTION api.status IS 'How it is.
@resource shop://status';
CREATE FUNCTION api.note(id int, part text DEFAULT 'all') RETURNS text LANGUAGE sql STABLE
    AS $$SELECT CASE WHEN id < 100 THEN pg_catalog.concat(id, ' é ', part) END$$;
COMMENT ON FUNCTION api.note IS '@resource note://notes/{id} note';
CREATE FUNCTION api.part(id int, part text) RETURNS bytea LANGUAGE sql STABLE AS $$SELECT 'ab'::bytea$$;
COMMENT ON FUNCTION api.part IS '@resource note://notes/{id}/{part}
@mime image/png';
CREATE FUNCTION api.greet(name text, times int DEFAULT 1) RETURNS text LANGUAGE sql STABLE
    AS $$SELECT pg_catalog.repeat('hello ' || name, times)$$;
COMMENT ON FUNCTION api.greet IS 'Greets.
@prompt
@param name who is greeted';
CREATE FUNCTION api.talk() RETURNS TABLE (role text, content text) LANGUAGE sql STABLE
    AS $$VALUES ('user', 'a'), ('assistant', 'b')$$;
COMMENT ON FUNCTION api.talk IS '@prompt';
CREATE FUNCTION api.scene(ok bool) RETURNS jsonb LANGUAGE sql STABLE AS $$SELECT CASE WHEN ok
    THEN '[{"role":"user","content":{"type":"text","text":"x"}},{"role":"assistant","content":"y"}]'::jsonb
    ELSE '[{"role":"system","content":"x"}]'::jsonb END$$;
COMMENT ON FUNCTION api.scene IS '@prompt stage';
"#;

#[tokio::test]
async fn functions_are_resources_and_prompts() {
    let gateway = gateway(OTHERS, |_| {}).await;
    let read = async |uri: &str| {
        gateway
            .read(uri)
            .await
            .map(|read| read["contents"][0].clone())
    };
    let status =
        json!({"uri": "shop://status", "mimeType": "application/json", "text": r#"{"ok": true}"#});
    assert_eq!(read("shop://status").await.unwrap(), status);
    let note = json!({"uri": "note://notes/7", "mimeType": "text/plain", "text": "7 é all"});
    assert_eq!(read("note://notes/7").await.unwrap(), note);
    let part = json!({"uri": "note://notes/7/a%20b", "mimeType": "image/png", "blob": "YWI="});
    assert_eq!(read("note://notes/7/a%20b").await.unwrap(), part);
    assert_eq!(
        read("note://notes/100").await.unwrap_err().kind,
        Kind::UnknownResource
    );
    assert_eq!(
        read("note://notes/x").await.unwrap_err().kind,
        Kind::InvalidParams
    );
    assert_eq!(
        read("note://notes/1.5").await.unwrap_err().kind,
        Kind::InvalidParams
    );
    let message =
        |role: &str, text: &str| json!({"role": role, "content": {"type": "text", "text": text}});
    let greeted = gateway
        .prompt("greet", r#"{"name":"é","times":"2"}"#)
        .await
        .unwrap();
    assert_eq!(
        greeted["messages"],
        json!([message("user", "hello éhello é")])
    );
    assert_eq!(greeted["description"], "Greets.");
    let talk = gateway.prompt("talk", "{}").await.unwrap();
    assert_eq!(
        talk["messages"],
        json!([message("user", "a"), message("assistant", "b")])
    );
    let scene = gateway.prompt("stage", r#"{"ok":"true"}"#).await.unwrap();
    assert_eq!(
        scene["messages"],
        json!([message("user", "x"), message("assistant", "y")])
    );
    for (name, arguments, wanted) in [
        ("stage", r#"{"ok":"false"}"#, Kind::BackendBadReply),
        ("stage", "{}", Kind::InvalidParams),
        ("greet", r#"{"name":"a","other":"b"}"#, Kind::InvalidParams),
        ("greet", r#"{"name":"a","times":"b"}"#, Kind::InvalidParams),
    ] {
        let refusal = gateway.prompt(name, arguments).await.unwrap_err();
        assert_eq!(refusal.kind, wanted, "{name} {arguments}");
    }
}

const TRANSACTIONS: &str = r#"
CREATE TABLE api.seen (n int);
GRANT ALL ON api.seen TO gateway;
CREATE FUNCTION api.write(n int) RETURNS int LANGUAGE sql AS 'INSERT INTO api.seen VALUES (n) RETURNING n';
COMMENT ON FUNCTION api.write IS '@tool';
CREATE FUNCTION api.sneak(n int) RETURNS int LANGUAGE plpgsql STABLE AS 'BEGIN RETURN api.write(n); END';
COMMENT ON FUNCTION api.sneak IS '@tool';
CREATE FUNCTION api.promise(n int) RETURNS int LANGUAGE sql AS 'INSERT INTO api.seen VALUES (n) RETURNING n';
COMMENT ON FUNCTION api.promise IS '@tool
@read_only';
CREATE FUNCTION api.mode() RETURNS text LANGUAGE sql AS $$SELECT pg_catalog.concat_ws(',', current_setting('transaction_isolation'),
    current_setting('transaction_read_only'), current_setting('transaction_deferrable'))$$;
COMMENT ON FUNCTION api.mode IS '@tool';
CREATE FUNCTION api.strong_mode() RETURNS text LANGUAGE sql AS 'SELECT api.mode()';
COMMENT ON FUNCTION api.strong_mode IS '@tool
@isolation serializable
@read_only
@deferrable';
CREATE FUNCTION api.hold() RETURNS void LANGUAGE sql AS 'SELECT pg_catalog.pg_advisory_lock(7)';
COMMENT ON FUNCTION api.hold IS '@tool';
CREATE FUNCTION api.held() RETURNS int LANGUAGE sql AS $$SELECT count(*)::int FROM pg_catalog.pg_locks WHERE locktype = 'advisory'$$;
COMMENT ON FUNCTION api.held IS '@tool';
CREATE FUNCTION api.slow() RETURNS text LANGUAGE sql AS 'SELECT pg_catalog.pg_sleep(30)::text';
COMMENT ON FUNCTION api.slow IS '@tool
@timeout 50ms';
CREATE FUNCTION api.fail(code text) RETURNS text LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'marker-4711' USING ERRCODE = code; END$$;
COMMENT ON FUNCTION api.fail IS '@tool';
"#;

#[tokio::test]
async fn transactions_are_as_declared() {
    let gateway = gateway(TRANSACTIONS, |settings| settings.max_connections = 1).await;
    assert_eq!(
        gateway.call("write", r#"{"n":1}"#).await.unwrap(),
        r#"{"result":1}"#
    );
    for tool in ["sneak", "promise"] {
        let refused = gateway.call(tool, r#"{"n":2}"#).await.unwrap_err();
        let wanted = "the operation is declared read-only and tried to write";
        assert_eq!(
            (refused.kind, &*refused.public),
            (Kind::BackendError, wanted),
            "{tool}"
        );
    }
    assert_eq!(
        gateway
            .cluster
            .ask("SELECT string_agg(n::text, ',') FROM api.seen"),
        "1"
    );
    let mode = gateway.call("mode", "{}").await.unwrap();
    assert_eq!(mode, r#"{"result":"read committed,off,off"}"#);
    let mode = gateway.call("strong_mode", "{}").await.unwrap();
    assert_eq!(mode, r#"{"result":"serializable,on,on"}"#);
    // A lock of the session does not outlast its call for the next one, also of the same caller.
    gateway.call("hold", "{}").await.unwrap();
    let held = gateway.call("held", "{}").await.unwrap();
    assert_eq!(held, r#"{"result":0}"#);
    assert_eq!(gateway.refusal("slow", "{}").await, Kind::BackendTimeout);
    for (code, wanted, is_public) in [
        ("PT404", Kind::NotFound, true),
        ("23505", Kind::Conflict, false),
        ("XX000", Kind::BackendError, false),
        ("22000", Kind::Unprocessable, false),
        ("2201B", Kind::InvalidParams, false),
        // A mistake in the function, which says where it is.
        ("42601", Kind::BackendError, false),
    ] {
        let fault = gateway
            .call("fail", &format!(r#"{{"code":"{code}"}}"#))
            .await
            .unwrap_err();
        assert_eq!(fault.kind, wanted, "{code}");
        assert_eq!(fault.public.contains("marker-4711"), is_public, "{code}");
        assert!(!format!("{:?}", fault.data).contains("marker"), "{code}");
    }
}
