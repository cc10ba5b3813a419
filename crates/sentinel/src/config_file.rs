//! The configuration file as operators see and replace it over the admin API.
//!
//! A file is replaced as a whole, by another in the same folder: whoever reads it meanwhile sees the old text or the new
//! one. Its mode and owner stay, and a link stays a link.
//!
//! Not here: what is done with a new text (`reload`).

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use ring::digest::{SHA256, digest};
use rustix::fs::{Access, access};
use sentinel_surfaces::http::admin::config_file::{
    ConfigFile, ConfigKey, KeySource, TEXT_BYTES_MAX,
};

use crate::config::{self, Config, KeyInForce, Place, Reload};

/// Of a file that did not exist: a configuration may hold credentials.
const MODE: u32 = 0o600;

/// The text of a file, or that there is none yet.
pub(crate) fn read(path: &Path) -> io::Result<Option<String>> {
    match config::read(path, &Place::RegularFile) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// SHA-256 of a text, in hexadecimal. A file that does not exist is an empty one.
pub(crate) fn digest_of(text: &str) -> String {
    let digest = digest(&SHA256, text.as_bytes());
    digest.as_ref().iter().map(|b| format!("{b:02x}")).collect()
}

/// What operators are shown of a file and of the configuration in force.
pub(crate) fn shown(path: Option<&Path>, config: &Config, overridden: &[&str]) -> ConfigFile {
    let read = path.map(read).transpose();
    let text = match &read {
        Ok(text) => text.clone().flatten().unwrap_or_default(),
        Err(_) => String::new(),
    };
    let problem = match (&read, path) {
        _ if !config.console.edit => Some("console.edit is false".to_owned()),
        (_, None) => Some("there is no home directory to keep a file in".to_owned()),
        (Err(error), _) => Some(format!("it cannot be read: {error}")),
        _ if text.len() > TEXT_BYTES_MAX => Some("it is larger than 1 MiB".to_owned()),
        (Ok(_), Some(path)) => unwritable(path),
    };
    let keys = config.keys(&text).into_iter();
    let is_shown = config.console.edit && read.is_ok() && text.len() <= TEXT_BYTES_MAX;
    ConfigFile {
        path: path.map(|path| path.display().to_string()),
        exists: matches!(read, Ok(Some(Some(_)))),
        digest: is_shown.then(|| digest_of(&text)),
        writable: problem.is_none(),
        problem,
        keys: keys.map(|key| shown_key(key, config, overridden)).collect(),
        text: is_shown.then_some(text),
    }
}

fn shown_key(key: KeyInForce, config: &Config, overridden: &[&str]) -> ConfigKey {
    let given_by = overridden
        .contains(&&*key.key)
        .then(|| variable_for(&key.key, config));
    let (source, variable) = match (given_by, key.variable) {
        (Some(Some(variable)), _) => (KeySource::Environment, Some(variable.to_owned())),
        (Some(None), _) => (KeySource::CommandLine, None),
        (None, Some(variable)) => (KeySource::Environment, Some(variable)),
        (None, None) if key.line.is_some() => (KeySource::File, None),
        (None, None) => (KeySource::Default, None),
    };
    ConfigKey {
        key: key.key,
        value: key.value,
        source,
        line: key.line,
        variable,
        restart: key.reload == Some(Reload::Restart),
    }
}

/// The variable that stands in for a flag, where it has what is in force; otherwise the flag was given.
fn variable_for(key: &str, config: &Config) -> Option<&'static str> {
    let has = |name: &str, value: &dyn Fn(&str) -> bool| {
        std::env::var(name).is_ok_and(|text| value(&text))
    };
    match key {
        "gateway.data_dir" => {
            let is_it = |text: &str| {
                std::path::absolute(text).is_ok_and(|path| path == config.gateway.data_dir)
            };
            has("SENTINEL_DATA_DIR", &is_it).then_some("SENTINEL_DATA_DIR")
        }
        "gateway.log_level" => {
            has("LOG_LEVEL", &|text| text == config.gateway.log_level).then_some("LOG_LEVEL")
        }
        _ => None,
    }
}

/// Why a file cannot be replaced, as far as that can be known before.
fn unwritable(path: &Path) -> Option<String> {
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut folder = target.parent()?;
    // What does not exist is made.
    while !folder.exists() {
        folder = folder.parent()?;
    }
    let may = access(folder, Access::WRITE_OK | Access::EXEC_OK);
    let shown = folder.display();
    may.err()
        .map(|error| format!("the folder {shown} cannot be written to: {error}"))
}

/// Replaces a file, which is on disk when this returns; makes it if it does not exist.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let target = match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
        found => found?,
    };
    let folder = match target.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
        None => Path::new("."),
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let fresh = beside(&target);
    let written = write(&fresh, &target, text).and_then(|()| fs::rename(&fresh, &target));
    if written.is_err() {
        let _ = fs::remove_file(&fresh);
        return written;
    }
    File::open(folder)?.sync_all()
}

/// A file in the folder of another, under a name that nothing else has.
fn beside(target: &Path) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!(".{name}.{}.new", std::process::id()))
}

/// Writes a new file with the mode and the owner of another.
fn write(fresh: &Path, like: &Path, text: &str) -> io::Result<()> {
    // Left behind by a process that died.
    match fs::remove_file(fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(MODE)
        .open(fresh)?;
    if let Ok(before) = fs::metadata(like) {
        let now = file.metadata()?;
        if (now.uid(), now.gid()) != (before.uid(), before.gid()) {
            fchown(&file, Some(before.uid()), Some(before.gid()))?;
        }
        file.set_permissions(Permissions::from_mode(before.mode() & 0o7777))?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").mode() & 0o7777
    }

    #[test]
    fn a_file_is_replaced_with_its_mode_and_a_link_stays_a_link() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("real.toml");
        fs::write(&file, "old").expect("written");
        fs::set_permissions(&file, Permissions::from_mode(0o640)).expect("ours");
        let link = folder.path().join("sentinel.toml");
        std::os::unix::fs::symlink("real.toml", &link).expect("a link");
        let inode = fs::metadata(&file).expect("it is there").ino();
        replace(&link, "new").expect("it can be replaced");
        assert_eq!(fs::read_to_string(&file).expect("text"), "new");
        assert_eq!(mode(&file), 0o640);
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_ne!(
            fs::metadata(&file).expect("there").ino(),
            inode,
            "another file"
        );
        let names = fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(names, 2, "nothing is left beside it");
    }

    #[test]
    fn a_file_that_is_not_there_is_made_for_its_owner_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a/b/sentinel.toml");
        assert_eq!(read(&file).expect("readable"), None);
        replace(&file, "x").expect("made");
        assert_eq!(read(&file).expect("readable").as_deref(), Some("x"));
        assert_eq!(mode(&file), MODE);
    }

    #[test]
    fn what_cannot_be_written_stays_as_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let inside = folder.path().join("file");
        fs::write(&inside, "x").expect("written");
        // A folder that is a file.
        replace(&inside.join("sentinel.toml"), "y").expect_err("no folder");
        assert_eq!(fs::read_to_string(&inside).expect("text"), "x");
    }

    #[test]
    fn a_digest_is_of_the_bytes() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(digest_of(""), empty);
        assert_ne!(digest_of("a"), digest_of("a\n"));
    }
}
