//! The configuration file over the admin API: read, checked, replaced.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::http::Answer;
use crate::support::setup::{Gateway, Server, Setup, http_backend, stdio_backend, until};
use crate::support::tokens::token;
use crate::support::web::Web;

struct World {
    gateway: Gateway,
    operator: Web,
}

impl World {
    fn new(setup: Setup) -> Self {
        let gateway = Gateway::start_in(setup);
        let operator = Web::new(&gateway);
        Self { gateway, operator }
    }

    fn path(&self) -> PathBuf {
        self.gateway.setup.data().with_file_name("sentinel.toml")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path()).expect("a file")
    }

    fn file(&self) -> Value {
        let answer = self.operator.get("/admin/api/config/file");
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    fn check(&self, text: &str) -> Value {
        let answer = self
            .operator
            .post("/admin/api/config/check", &json!({"text": text}));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    fn replace(&self, text: &str, digest: &Value) -> Answer {
        let body = json!({"text": text, "digest": digest});
        self.operator.post("/admin/api/config/file", &body)
    }
}

fn key<'f>(file: &'f Value, name: &str) -> &'f Value {
    let keys = file["keys"].as_array().expect("keys");
    let found = keys.iter().find(|one| one["key"] == name);
    found.unwrap_or_else(|| panic!("{name} is a key"))
}

#[test]
fn the_file_is_shown_with_the_origin_of_each_value_and_no_secret_in_them() {
    let server = Server::start(&[]);
    let more =
        "headers = { X-Api-Key_ENV = \"ALPHA_KEY\", X-Other-Key = \"sk-zq9-literal-credential\" }";
    let config = format!(
        "drain_timeout = 2\n{}",
        http_backend("alpha", &server.address, more)
    );
    let setup = Setup::with_env(
        &config,
        &[("ALPHA_KEY", "canary-zq9"), ("LOG_LEVEL", "warn")],
    );
    let world = World::new(setup);
    let file = world.file();
    let text = world.text();
    assert_eq!(file["text"], text);
    assert_eq!(
        (&file["writable"], &file["exists"]),
        (&json!(true), &json!(true)),
        "{file}"
    );
    assert_eq!(file["path"], world.path().to_str().expect("text"));
    let line = |of: &str| {
        text.lines()
            .position(|line| line.starts_with(of))
            .map(|at| at + 1)
    };
    let drain = key(&file, "gateway.drain_timeout");
    assert_eq!(
        (&drain["value"], &drain["source"]),
        (&json!(2), &json!("file"))
    );
    assert_eq!(drain["line"], json!(line("drain_timeout")), "{drain}");
    assert_eq!(drain["restart"], false);
    assert_eq!(key(&file, "gateway.listen")["restart"], true);
    let body = key(&file, "limits.body_mb");
    assert_eq!(
        (&body["value"], &body["source"], &body["line"]),
        (&json!(4), &json!("default"), &Value::Null)
    );
    let named = key(&file, "backends.alpha.headers.X-Api-Key");
    assert_eq!(
        (&named["value"], &named["source"]),
        (&json!("<from ALPHA_KEY>"), &json!("environment"))
    );
    assert_eq!(named["variable"], "ALPHA_KEY");
    assert_eq!(
        key(&file, "backends.alpha.headers.X-Other-Key")["value"],
        "<hidden>"
    );
    let level = key(&file, "gateway.log_level");
    assert_eq!(
        (&level["value"], &level["source"], &level["variable"]),
        (&json!("warn"), &json!("environment"), &json!("LOG_LEVEL"))
    );
    let keys = file["keys"].to_string();
    assert!(!keys.contains("zq9"), "{keys}");
    assert!(!file.to_string().contains("canary-zq9"));
    // The text is for admins, and not even for them where that is switched off.
    world
        .gateway
        .setup
        .rewrite(&format!("{config}\n[console]\nedit = false\n"));
    let closed = until("the file was reloaded", || {
        let file = world.file();
        (file["writable"] == false).then_some(file)
    });
    assert_eq!(
        (&closed["text"], &closed["digest"]),
        (&Value::Null, &Value::Null)
    );
    assert!(!closed.to_string().contains("zq9"), "{closed}");
    let refused = world.replace(&text, &file["digest"]);
    assert_eq!(refused.status, 403, "{refused:?}");
}

#[test]
fn it_is_for_admins_alone_and_on_record() {
    let roles = "[auth]\n[rbac.roles.reader]\npermissions = [\"*\"]\ndenied_tools = [\"x\"]\n\
        [rbac.roles.user]\npermissions = [\"tools.execute\"]\n";
    let gateway = Gateway::start(roles);
    let user = Web::new(&gateway).bearing(&token(json!({"role": "user"})));
    let admin = Web::new(&gateway).bearing(&token(json!({"role": "admin", "sub": "op"})));
    for what in [
        "config/file",
        "import",
        "roles",
        "access?role=user",
        "why?operation=x&role=user",
        "limits",
        "backends/stderr?backend=x",
    ] {
        let path = format!("/admin/api/{what}");
        assert_eq!(user.get(&path).status, 403, "{what}");
        assert_eq!(Web::new(&gateway).get(&path).status, 401, "{what}");
    }
    for what in [
        "config/file",
        "config/check",
        "import",
        "backends/stop",
        "backends/start",
    ] {
        let path = format!("/admin/api/{what}");
        assert_eq!(user.post(&path, &json!({})).status, 403, "{what}");
        // Whatever a page of another site can make a browser send is no JSON.
        let form = [("Content-Type", "text/plain")];
        let refused = admin.send("POST", &path, &form, "{}").finish();
        assert_eq!(refused.status, 415, "{what}");
    }
    admin.post("/admin/api/backends/stop", &json!({"backend": "nothing"}));
    admin.get("/admin/api/config/file");
    until("both are on record", || {
        let records = admin.get("/admin/api/audit?caller=op").json();
        let has = |what: &str| records["records"].to_string().contains(what);
        (has("admin/backends/stop") && has("admin/config/file")).then_some(())
    });
}

/// What a check says that a reload would do is what it does.
#[test]
fn a_check_names_every_mistake_and_otherwise_what_a_reload_then_does() {
    let server = Server::start(&[]);
    let alpha = http_backend("alpha", &server.address, "");
    let world = World::new(Setup::new(&format!(
        "{alpha}{}",
        stdio_backend("gone", &[], "")
    )));
    world.gateway.wait_ready();
    let text = world.text();
    let wrong = format!("{text}\n[limits]\nbody_mb = 0\nbodi_mb = 1\n");
    let checked = world.check(&wrong);
    assert_eq!(checked["plan"], Value::Null);
    let mistakes = checked["mistakes"].as_array().expect("mistakes");
    let line = |of: &str| {
        wrong
            .lines()
            .position(|line| line.starts_with(of))
            .map(|at| at + 1)
    };
    let keys: Vec<(&str, Value)> = mistakes
        .iter()
        .map(|one| (one["key"].as_str().unwrap_or(""), one["line"].clone()))
        .collect();
    assert_eq!(
        keys,
        [
            ("limits.body_mb", json!(line("body_mb"))),
            ("limits.bodi_mb", json!(line("bodi_mb")))
        ]
    );
    assert!(
        mistakes[1]["suggestion"]
            .as_str()
            .is_some_and(|text| text.contains("body_mb")),
        "{checked}"
    );
    for bad in ["", "not toml", "[gateway]\nlisten = 7"] {
        let checked = world.check(bad);
        assert_eq!(checked["plan"], Value::Null, "{bad}");
        assert_ne!(checked["mistakes"], json!([]), "{bad}");
    }

    let alpha = http_backend("alpha", &server.address, "timeout = 7\n");
    let next = http_backend("next", &server.address, "prefix = \"always\"");
    let listen = "[gateway]\nlisten = \"127.0.0.1:1\"\n";
    let new = text.replace("[gateway]\nlisten = \"127.0.0.1:0\"\n", listen);
    assert_ne!(new, text);
    let (head, _) = new.split_once("[[backends]]").expect("backends");
    let tail = "[review]\nenabled = false\n[rate_limits]\ndefault_rpm = 5\n[limits]\nbody_mb = 9\n[console]\nsession_ttl = 61\n";
    let new = format!("{head}{alpha}{next}{tail}");
    let checked = world.check(&new);
    assert_eq!(checked["mistakes"], json!([]), "{checked}");
    let config = || world.operator.get("/admin/api/config").json();
    assert_eq!(config()["limits"]["body_mb"], 4, "nothing was done");
    let done = world.replace(&new, &world.file()["digest"]);
    assert_eq!(done.status, 200, "{done:?}");
    assert_eq!(checked["plan"], done.json());
    let done = done.json();
    assert_eq!(
        (&done["added"], &done["removed"]),
        (&json!(["next"]), &json!(["gone"])),
        "{done}"
    );
    assert_eq!(done["replaced"], json!(["alpha"]));
    assert_eq!(done["restart_needed"], json!(["gateway.listen"]));
    assert_eq!(
        done["changed"],
        json!(["rate_limits", "limits", "console"]),
        "{done}"
    );
    assert_eq!(config()["limits"]["body_mb"], 9);
    // A reload of the same finds nothing.
    let again = world.operator.post("/admin/api/reload", &json!({})).json();
    assert_eq!(again["changed"], json!([]), "{again}");
}

#[test]
fn a_stale_digest_and_every_mistake_leave_the_file_as_it_is() {
    let world = World::new(Setup::new("drain_timeout = 2\n"));
    let (text, digest) = (world.text(), world.file()["digest"].clone());
    let other = text.replace("drain_timeout = 2", "drain_timeout = 3");
    let stale = world.replace(&other, &json!("0000"));
    assert_eq!(stale.status, 409, "{stale:?}");
    assert_eq!(stale.json()["kind"], "conflict");
    let wrong = world.replace(&format!("{text}\n[limits]\nbody_mb = 0\nx = 1\n"), &digest);
    assert_eq!(wrong.status, 422, "{wrong:?}");
    assert_eq!(
        wrong.json()["mistakes"].as_array().map(Vec::len),
        Some(2),
        "{wrong:?}"
    );
    for emptied in ["", "# nothing\n"] {
        assert_eq!(world.replace(emptied, &digest).status, 422, "{emptied}");
    }
    let large = format!("{text}#{}", "x".repeat(1 << 20));
    assert_eq!(world.replace(&large, &digest).status, 413);
    assert_eq!(world.text(), text);
    assert_eq!(world.file()["digest"], digest);
    // The right one, with the file's own mode, through a link that stays one.
    let real = world.path().with_file_name("real.toml");
    fs::rename(world.path(), &real).expect("ours");
    std::os::unix::fs::symlink(&real, world.path()).expect("a link");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).expect("ours");
    let done = world.replace(&other, &digest);
    assert_eq!(done.status, 200, "{done:?}");
    assert!(world.path().is_symlink());
    assert_eq!(fs::read_to_string(&real).expect("text"), other);
    let mode = fs::metadata(&real).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    assert_eq!(key(&world.file(), "gateway.drain_timeout")["value"], 3);
    // Replaced meanwhile by somebody else.
    assert_eq!(world.replace(&text, &digest).status, 409);
    // An operator does not lock everybody out, nor let everybody in, by a slip: that needs a start.
    assert!(
        world
            .gateway
            .setup
            .log()
            .contains("replaced by an operator")
    );
}

/// [auth] cannot be taken away from a gateway that listens.
#[test]
fn a_text_that_a_reload_would_refuse_is_not_written() {
    let gateway = Gateway::start("[auth]\n");
    let operator = Web::new(&gateway).bearing(&token(json!({"role": "admin"})));
    let world = World { gateway, operator };
    let (text, digest) = (world.text(), world.file()["digest"].clone());
    let open = text.replace("[auth]\n", "");
    let checked = world.check(&open);
    assert_eq!(checked["plan"], Value::Null, "{checked}");
    let message = checked["mistakes"][0]["message"]
        .as_str()
        .expect("a message");
    assert!(message.contains("[auth] was removed"), "{message}");
    assert_eq!(world.replace(&open, &digest).status, 422);
    assert_eq!(world.text(), text);
}

/// A gateway that runs on defaults gets its file where it would have looked for it.
#[test]
fn where_there_is_no_file_one_is_made() {
    let setup = Setup::new("");
    let file = setup.data().with_file_name("sentinel.toml");
    fs::remove_file(&file).expect("ours");
    let mut command = setup.command("serve");
    let data = setup.data();
    // Without --config.
    let mut bare = std::process::Command::new(command.get_program());
    bare.args([
        "--data-dir",
        data.to_str().expect("text"),
        "serve",
        "--listen",
        "127.0.0.1:0",
    ])
    .current_dir(data.parent().expect("a folder"))
    .env_clear()
    .stdin(std::process::Stdio::null())
    .stdout(std::process::Stdio::null())
    .stderr(setup.log_file());
    for (name, value) in command.get_envs() {
        bare.envs(value.map(|value| (name, value)));
    }
    drop(std::mem::replace(
        &mut command,
        std::process::Command::new("true"),
    ));
    let mut process = crate::support::setup::Process(bare.spawn().expect("it starts"));
    let address = process.address(&setup);
    let operator = Web::at(&address);
    let get = || operator.get("/admin/api/config/file").json();
    let before = get();
    assert_eq!(
        (&before["exists"], &before["text"], &before["writable"]),
        (&json!(false), &json!(""), &json!(true)),
        "{before}"
    );
    assert_eq!(key(&before, "gateway.data_dir")["source"], "command_line");
    let made = data.with_file_name(".config/sentinel/sentinel.toml");
    assert_eq!(before["path"], made.to_str().expect("text"));
    let body = json!({"text": "[limits]\nbody_mb = 8\n", "digest": before["digest"]});
    let done = operator.post("/admin/api/config/file", &body);
    assert_eq!(done.status, 200, "{done:?}");
    assert_eq!(done.json()["changed"], json!(["limits"]));
    let after = get();
    assert_eq!(
        (&after["exists"], &key(&after, "limits.body_mb")["line"]),
        (&json!(true), &json!(2))
    );
    let mode = fs::metadata(&made).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // It is watched from now on.
    fs::write(&made, "[limits]\nbody_mb = 9\n").expect("ours");
    until("the change is taken", || {
        let config = operator.get("/admin/api/config").json();
        (config["limits"]["body_mb"] == 9).then_some(())
    });
}
