//! P-R19: replays the committed fuzz seeds through the checks of the fuzz targets.
//!
//! The seeds lie under `fuzz/corpus-seeds/<target>/`; a finding is kept by copying it there.

use std::path::PathBuf;

#[path = "corpus/checks.rs"]
pub mod checks;

fn replay(target: &str, check: fn(&[u8])) {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus-seeds")
        .join(target);
    let mut seeds = 0;
    for entry in std::fs::read_dir(&dir).expect("every target has seeds") {
        let path = entry.expect("the directory can be read").path();
        let data = std::fs::read(&path).expect("a seed is a file");
        if std::panic::catch_unwind(|| check(&data)).is_err() {
            panic!("the seed {} fails", path.display());
        }
        seeds += 1;
    }
    assert!(seeds >= 5, "{target} has only {seeds} seeds");
}

#[test]
fn p_r19_envelope_seeds_hold() {
    replay("envelope", checks::envelope);
}

#[test]
fn p_r19_sse_seeds_hold() {
    replay("sse", checks::sse);
}

#[test]
fn p_r19_http1_seeds_hold() {
    replay("http1", checks::http1);
}

#[test]
fn p_r19_line_seeds_hold() {
    replay("lines", checks::lines);
}

#[test]
fn p_r19_header_seeds_hold() {
    replay("header", checks::header);
}

#[test]
fn p_r19_template_seeds_hold() {
    replay("template", checks::template);
}

#[test]
fn p_r19_passing_seeds_hold() {
    replay("passing", checks::passing);
}
