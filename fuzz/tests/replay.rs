//! Replays the committed seeds through the checks of the fuzz targets.

use std::panic::catch_unwind;
use std::path::Path;

use sentinel_fuzz::{TARGETS, target};

/// Fewer seeds than this leave the fuzzer nothing to start from.
const SEEDS_MIN: usize = 5;

#[test]
fn p_r19_every_seed_of_every_target_holds() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    for (name, check) in TARGETS {
        let mut replayed = 0;
        for entry in std::fs::read_dir(seeds.join(name)).expect("every target has seeds") {
            let path = entry.expect("the directory can be read").path();
            let data = std::fs::read(&path).expect("a seed is a file");
            assert!(
                catch_unwind(|| check(&data)).is_ok(),
                "{} fails",
                path.display()
            );
            replayed += 1;
        }
        assert!(replayed >= SEEDS_MIN, "{name} has only {replayed} seeds");
    }
}

#[test]
fn every_folder_of_seeds_belongs_to_a_target() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    for entry in std::fs::read_dir(seeds).expect("there are seeds") {
        let name = entry.expect("the directory can be read").file_name();
        let name = name.to_str().expect("targets have plain names");
        assert!(target(name).is_some(), "no target is called {name}");
    }
}
