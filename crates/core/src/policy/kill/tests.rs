//! The kill switch: what it matches, what persists, and that a running call ends.

use std::fs;
use std::time::Duration;

use tempfile::TempDir;

use super::*;
use crate::capabilities::ClientCapabilities;
use crate::offer::ItemKind;
use sentinel_wire::Revision;

fn operation(backend: &str, own: &str, exposed: &str) -> Operation {
    Operation {
        exposed: exposed.into(),
        ..Operation::unlisted(Some(ItemKind::Tool), 0, &backend.into(), own)
    }
}

fn caller(subject: &str) -> Caller {
    Caller {
        subject: subject.into(),
        role: "admin".into(),
        revision: Revision::V2025_11_25,
        capabilities: ClientCapabilities::default(),
        client_info: None,
        session: None,
        scopes: std::sync::Arc::default(),
        tenant: None,
        log_level: crate::LogLevel::default(),
        addressing: Default::default(),
        account: None,
        tags: None,
    }
}

fn killed(scope: Scope, name: &str) -> Killed {
    Killed {
        scope,
        name: name.to_owned(),
        reason: String::new(),
    }
}

#[test]
fn g_68_each_scope_hits_what_it_names() {
    let echo = operation("gamma", "echo", "gamma__echo");
    let alice = caller("alice");
    for (one, hit) in [
        (killed(Scope::Tool, "gamma__echo"), true),
        (killed(Scope::Tool, "gamma.echo"), true),
        (killed(Scope::Tool, "gamma__*"), true),
        (killed(Scope::Tool, "echo"), false),
        (killed(Scope::Backend, "gamma"), true),
        (killed(Scope::Backend, "beta"), false),
        (killed(Scope::Caller, "alice"), true),
        (killed(Scope::Caller, "bob"), false),
        (killed(Scope::All, ""), true),
    ] {
        let switch = KillSwitch::open(vec![one.clone()], None);
        assert_eq!(
            switch.now().hits(&alice, &echo).is_some(),
            hit,
            "configured {one:?}"
        );
        let switch = KillSwitch::open(Vec::new(), None);
        switch.kill(one.clone()).expect("nothing to save");
        assert_eq!(
            switch.now().hits(&alice, &echo).is_some(),
            hit,
            "at run time {one:?}"
        );
        assert!(
            switch
                .revive(one.scope, &one.name)
                .expect("nothing to save")
        );
        assert!(switch.now().hits(&alice, &echo).is_none());
    }
}

#[test]
fn p_s06_what_was_killed_survives_and_what_is_unreadable_stays_closed() {
    let dir = TempDir::new().expect("a directory");
    let file = dir.path().join("data/kill_switch.json");
    let echo = operation("gamma", "echo", "echo");
    let switch = KillSwitch::open(Vec::new(), Some(file.clone()));
    switch.kill(killed(Scope::Tool, "echo")).expect("saved");
    switch.kill(killed(Scope::Caller, "bob")).expect("saved");
    let again = KillSwitch::open(Vec::new(), Some(file.clone()));
    assert_eq!(again.killed().len(), 2);
    assert!(again.now().hits_operation(&echo));
    assert!(again.revive(Scope::Tool, "echo").expect("saved"));
    assert!(!again.revive(Scope::Tool, "echo").expect("nothing to do"));
    let third = KillSwitch::open(Vec::new(), Some(file.clone()));
    assert_eq!(third.killed(), [killed(Scope::Caller, "bob")]);

    for broken in ["", "{", "[]", r#"{"killed":[{"scope":"moon"}]}"#] {
        fs::write(&file, broken).expect("written");
        let closed = KillSwitch::open(Vec::new(), Some(file.clone()));
        assert!(
            closed.now().hits(&caller("anybody"), &echo).is_some(),
            "{broken:?}"
        );
        assert!(closed.revive(Scope::All, "").expect("saved"));
        assert!(closed.now().hits(&caller("anybody"), &echo).is_none());
    }
    let open = KillSwitch::open(Vec::new(), Some(file));
    assert!(open.killed().is_empty());
}

#[test]
fn gateways_of_one_data_directory_share_what_is_off() {
    let dir = TempDir::new().expect("a directory");
    let open = || KillSwitch::open(Vec::new(), Some(dir.path().join("kill_switch.json")));
    let (one, other) = (open(), open());
    let echo = operation("gamma", "echo", "echo");
    one.kill(killed(Scope::Tool, "echo")).expect("saved");
    assert!(other.look_again() && !other.look_again());
    assert!(other.now().hits_operation(&echo));
    // Neither forgets what the other did, whether or not it has looked.
    other.kill(killed(Scope::Caller, "bob")).expect("saved");
    one.kill(killed(Scope::Backend, "beta")).expect("saved");
    assert_eq!(one.killed().len(), 3);
    assert!(other.revive(Scope::Backend, "beta").expect("saved"));
    assert!(one.look_again());
    assert_eq!(one.killed(), other.killed());
    for broken in ["{", "[[]]", "[]", "{}"] {
        fs::write(dir.path().join("kill_switch.json"), broken).expect("written");
        assert!(!one.look_again(), "{broken}");
        assert!(one.now().hits_operation(&echo), "{broken}");
        assert!(open().now().hits_caller("anybody"), "{broken}");
    }
}

#[test]
fn names_and_reasons_have_their_bounds() {
    let named = |len: usize| killed(Scope::Tool, &"x".repeat(len));
    assert!(named(4096).check().is_ok());
    assert!(named(4097).check().is_err());
    let reason = "two\nlines".to_owned();
    assert!(Killed { reason, ..named(1) }.check().is_err());
}

#[test]
fn p_s06_a_state_that_is_deleted_revives_nothing() {
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().join("kill_switch.json");
    let switch = KillSwitch::open(Vec::new(), Some(path.clone()));
    let echo = operation("gamma", "echo", "echo");
    switch.kill(killed(Scope::Tool, "echo")).expect("saved");
    fs::remove_file(&path).expect("removed");
    assert!(!switch.look_again());
    assert!(switch.now().hits_operation(&echo));
    switch.kill(killed(Scope::Backend, "delta")).expect("saved");
    assert!(switch.now().hits_operation(&echo));
    let again = KillSwitch::open(Vec::new(), Some(path));
    assert!(again.now().hits_operation(&echo), "it was saved again");
}

#[test]
fn what_cannot_be_saved_is_off_all_the_same_and_stays_off() {
    let dir = TempDir::new().expect("a directory");
    let blocked = dir.path().join("file");
    fs::write(&blocked, "").expect("written");
    let switch = KillSwitch::open(Vec::new(), None);
    let switch = KillSwitch {
        file: Some(StateFile::new(blocked.join("kill_switch.json"))),
        ..switch
    };
    let echo = operation("gamma", "echo", "echo");
    assert!(switch.kill(killed(Scope::Tool, "echo")).is_err());
    assert!(switch.now().hits_operation(&echo));
    assert!(switch.revive(Scope::Tool, "echo").is_err());
    assert!(switch.now().hits_operation(&echo));
}

#[tokio::test]
async fn p_s06_a_running_call_ends_when_it_is_killed() {
    struct Gone(Arc<Mutex<bool>>);
    impl Drop for Gone {
        fn drop(&mut self) {
            *self.0.lock() = true;
        }
    }
    let switch = Arc::new(KillSwitch::open(Vec::new(), None));
    let dropped = Arc::new(Mutex::new(false));
    let gone = Gone(dropped.clone());
    let call = tokio::spawn({
        let switch = switch.clone();
        async move {
            let work = async move {
                let _gone = gone;
                std::future::pending::<Result<(), Fault>>().await
            };
            let echo = operation("gamma", "echo", "echo");
            switch
                .watch(&caller("alice"), &echo, View::Merged, false, Box::pin(work))
                .await
        }
    });
    tokio::task::yield_now().await;
    switch
        .kill(killed(Scope::Tool, "other"))
        .expect("nothing to save");
    tokio::task::yield_now().await;
    assert!(!call.is_finished());
    switch
        .kill(killed(Scope::Caller, "alice"))
        .expect("nothing to save");
    let ended = tokio::time::timeout(Duration::from_secs(20), call).await;
    let fault = ended
        .expect("in time")
        .expect("no panic")
        .expect_err("killed");
    assert_eq!(fault.kind, Kind::Disabled);
    assert!(*dropped.lock(), "dropping is cancelling");
}

/// Many threads step through calls while one kills: after `kill` returns nobody takes a step.
#[test]
fn p_s06_after_the_answer_no_call_takes_another_step() {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    for _ in 0..20 {
        let switch = Arc::new(KillSwitch::open(Vec::new(), None));
        let (answered, late) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (switch, answered, late) = (switch.clone(), answered.clone(), late.clone());
                std::thread::spawn(move || {
                    let (alice, echo) = (caller("alice"), operation("gamma", "echo", "echo"));
                    let work = poll_fn(|cx| {
                        if answered.load(Ordering::SeqCst) {
                            late.fetch_add(1, Ordering::SeqCst);
                        }
                        cx.waker().wake_by_ref();
                        std::task::Poll::<Result<(), Fault>>::Pending
                    });
                    futures_block_on(switch.watch(
                        &alice,
                        &echo,
                        View::Merged,
                        false,
                        Box::pin(work),
                    ))
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(2));
        switch
            .kill(killed(Scope::All, ""))
            .expect("nothing to save");
        answered.store(true, Ordering::SeqCst);
        for thread in threads {
            assert!(thread.join().expect("no panic").is_err());
        }
        assert_eq!(late.load(Ordering::SeqCst), 0);
    }
}

fn futures_block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime")
        .block_on(work)
}
