//! A small JSON file that several processes share: kills, API keys, pins.
//!
//! The file is replaced as a whole, so a reader sees the old one or the new one; a writer holds a lock beside it.
//! Only its owner may read it. All of this blocks on the disk.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::marker::PhantomData;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub struct StateFile<T> {
    path: PathBuf,
    contents: PhantomData<fn() -> T>,
}

/// Identifies one version of the file: inode, length and times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Version(Option<(u64, u64, i64, i64)>);

impl Version {
    fn of(metadata: &fs::Metadata) -> Self {
        let m = metadata;
        Self(Some((m.ino(), m.size(), m.ctime(), m.ctime_nsec())))
    }

    /// The version at a path now; all missing files are equal.
    pub fn at(path: &Path) -> Self {
        fs::metadata(path).map_or(Self::default(), |m| Self::of(&m))
    }

    /// The file does not exist.
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }
}

impl<T: Default + Serialize + DeserializeOwned> StateFile<T> {
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            contents: PhantomData,
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Changes whenever the file does.
    pub fn version(&self) -> Version {
        Version::at(&self.path)
    }

    /// The content and its version; a missing file has the default content.
    pub fn read(&self) -> io::Result<(Version, T)> {
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Default::default()),
            opened => opened?,
        };
        let version = Version::of(&file.metadata()?);
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        // A list would be decoded as the members in order, and an empty one as no members.
        if !text.trim_ascii_start().starts_with(b"{") {
            let text = "what it holds is no JSON object";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok((version, serde_json::from_slice(&text)?))
    }

    /// Changes the file under its lock; it is on disk when this returns.
    pub fn change<R>(&self, change: impl FnOnce(&mut T) -> io::Result<R>) -> io::Result<R> {
        self.rewrite(|read| {
            let mut contents = read?;
            let done = change(&mut contents)?;
            Ok((contents, done))
        })
    }

    /// Like [`StateFile::change`], for content that replaces an unreadable file.
    pub fn rewrite<R>(
        &self,
        rewrite: impl FnOnce(io::Result<T>) -> io::Result<(T, R)>,
    ) -> io::Result<R> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        let lock = private(&self.path.with_extension("lock"), false)?;
        flock(&lock, FlockOperation::LockExclusive)?;
        let (contents, done) = rewrite(self.read().map(|(_, contents)| contents))?;
        let fresh = self.path.with_extension("new");
        let mut file = private(&fresh, true)?;
        file.write_all(&serde_json::to_vec_pretty(&contents)?)?;
        file.sync_all()?;
        fs::rename(&fresh, &self.path)?;
        File::open(folder)?.sync_all()?;
        Ok(done)
    }
}

/// A file that only its owner may read.
fn private(path: &Path, truncate: bool) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(truncate)
        .mode(0o600)
        .open(path)
}
