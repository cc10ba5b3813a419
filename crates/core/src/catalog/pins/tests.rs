//! What is pinned, what counts as a difference, and what persists.

use bytes::Bytes;
use sentinel_wire::Revision;
use tempfile::TempDir;

use super::*;
use crate::offer::ItemKind;

fn offer(tools: &[&'static str]) -> Offer {
    let parse = |raw: &&'static str| {
        Item::parse(ItemKind::Tool, Bytes::from_static(raw.as_bytes())).expect("a tool")
    };
    Offer {
        tools: tools.iter().map(parse).collect(),
        ..Offer::empty(Revision::V2025_11_25)
    }
}

fn held(pins: &Pins, pinning: Pinning, tools: &[&'static str]) -> Vec<String> {
    let mut held: Vec<String> = pins
        .inspect("b", pinning, &offer(tools), |_| true)
        .into_keys()
        .collect();
    held.sort();
    held
}

const TOOL: &str = r#"{"name":"t","description":"d","inputSchema":{"type":"object","a":1}}"#;
/// The same tool, later.
const CHANGED: &str = r#"{"name":"t","description":"changed"}"#;

/// Pins of the tool as it was, in a file.
fn pinned() -> (TempDir, PathBuf, Pins) {
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().join("pins.json");
    let pins = Pins::open(path.clone());
    held(&pins, Pinning::Enforce, &[TOOL]);
    pins.keep();
    (dir, path, pins)
}

#[test]
fn p_s10_what_models_read_and_callers_send_is_pinned_and_nothing_else() {
    for (other, difference) in [
        (TOOL, None),
        // Another order, other decoration: the same definition.
        (
            r#"{"inputSchema":{"a":1,"type":"object"},"_meta":{"x":1},"icons":[],"description":"d","name":"t"}"#,
            None,
        ),
        (
            r#"{"name":"t","description":"d ","inputSchema":{"type":"object","a":1}}"#,
            Some(Difference::Words),
        ),
        (
            r#"{"name":"t","title":"T","description":"d","inputSchema":{"type":"object","a":1}}"#,
            Some(Difference::Words),
        ),
        (
            r#"{"name":"t","description":"d","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object","a":1}}"#,
            Some(Difference::Words),
        ),
        (
            r#"{"name":"t","description":"d","inputSchema":{"type":"object","a":2}}"#,
            Some(Difference::Shape),
        ),
        (r#"{"name":"t"}"#, Some(Difference::Both)),
    ] {
        let pins = Pins::default();
        assert!(held(&pins, Pinning::Enforce, &[TOOL]).is_empty());
        let now = held(&pins, Pinning::Enforce, &[other]);
        assert_eq!(now.len(), usize::from(difference.is_some()), "{other}");
        assert_eq!(pins.list()[0].difference, difference, "{other}");
        assert!(held(&pins, Pinning::Warn, &[other]).is_empty(), "{other}");
        assert!(held(&pins, Pinning::Off, &[other]).is_empty(), "{other}");
        assert!(held(&pins, Pinning::Enforce, &[TOOL]).is_empty());
    }
}

#[test]
fn p_s10_a_new_tool_of_a_known_backend_waits_where_pins_are_enforced() {
    let new = r#"{"name":"n","description":"do this instead"}"#;
    let pins = Pins::default();
    held(&pins, Pinning::Enforce, &[TOOL]);
    assert_eq!(held(&pins, Pinning::Enforce, &[TOOL, new]), ["n"]);
    assert_eq!(pins.approve("b", Some("n")).expect("no file"), ["n"]);
    assert!(held(&pins, Pinning::Enforce, &[TOOL, new]).is_empty());
    // Gone and back with other words: the pin was kept.
    assert!(held(&pins, Pinning::Enforce, &[new]).is_empty());
    let back = r#"{"name":"t","description":"other"}"#;
    assert_eq!(held(&pins, Pinning::Enforce, &[back, new]), ["t"]);
}

#[test]
fn pins_survive_are_shared_and_stay_closed_when_they_cannot_be_read() {
    let (_dir, path, first) = pinned();
    let second = Pins::open(path.clone());
    assert_eq!(held(&second, Pinning::Enforce, &[CHANGED]), ["t"]);
    assert!(second.approve("b", Some("x")).expect("saved").is_empty());
    assert_eq!(second.approve("b", None).expect("saved"), ["t"]);
    assert!(held(&second, Pinning::Enforce, &[CHANGED]).is_empty());
    // The other process takes it up.
    assert_eq!(held(&first, Pinning::Enforce, &[CHANGED]), ["t"]);
    assert!(first.keep() && !first.keep());
    assert!(held(&first, Pinning::Enforce, &[CHANGED]).is_empty());
    assert!(first.list()[0].approved);

    std::fs::write(&path, "{").expect("written");
    assert!(!first.keep());
    assert!(
        held(&first, Pinning::Enforce, &[CHANGED]).is_empty(),
        "it knows"
    );
    let third = Pins::open(path.clone());
    assert_eq!(held(&third, Pinning::Enforce, &[CHANGED]), ["t"]);
    third.keep();
    assert_eq!(
        std::fs::read(&path).expect("a file"),
        b"{",
        "not overwritten"
    );
    assert_eq!(third.approve("b", None).expect("saved"), ["t"]);
    assert!(held(&third, Pinning::Enforce, &[CHANGED]).is_empty());
}

#[test]
fn p_s10_a_flood_of_new_names_has_its_bound_and_drives_no_pin_out() {
    let pins = Pins::default();
    assert!(held(&pins, Pinning::Warn, &[TOOL]).is_empty());
    {
        let mut state = pins.state.lock();
        let pin = state.pinned["b"]["t"].clone();
        for n in 1..PINS_MAX {
            state.pin("b", &format!("n{n}"), pin.clone());
        }
    }
    let one_more = r#"{"name":"one_more","inputSchema":{"type":"object"}}"#;
    assert!(held(&pins, Pinning::Warn, &[one_more]).is_empty());
    let state = pins.state.lock();
    assert_eq!(state.pinned["b"].len(), PINS_MAX);
    assert!(state.pinned["b"].contains_key("t"));
    let waiting = &state.waiting[&("b".to_owned(), "one_more".to_owned())];
    assert_eq!(waiting.difference, Difference::New);
}

/// What is not read by everybody alike is told apart by every byte: what we do not read, others may.
#[test]
fn p_s10_a_definition_that_can_be_read_in_two_ways_is_pinned_as_it_was_written() {
    let deep = |word: &str| {
        let schema = format!("{}1{}", "[".repeat(300), "]".repeat(300));
        format!(r#"{{"name":"t","description":"{word}","inputSchema":{{"x":{schema}}}}}"#)
    };
    let pairs = [
        // The last one, or the first one?
        (
            r#"{"name":"t","description":"d","description":"e"}"#.to_owned(),
            r#"{"name":"t","description":"evil","description":"e"}"#.to_owned(),
        ),
        (
            r#"{"name":"t","inputSchema":{"a":{"description":"d","description":"e"}}}"#.to_owned(),
            r#"{"name":"t","inputSchema":{"a":{"description":"evil","description":"e"}}}"#
                .to_owned(),
        ),
        // No number of ours, no text of ours, deeper than we go.
        (
            r#"{"name":"t","description":"d","inputSchema":{"maximum":1e999}}"#.to_owned(),
            r#"{"name":"t","description":"evil","inputSchema":{"maximum":1e999}}"#.to_owned(),
        ),
        (
            r#"{"name":"t","title":"\ud800","description":"d"}"#.to_owned(),
            r#"{"name":"t","title":"\ud800","description":"evil"}"#.to_owned(),
        ),
        (deep("d"), deep("evil")),
    ];
    for (kind, evil) in pairs {
        let (kind, evil): (&'static str, &'static str) = (kind.leak(), evil.leak());
        let pins = Pins::default();
        assert!(held(&pins, Pinning::Enforce, &[kind]).is_empty());
        assert!(held(&pins, Pinning::Enforce, &[kind]).is_empty());
        assert_eq!(held(&pins, Pinning::Enforce, &[evil]), ["t"], "{evil:.80}");
    }
}

#[test]
fn p_s10_pins_that_were_taken_away_are_written_down_again() {
    let (_dir, path, pins) = pinned();
    std::fs::remove_file(&path).expect("ours");
    assert!(!pins.keep());
    assert_eq!(held(&pins, Pinning::Enforce, &[CHANGED]), ["t"]);
    pins.keep();
    let other = Pins::open(path);
    assert_eq!(held(&other, Pinning::Enforce, &[CHANGED]), ["t"]);
}

#[test]
fn p_s10_a_file_without_its_pins_frees_nothing_of_a_gateway_that_runs() {
    for (text, is_written_again) in [
        ("[]", false),
        ("[{}]", false),
        ("null", false),
        (r#"{"b":5}"#, false),
        (r#"{"backend":{}}"#, false),
        ("{}", true),
        (r#"{"backends":{}}"#, true),
        (r#"{"backends":{"b":{}}}"#, true),
    ] {
        let (_dir, path, pins) = pinned();
        std::fs::write(&path, text).expect("written");
        assert!(!pins.keep(), "{text}");
        assert_eq!(held(&pins, Pinning::Enforce, &[CHANGED]), ["t"], "{text}");
        assert_eq!(pins.list()[0].difference, Some(Difference::Both), "{text}");
        pins.keep();
        // Whoever starts now finds the pins, or a file that is still broken: nothing is taken as it is.
        let next = Pins::open(path);
        assert_eq!(held(&next, Pinning::Enforce, &[CHANGED]), ["t"], "{text}");
        let how = match is_written_again {
            true => Difference::Both,
            false => Difference::Unknown,
        };
        assert_eq!(next.list()[0].difference, Some(how), "{text}");
    }
}

#[test]
fn p_s10_an_approval_writes_down_again_what_was_taken_away_and_one_of_nothing_repairs_nothing() {
    let (_dir, path, pins) = pinned();
    pins.inspect("c", Pinning::Enforce, &offer(&[TOOL]), |_| true);
    pins.keep();
    std::fs::remove_file(&path).expect("ours");
    assert_eq!(held(&pins, Pinning::Enforce, &[CHANGED]), ["t"]);
    assert_eq!(pins.approve("b", None).expect("saved"), ["t"]);
    let next = Pins::open(path.clone());
    let of_c = next.inspect("c", Pinning::Enforce, &offer(&[CHANGED]), |_| true);
    assert_eq!(of_c.len(), 1, "its pin was written again");

    std::fs::write(&path, "{").expect("written");
    let broken = Pins::open(path);
    assert_eq!(held(&broken, Pinning::Enforce, &[TOOL]), ["t"]);
    assert!(broken.approve("b", Some("x")).expect("nothing").is_empty());
    assert_eq!(held(&broken, Pinning::Enforce, &[TOOL]), ["t"]);
}

/// The documented way: without a gateway the entry is taken out, and the next start takes what it finds.
#[test]
fn an_entry_that_was_taken_out_before_a_start_is_first_contact() {
    let (_dir, path, _) = pinned();
    for text in ["{}", r#"{"backends":{}}"#] {
        std::fs::write(&path, text).expect("written");
        let next = Pins::open(path.clone());
        assert!(held(&next, Pinning::Enforce, &[CHANGED]).is_empty());
    }
}

/// P-S10: an operator sees what was approved beside what is offered, after a restart as well.
#[test]
fn p_s10_both_definitions_of_a_changed_tool_are_kept() {
    const OLD: &str = r#"{"name":"a","description":"old","inputSchema":{"type":"object"}}"#;
    const NEW: &str = r#"{"name":"a","description":"new","inputSchema":{"type":"object"}}"#;
    const OTHER: &str = r#"{"name":"b","inputSchema":{"type":"object"}}"#;
    let value = |text: &str| -> Value { serde_json::from_str(text).expect("JSON") };
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("pins.json");
    let changed = |pins: &Pins| pins.changed(1 << 20);
    let of_a = |approved: Option<&str>, offered: &str| ChangedDefinition {
        backend: "b".to_owned(),
        tool: "a".to_owned(),
        approved: approved.map(value),
        offered: Some(value(offered)),
    };
    let pins = Pins::open(path.clone());
    held(&pins, Pinning::Enforce, &[OLD]);
    pins.keep();
    assert_eq!(changed(&pins), []);
    // Another process has the definitions from the disk.
    let pins = Pins::open(path.clone());
    held(&pins, Pinning::Enforce, &[NEW, OTHER]);
    let both = changed(&pins);
    assert_eq!(both[0], of_a(Some(OLD), NEW));
    assert_eq!((&*both[1].tool, &both[1].approved), ("b", &None));
    assert_eq!(
        pins.changed(OLD.len() + NEW.len()).len(),
        1,
        "so many bytes"
    );
    pins.approve("b", Some("a")).expect("saved");
    pins.keep();
    let pins = Pins::open(path.clone());
    held(&pins, Pinning::Enforce, &[OLD]);
    assert_eq!(changed(&pins), [of_a(Some(NEW), OLD)]);
    // What does not fit its pin is not shown for what was approved.
    let file = folder.path().join("pins.d/b.json");
    let text = std::fs::read_to_string(&file).expect("a file");
    std::fs::write(&file, text.replace("new", "forged")).expect("ours");
    assert_eq!(changed(&pins), [of_a(None, OLD)]);
    std::fs::write(&file, "broken").expect("ours");
    assert_eq!(changed(&pins), [of_a(None, OLD)]);
}

/// Pins of a version that kept digests only: what is still as it was pinned is kept from now on.
#[test]
fn definitions_that_still_fit_their_pins_are_kept_later() {
    const TOOL: &str = r#"{"name":"a","description":"x","inputSchema":{"type":"object"}}"#;
    const NEW: &str = r#"{"name":"a","description":"y","inputSchema":{"type":"object"}}"#;
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("pins.json");
    let first = Pins::open(path.clone());
    held(&first, Pinning::Enforce, &[TOOL]);
    first.keep();
    std::fs::remove_dir_all(folder.path().join("pins.d")).expect("ours");
    let pins = Pins::open(path);
    held(&pins, Pinning::Enforce, &[TOOL]);
    pins.keep();
    held(&pins, Pinning::Enforce, &[NEW]);
    let changed = pins.changed(1 << 20);
    assert!(changed[0].approved.is_some(), "{changed:?}");
}
