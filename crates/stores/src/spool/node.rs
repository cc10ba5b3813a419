//! The id of a data directory, part of every record's key.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use ring::rand::{SecureRandom, SystemRandom};

use crate::private;

/// Reads the id, or creates it.
pub fn node_id(data_dir: &Path) -> io::Result<String> {
    let folder = data_dir.join("audit");
    private::own_folder(&folder)?;
    let path = folder.join("node");
    if let Some(found) = read(&path)? {
        return Ok(found);
    }
    let mut random = [0; 8];
    SystemRandom::new()
        .fill(&mut random)
        .map_err(|_| io::Error::other("the system has no randomness"))?;
    let name = format!("{:016x}", u64::from_le_bytes(random));
    // Written aside and hard-linked: of two processes one wins, and none reads a partial file.
    let aside = folder.join(format!(".node-{name}"));
    let mut file = private::options()
        .write(true)
        .create_new(true)
        .open(&aside)?;
    file.write_all(name.as_bytes())?;
    file.sync_all()?;
    let linked = fs::hard_link(&aside, &path);
    fs::remove_file(&aside)?;
    match linked {
        Ok(()) => Ok(name),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            read(&path)?.ok_or_else(|| io::Error::other("audit/node is empty"))
        }
        Err(error) => Err(error),
    }
}

/// The id, if there is one.
pub(crate) fn known(data_dir: &Path) -> Option<String> {
    read(&data_dir.join("audit").join("node")).ok().flatten()
}

fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.trim().to_owned()).filter(|name| !name.is_empty())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
