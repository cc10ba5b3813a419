//! Tasks, in every pairing of eras: callers of the extension get a handle, all others an ordinary slow
//! call (C-39). A handle is good for its caller only, and policy decides on the tool behind it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::callers::{Caller, Legacy, Modern, request, text_of, tool};
use crate::support::http::{Stream, parse};
use crate::support::setup::{Gateway, Server, http_backend, stdio_backend, until};
use crate::support::tokens::token;

const TASKS: &str = "io.modelcontextprotocol/tasks";
const BACKENDS: [&str; 4] = ["hl", "hm", "sl", "sm"];

fn declared() -> Value {
    json!({"elicitation": {}, "extensions": {TASKS: {}}})
}

/// Servers of either era with a tool that runs as a task; children of one caller each may ask.
fn diggers(more: &str) -> (Gateway, [Server; 2]) {
    let legacy = Server::start(&["--era", "legacy", "--tasks"]);
    let modern = Server::start(&["--era", "modern", "--tasks"]);
    let alone = "isolation = \"caller\"";
    let config = [
        more.to_owned(),
        http_backend("hl", &legacy.address, ""),
        http_backend("hm", &modern.address, ""),
        stdio_backend("sl", &["--era", "legacy", "--tasks"], alone),
        stdio_backend("sm", &["--era", "modern", "--tasks"], alone),
        stdio_backend("shared", &["--era", "modern", "--tasks"], ""),
    ];
    (Gateway::ready(&config.concat()), [legacy, modern])
}

fn at(gateway: &Gateway, backend: &str) -> Modern {
    Modern::with(gateway, &format!("/mcp/{backend}"), declared())
}

#[track_caller]
fn begin(caller: &Modern, arguments: Value) -> Value {
    let task = caller.result("tools/call", tool("dig", arguments));
    assert_eq!(task["resultType"], "task", "{task}");
    assert!(
        task["ttlMs"].is_u64() && task["pollIntervalMs"].is_u64(),
        "{task}"
    );
    assert!(
        task.get("ttl").is_none() && task.get("task").is_none(),
        "{task}"
    );
    task["taskId"].clone()
}

fn get(caller: &Modern, task: &Value) -> Value {
    caller.result("tasks/get", json!({"taskId": task}))
}

fn until_status(caller: &Modern, task: &Value, status: &str) -> Value {
    until(status, || {
        Some(get(caller, task)).filter(|now| now["status"] == status)
    })
}

#[test]
fn c_39_a_caller_of_the_extension_gets_a_task_from_servers_of_either_era() {
    let (gateway, _servers) = diggers("");
    for backend in BACKENDS {
        let caller = at(&gateway, backend);
        let hello = caller.result("server/discover", json!({}));
        let offered = &hello["capabilities"]["extensions"][TASKS];
        assert!(offered.is_object(), "{backend}: {hello}");

        let task = begin(&caller, json!({"ms": 50}));
        assert_ne!(task, "dig-1", "the server's own id is not shown");
        let done = until_status(&caller, &task, "completed");
        assert_eq!(done["taskId"], task, "{backend}");
        assert_eq!(done["result"]["content"][0]["text"], "dug ", "{backend}");
        assert!(
            done["result"]["_meta"]
                .get("io.modelcontextprotocol/related-task")
                .is_none()
        );

        let task = begin(&caller, json!({"question": "Why?"}));
        let asked = until_status(&caller, &task, "input_required");
        let asked = asked["inputRequests"].as_object().expect("questions");
        let (key, question) = asked.iter().next().expect("one");
        assert_eq!(question["method"], "elicitation/create");
        let message = &question["params"]["message"];
        assert_eq!(*message, format!("[{backend}] Why?"), "it says who asks");
        assert!(!question.to_string().contains("dig-"), "{question}");
        // Other work goes on while the task waits for its answer.
        assert_eq!(caller.said("echo", json!({"text": "x"})), "x", "{backend}");
        let because = json!({"action": "accept", "content": {"why": "because"}});
        let answer = json!({"taskId": task, "inputResponses": {key: because}});
        let ack = caller.result("tasks/update", answer);
        assert_eq!(ack["resultType"], "complete", "{backend}");
        let done = until_status(&caller, &task, "completed");
        let text = done["result"]["content"][0]["text"]
            .as_str()
            .expect("a text");
        assert!(text.contains("because"), "{backend}: {text}");

        let task = begin(&caller, json!({"ms": 60_000}));
        for _ in 0..2 {
            let ack = caller.result("tasks/cancel", json!({"taskId": task}));
            assert_eq!(ack["resultType"], "complete", "{backend}");
            assert!(ack.get("status").is_none(), "{backend}: {ack}");
        }
        until_status(&caller, &task, "cancelled");
        for removed in ["tasks/result", "tasks/list"] {
            let refused = caller.ask(removed, json!({"taskId": task}));
            assert_eq!(refused["error"]["code"], -32601, "{backend}: {removed}");
        }
    }
}

#[test]
fn c_39_to_all_others_it_is_a_slow_call() {
    let (gateway, _servers) = diggers("");
    for backend in BACKENDS {
        let path = format!("/mcp/{backend}");
        let can = json!({"elicitation": {}});
        let legacy = Legacy::with(&gateway, &path, "2025-11-25", can);
        let listed = legacy.result("tools/list", json!({}));
        let listed = listed["tools"].as_array().expect("tools");
        let dig = listed
            .iter()
            .find(|tool| tool["name"] == "dig")
            .expect("dig");
        assert!(
            dig.get("execution").is_none(),
            "nobody is told to ask for a task"
        );
        // What the caller itself wants is not passed on.
        let call = json!({"name": "dig", "arguments": {"ms": 50}, "task": {"ttl": 1}});
        let answer = legacy.ask("tools/call", call);
        assert_eq!(text_of(&answer), "dug ", "{backend}");

        let call = tool("dig", json!({"question": "Why?"}));
        let mut stream = legacy
            .send(&request(&json!("q"), "tools/call", call))
            .head();
        let question = stream.json();
        assert_eq!(
            question["method"], "elicitation/create",
            "{backend}: {question}"
        );
        // The caller knows of no task, least of all by its server's name; the server hears which one it is about.
        assert!(!question.to_string().contains("dig-"), "{question}");
        let answer =
            json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}});
        assert_eq!(legacy.post(&answer.to_string()).status, 202);
        let said = text_of(&stream.json());
        assert!(said.contains("decline"), "{backend}");
        let related = said.contains("related-task");
        assert_eq!(related, backend.ends_with('l'), "{backend}: {said}");
    }
    // A modern caller that does not know tasks: a legacy server's are waited for, a modern one says no.
    let plain = |backend: &str| Modern::new(&gateway, &format!("/mcp/{backend}"));
    assert_eq!(plain("hl").said("dig", json!({"ms": 50})), "dug ");
    let refused = plain("hm").call("dig", json!({"ms": 50}));
    assert_eq!(refused["error"]["code"], -32021);
}

#[test]
fn p_s05_a_handle_is_good_for_its_caller_and_as_long_as_its_tool_may_be_used() {
    let role = "[auth]\n[rbac.roles.digger]\npermissions = [\"hl.dig\", \"hm.dig\"]\n";
    let (gateway, _servers) = diggers(role);
    let bearing = |backend: &str, sub: &str| {
        let token = token(json!({"sub": sub, "role": "digger"}));
        at(&gateway, backend).bearing(&token)
    };
    for backend in ["hl", "hm"] {
        let (alice, bob) = (bearing(backend, "alice"), bearing(backend, "bob"));
        let task = begin(&alice, json!({"ms": 60_000}));
        // Her role names one tool, and that is enough.
        assert_eq!(get(&alice, &task)["status"], "working", "{backend}");
        let handle = task.as_str().expect("a handle");
        let altered = format!("{}{}", &handle[..handle.len() - 2], "AA");
        let methods = ["tasks/get", "tasks/update", "tasks/cancel"];
        for (caller, id) in [(&bob, handle), (&alice, &altered), (&alice, "dig-1")] {
            for method in methods {
                let refused = caller.ask(method, json!({"taskId": id, "inputResponses": {}}));
                assert_eq!(refused["error"]["code"], -32602, "{backend}: {method}");
            }
        }
        // Like a session it belongs to the endpoint that it was made at.
        let elsewhere = token(json!({"sub": "alice", "role": "digger"}));
        let elsewhere = Modern::with(&gateway, "/mcp", declared()).bearing(&elsewhere);
        for method in methods {
            let params = json!({"taskId": handle, "inputResponses": {}});
            let refused = elsewhere.ask(method, params);
            assert_eq!(refused["error"]["code"], -32602, "{backend}: {method}");
        }
        let listen = json!({"notifications": {"taskIds": [handle]}});
        let mut stream = elsewhere.send("subscriptions/listen", listen).head();
        let honoured = stream.json()["params"]["notifications"].clone();
        assert_eq!(honoured, json!({}), "{backend}");
        assert_eq!(get(&alice, &task)["status"], "working", "{backend}");
        switch(&gateway, "kill", "tool", &format!("{backend}.dig"));
        let refused = alice.ask("tasks/get", json!({"taskId": task}));
        assert_eq!(
            refused["error"]["data"]["kind"], "disabled",
            "{backend}: {refused}"
        );
    }
}

/// Kills or revives, as an administrator.
#[track_caller]
fn switch(gateway: &Gateway, how: &str, scope: &str, name: &str) {
    let what = json!({"scope": scope, "name": name, "reason": "test"});
    let admin = format!("Bearer {}", token(json!({"sub": "root"})));
    let headers = [
        crate::support::tokens::JSON_BODY,
        ("Authorization", &*admin),
    ];
    let path = format!("/admin/api/{how}");
    let done =
        crate::support::http::send(&gateway.address, "POST", &path, &headers, what.to_string());
    let done = done.finish();
    assert_eq!(done.status, 200, "{done:?}");
}

#[test]
fn p_s06_the_owner_of_a_task_can_cancel_it_although_its_tool_is_off_or_lost() {
    let roles = "[auth]\n[rbac.roles.digger]\npermissions = [\"hl.*\", \"hm.*\"]\n\
        [rbac.roles.other]\npermissions = [\"hl.echo\", \"hm.echo\"]\n";
    let (gateway, _servers) = diggers(roles);
    for backend in ["hl", "hm"] {
        let with = |sub: &str, role: &str| {
            at(&gateway, backend).bearing(&token(json!({"sub": sub, "role": role})))
        };
        let (alice, bob, demoted) = (
            with("alice", "digger"),
            with("bob", "digger"),
            with("alice", "other"),
        );
        let cancel = |caller: &Modern, task: &Value| {
            let answer = caller.ask("tasks/cancel", json!({"taskId": task}));
            let done = answer["result"]["resultType"] == "complete";
            (done, crate::support::callers::kind_of(&answer).to_owned())
        };
        let (done, refused) = ((true, String::new()), |kind: &str| (false, kind.to_owned()));

        // Whoever may not use the tool any more sees nothing of its task, but can end it.
        let task = begin(&alice, json!({"ms": 60_000}));
        let hidden = demoted.ask("tasks/get", json!({"taskId": task}));
        assert!(hidden["error"].is_object(), "{backend}: {hidden}");
        assert_eq!(get(&alice, &task)["status"], "working", "{backend}");
        assert_eq!(cancel(&demoted, &task), done, "{backend}");
        until_status(&alice, &task, "cancelled");

        let dig = format!("{backend}.dig");
        for (scope, name) in [("tool", &*dig), ("backend", backend), ("all", "")] {
            let task = begin(&alice, json!({"ms": 60_000}));
            switch(&gateway, "kill", scope, name);
            let off = alice.ask("tasks/get", json!({"taskId": task}));
            assert_eq!(
                crate::support::callers::kind_of(&off),
                "disabled",
                "{scope}: {off}"
            );
            assert_eq!(cancel(&bob, &task), refused("invalid_params"), "{scope}");
            assert_eq!(cancel(&alice, &task), done, "{backend}: {scope}");
            switch(&gateway, "revive", scope, name);
            until_status(&alice, &task, "cancelled");
        }

        // Who is off stays out.
        let task = begin(&alice, json!({"ms": 60_000}));
        switch(&gateway, "kill", "caller", "alice");
        assert_eq!(cancel(&alice, &task), refused("disabled"), "{backend}");
        switch(&gateway, "revive", "caller", "alice");
    }
}

/// P-S06: no call is in flight that could be ended, so the gateway cancels such tasks itself.
#[test]
fn p_s06_a_kill_ends_tasks_that_were_handed_out_and_no_others() {
    let (gateway, _servers) = diggers("");
    let cancelled = || {
        let log = gateway.setup.log();
        log.matches("a task was cancelled").count()
    };
    let ends = |caller: &Modern, scope: &str, name: &str| {
        let (task, before) = (begin(caller, json!({"ms": 60_000})), cancelled());
        switch(&gateway, "kill", scope, name);
        // Before it is revived: nobody can look at it until then.
        until("its backend was told", || {
            (cancelled() > before).then_some(())
        });
        switch(&gateway, "revive", scope, name);
        let now = get(caller, &task);
        assert_eq!(now["status"], "cancelled", "{scope} {name}");
        assert_eq!(cancelled(), before + 1, "those that are over are forgotten");
    };
    let bystander = at(&gateway, "shared");
    let other = begin(&bystander, json!({"ms": 60_000}));
    for backend in BACKENDS {
        let caller = at(&gateway, backend);
        ends(&caller, "tool", &format!("{backend}.dig"));
        ends(&caller, "backend", backend);
        assert_eq!(get(&bystander, &other)["status"], "working", "{backend}");
    }
    bystander.result("tasks/cancel", json!({"taskId": other}));
    until_status(&bystander, &other, "cancelled");
    for backend in BACKENDS {
        let caller = at(&gateway, backend);
        ends(&caller, "caller", "local");
        ends(&caller, "all", "");
    }
}

/// P-S06: a caller that knows nothing of tasks is off; the task behind its call ends with the call.
#[test]
fn p_s06_a_kill_ends_the_task_behind_an_ordinary_call() {
    let (gateway, [_legacy, server]) = diggers("");
    let direct = Modern::at(&server.address, "/mcp", declared());
    // Its server numbers whatever it is asked.
    let status = || {
        let tasks = (1..=50).map(|number| json!({"taskId": format!("dig-{number}")}));
        let mut found = tasks.map(|task| direct.ask("tasks/get", task)["result"]["status"].clone());
        found.find(|status| !status.is_null())
    };
    let legacy = Legacy::with(&gateway, "/mcp/hm", "2025-11-25", json!({}));
    let call = tool("dig", json!({"ms": 60_000}));
    let running = legacy.send(&request(&json!("d"), "tools/call", call));
    until("it works", || status().filter(|now| now == "working"));
    switch(&gateway, "kill", "caller", "local");
    let ended = running.finish().json();
    assert_eq!(
        crate::support::callers::kind_of(&ended),
        "disabled",
        "{ended}"
    );
    until("it ends", || status().filter(|now| now == "cancelled"));
}

#[test]
fn p_a06_a_request_about_a_task_is_recorded_with_its_backend_and_tool() {
    let (gateway, _servers) = diggers("");
    let whole = Modern::with(&gateway, "/mcp", declared());
    let mut wanted = Vec::new();
    for (backend, merged) in [("hl", "dig"), ("hm", "hm__dig")] {
        let alone = at(&gateway, backend);
        for (caller, name) in [(&whole, merged), (&alone, "dig")] {
            let task = caller.result("tools/call", tool(name, json!({"ms": 60_000})));
            let about = json!({"taskId": task["taskId"], "inputResponses": {}});
            for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
                caller.result(method, about.clone());
                wanted.push([method, backend, name].map(str::to_owned));
            }
        }
    }
    let refused = whole.ask("tasks/get", json!({"taskId": "no-handle"}));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    wanted.push(["tasks/get", "", "no-handle"].map(str::to_owned));

    let records = crate::support::records::export(&gateway.end());
    let of = |record: &Value| {
        ["method", "backend", "operation"]
            .map(|name| record[name].as_str().unwrap_or_default().to_owned())
    };
    let mut seen: Vec<_> = records.iter().map(of).collect();
    seen.retain(|[method, ..]| method.starts_with("tasks/"));
    seen.sort();
    wanted.sort();
    assert_eq!(seen, wanted);
}

/// Opens a subscription and returns what of its tasks is honoured.
fn listen(caller: &Modern, tasks: &[&Value]) -> (Stream, Value) {
    let wanted = json!({"notifications": {"taskIds": tasks}});
    let mut stream = caller.send("subscriptions/listen", wanted).head();
    let first = stream.json();
    assert_eq!(
        first["method"], "notifications/subscriptions/acknowledged",
        "{first}"
    );
    (stream, first["params"]["notifications"]["taskIds"].clone())
}

fn told(stream: &mut Stream) -> Value {
    let message = stream.message_within(Duration::from_secs(10));
    let message = parse(&message.expect("a notification"));
    assert_eq!(message["method"], "notifications/tasks", "{message}");
    let id = &message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
    assert!(!id.is_null(), "{message}");
    message["params"].clone()
}

#[test]
fn c_39_a_listener_hears_how_its_tasks_go_on() {
    let (gateway, _servers) = diggers("");
    for backend in ["hm", "shared"] {
        let caller = at(&gateway, backend);
        let first = begin(&caller, json!({"ms": 60_000}));
        let second = begin(&caller, json!({"question": "Why?"}));
        let unknown = json!("dig-1");
        let (mut stream, honoured) = listen(&caller, &[&first, &unknown, &second]);
        assert_eq!(honoured, json!([first, second]), "{backend}");
        // How they are, for that may have changed before anybody listened.
        let (one, two) = (told(&mut stream), told(&mut stream));
        assert_eq!(
            (&one["taskId"], &one["status"]),
            (&first, &json!("working"))
        );
        assert_eq!(
            (&two["taskId"], &two["status"]),
            (&second, &json!("input_required"))
        );
        let asked = &two["inputRequests"]["why"]["params"]["message"];
        assert_eq!(*asked, format!("[{backend}] Why?"));

        let answer = json!({"taskId": second, "inputResponses": {"why": {"action": "decline"}}});
        caller.result("tasks/update", answer);
        let done = told(&mut stream);
        assert_eq!(
            (&done["taskId"], &done["status"]),
            (&second, &json!("completed"))
        );
        assert!(done["result"]["content"].is_array(), "{done}");
        assert!(done.get("resultType").is_none(), "{done}");
        caller.result("tasks/cancel", json!({"taskId": first}));
        assert_eq!(told(&mut stream)["status"], "cancelled", "{backend}");
    }
    // Servers that do not tell are left out, and who did not declare tasks is told so.
    for backend in ["hl", "sm"] {
        let caller = at(&gateway, backend);
        let task = begin(&caller, json!({"ms": 60_000}));
        assert_eq!(listen(&caller, &[&task]).1, Value::Null, "{backend}");
    }
    let wanted = json!({"notifications": {"taskIds": ["x"]}});
    let mute = Modern::new(&gateway, "/mcp/hm");
    let refused = mute.send("subscriptions/listen", wanted).finish();
    assert_eq!((refused.status, refused.code()), (400, -32021));
}
