//! Top-level modules of a crate depend on one another in one direction only. Modules that need each other are one module
//! in two files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

type Graph = BTreeMap<String, BTreeSet<String>>;

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("sources are readable") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            found.push(path);
        }
    }
}

/// Product code without comments; tests may use everything.
fn code(text: &str) -> String {
    let product = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    product
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

/// The names that `lib.rs` exports, with the module of each.
fn exported(text: &str) -> BTreeMap<String, String> {
    let code = code(text);
    let statements = code.split("pub use ").skip(1);
    let of = |statement: &str| {
        let (module, names) = statement.split(';').next()?.split_once("::")?;
        let name = |name: &str| {
            name.rsplit(" as ")
                .next()
                .unwrap_or_default()
                .trim()
                .to_owned()
        };
        let names = names.trim_matches(['{', '}']).split(',').map(name);
        Some(
            names
                .map(|name| (name, module.to_owned()))
                .collect::<Vec<_>>(),
        )
    };
    statements.filter_map(of).flatten().collect()
}

/// The names behind each `crate::` in product code.
fn used(text: &str) -> BTreeSet<String> {
    let code = code(text);
    let mut names = BTreeSet::new();
    for part in code.split("crate::").skip(1) {
        assert!(
            !part.starts_with('{'),
            "write `use crate::module::...`, one statement per module, so that this test can read it"
        );
        let end = part.find(|c: char| !c.is_alphanumeric() && c != '_');
        names.insert(part[..end.unwrap_or(part.len())].to_owned());
    }
    names
}

fn graph(src: &Path) -> Graph {
    let mut files = Vec::new();
    sources(src, &mut files);
    let module = |path: &Path| {
        let inside = path.strip_prefix(src).expect("below the sources");
        let first = inside.components().next().expect("a name");
        let name = first.as_os_str().to_string_lossy();
        name.trim_end_matches(".rs").to_owned()
    };
    let is_test = |path: &&PathBuf| {
        let name = path.file_stem().unwrap_or_default();
        let inside = path.strip_prefix(src).expect("below the sources");
        name == "tests" || inside.components().any(|part| part.as_os_str() == "tests")
    };
    let lib = fs::read_to_string(src.join("lib.rs")).expect("every crate here is a library");
    let exported = exported(&lib);
    let mut graph = Graph::new();
    for path in files.iter().filter(|path| !is_test(path)) {
        let own = module(path);
        if own != "lib" {
            let text = fs::read_to_string(path).expect("a source file");
            let uses = used(&text).into_iter();
            let uses = uses.map(|name| exported.get(&name).cloned().unwrap_or(name));
            graph.entry(own).or_default().extend(uses);
        }
    }
    let names: BTreeSet<String> = graph.keys().cloned().collect();
    for (own, uses) in &mut graph {
        uses.retain(|name| name != own && names.contains(name));
    }
    graph
}

/// A path that ends where it begins, if there is one.
fn cycle(graph: &Graph) -> Option<Vec<String>> {
    fn visit(graph: &Graph, at: &str, path: &mut Vec<String>, done: &mut BTreeSet<String>) -> bool {
        if let Some(start) = path.iter().position(|seen| seen == at) {
            path.drain(..start);
            path.push(at.to_owned());
            return true;
        }
        if done.contains(at) {
            return false;
        }
        path.push(at.to_owned());
        if graph[at].iter().any(|next| visit(graph, next, path, done)) {
            return true;
        }
        path.pop();
        done.insert(at.to_owned());
        false
    }
    let (mut path, mut done) = (Vec::new(), BTreeSet::new());
    let found = graph
        .keys()
        .any(|name| visit(graph, name, &mut path, &mut done));
    found.then_some(path)
}

#[test]
fn issue_17_no_cycle_between_modules() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let checked = [
        ("core", 30),
        ("backends", 5),
        ("wire", 10),
        ("pg", 5),
        ("stores", 8),
        ("review", 5),
        ("config", 10),
    ];
    for (name, modules_min) in checked {
        let graph = graph(&crates.join(name).join("src"));
        assert!(graph.len() >= modules_min, "{name}: {graph:?}");
        let edges: usize = graph.values().map(BTreeSet::len).sum();
        assert!(
            edges >= modules_min,
            "{name} uses `crate::` less than expected: {graph:?}"
        );
        let found = cycle(&graph).map(|path| path.join(" -> "));
        assert_eq!(found, None, "modules of `{name}` depend on each other");
    }
}

#[test]
fn a_cycle_is_found_and_printed() {
    let of = |edges: &[(&str, &[&str])]| -> Graph {
        let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        edges
            .iter()
            .map(|(from, to)| ((*from).to_owned(), own(to)))
            .collect()
    };
    let straight = of(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])]);
    assert_eq!(cycle(&straight), None);
    let round = of(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])]);
    assert_eq!(cycle(&round).expect("a cycle").join(" -> "), "b -> c -> b");
}

#[test]
fn names_that_the_library_exports_are_those_of_their_modules() {
    let exported = exported(
        "pub mod a;\npub use a::{One, Two as Other}; // a comment\npub use b::Three;\npub use c::*;\n",
    );
    let module = |name: &str| exported.get(name).map(String::as_str);
    assert_eq!(module("One"), Some("a"));
    assert_eq!(module("Other"), Some("a"));
    assert_eq!(module("Two"), None);
    assert_eq!(module("Three"), Some("b"));
}
