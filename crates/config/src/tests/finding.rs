//! Which file is read, and where data goes.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::World;
use crate::{Loaded, Overrides, load};

/// A home and a working directory with these files; what is found from there.
fn found(
    files: &[&str],
    variables: &[(&str, &str)],
    overrides: &Overrides,
) -> Result<Loaded, String> {
    let root = TempDir::new().expect("a temporary directory");
    let at = |name: &str| root.path().join(name);
    fs::create_dir_all(at("work")).expect("a directory");
    for file in files {
        fs::create_dir_all(at(file).parent().expect("a parent")).expect("a directory");
        // Each file says which it is.
        fs::write(
            at(file),
            format!(
                "[gateway]\nallowed_hosts = [\"{}\"]",
                file.replace('/', ".")
            ),
        )
        .expect("a file");
    }
    let home = at("home").display().to_string();
    let variables: Vec<(&str, String)> = variables
        .iter()
        .map(|(name, value)| {
            (
                *name,
                value.replace("ROOT", &root.path().display().to_string()),
            )
        })
        .collect();
    let mut all: Vec<(&str, &str)> = variables
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    all.push(("HOME", &home));
    // `World` adds a home of its own at the end; this one must win.
    let mut world = World::new(&all);
    world.variables.insert("HOME".into(), home.clone().into());
    world.with(at("work"), |environment| {
        load(overrides, environment).map_err(|mistakes| mistakes.to_string())
    })
}

fn which(files: &[&str], variables: &[(&str, &str)], overrides: &Overrides) -> String {
    let loaded = found(files, variables, overrides).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    loaded
        .config
        .gateway
        .allowed_hosts
        .first()
        .cloned()
        .unwrap_or_else(|| "defaults".into())
}

#[test]
fn the_nearest_file_wins() {
    const LOCAL: &str = "work/sentinel.toml";
    const USER: &str = "home/.config/sentinel/sentinel.toml";
    const XDG: &str = "xdg/sentinel/sentinel.toml";
    const NAMED: &str = "work/named.toml";
    const FLAG: &str = "work/flag.toml";
    let none = Overrides::default();
    let flag = Overrides {
        config: Some("flag.toml".into()),
        ..Overrides::default()
    };
    let xdg = ("XDG_CONFIG_HOME", "ROOT/xdg");
    let named = ("SENTINEL_CONFIG", "named.toml");
    let every = [LOCAL, USER, XDG, NAMED, FLAG];
    assert_eq!(which(&every, &[xdg, named], &flag), "work.flag.toml");
    assert_eq!(which(&every, &[xdg, named], &none), "work.named.toml");
    assert_eq!(which(&every, &[xdg], &none), "work.sentinel.toml");
    assert_eq!(
        which(&[USER, XDG], &[xdg], &none),
        "xdg.sentinel.sentinel.toml"
    );
    assert_eq!(
        which(&[USER, XDG], &[], &none),
        "home..config.sentinel.sentinel.toml"
    );
    assert_eq!(which(&[], &[], &none), "defaults");
}

#[test]
fn a_named_file_that_is_missing_is_a_mistake() {
    let flag = Overrides {
        config: Some("nowhere.toml".into()),
        ..Overrides::default()
    };
    let mistakes = found(&["work/sentinel.toml"], &[], &flag)
        .map(|_| ())
        .expect_err("it is missing");
    assert!(
        mistakes.contains("nowhere.toml") && mistakes.contains("cannot be read"),
        "{mistakes}"
    );
}

#[test]
fn data_goes_where_the_nearest_voice_says() {
    let dir = |text: &str, variables: &[(&str, &str)], flag: Option<&str>| -> PathBuf {
        let overrides = Overrides {
            data_dir: flag.map(PathBuf::from),
            ..Overrides::default()
        };
        World::new(variables).with("/cwd".into(), |environment| {
            crate::parse("t", text, Path::new("/file"), &overrides, environment)
                .unwrap_or_else(|mistakes| panic!("{mistakes}"))
                .gateway
                .data_dir
        })
    };
    let file = "[gateway]\ndata_dir = \"data\"";
    assert_eq!(
        dir("", &[], None),
        Path::new("/home/me/.local/share/sentinel")
    );
    assert_eq!(
        dir("", &[("XDG_DATA_HOME", "/xdg")], None),
        Path::new("/xdg/sentinel")
    );
    assert_eq!(
        dir(file, &[("XDG_DATA_HOME", "/xdg")], None),
        Path::new("/file/data")
    );
    assert_eq!(
        dir("[gateway]\ndata_dir = \"~/d\"", &[], None),
        Path::new("/home/me/d")
    );
    assert_eq!(dir(file, &[], Some("flag")), Path::new("/cwd/flag"));
}

#[test]
fn the_log_level_of_the_command_line_wins_and_is_checked() {
    let level = |level: &str| {
        let overrides = Overrides {
            log_level: Some(level.into()),
            ..Overrides::default()
        };
        World::new(&[]).with("/".into(), |environment| {
            crate::parse(
                "t",
                "[gateway]\nlog_level = \"warn\"",
                Path::new("/"),
                &overrides,
                environment,
            )
            .map(|config| config.gateway.log_level)
            .map_err(|mistakes| mistakes.to_string())
        })
    };
    assert_eq!(level("debug"), Ok("debug".into()));
    assert_eq!(level("WARNING"), Ok("warn".into()));
    assert_eq!(
        level("info,sentinel=trace"),
        Ok("info,sentinel=trace".into())
    );
    assert_eq!(level("Info, hyper=WARNING,"), Ok("info,hyper=warn".into()));
    assert_eq!(
        level("off,[span{a=1}]=debug"),
        Ok("off,[span{a=1}]=debug".into())
    );
    for bad in [
        "loud",
        "xx,yy",
        "info,yy",
        "hyper=loud",
        "a::b",
        ",",
        "=",
        "[span",
    ] {
        assert!(
            level(bad).expect_err(bad).contains("--log-level"),
            "{bad} is no level"
        );
    }
}
