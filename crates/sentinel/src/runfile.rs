//! Run files, by which commands find a running gateway: `<data_dir>/run/<pid>.json`, and beside it `<pid>.sock`, the
//! operator socket. Only their owner can access the folder.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::data_dir;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RunFile {
    pub(crate) pid: u32,
    pub(crate) version: String,
    /// Its address with the actual port; none on standard input and output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) listen: Option<String>,
    /// The second listener, for probes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) health_listen: Option<String>,
    /// Those of `[[listeners]]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) listeners: Vec<String>,
    /// Where it was found.
    #[serde(skip)]
    folder: PathBuf,
}

/// Present while this process runs; removed when dropped.
#[derive(Debug)]
pub(crate) struct RunFileGuard(PathBuf);

impl Drop for RunFileGuard {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
        let _ = fs::remove_file(self.0.with_extension("sock"));
    }
}

/// The folder of run files, accessible to its owner only.
fn folder(data_dir: &Path) -> anyhow::Result<PathBuf> {
    let folder = data_dir.join("run");
    fs::create_dir_all(&folder)?;
    fs::set_permissions(&folder, Permissions::from_mode(0o700))?;
    Ok(folder)
}

/// The path of this process's operator socket; an old file there is removed.
pub(crate) fn own_socket(data_dir: &Path) -> anyhow::Result<PathBuf> {
    let path = folder(data_dir)?.join(format!("{}.sock", std::process::id()));
    match fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(path),
    }
}

impl RunFile {
    pub(crate) fn announce(
        data_dir: &Path,
        listen: Option<String>,
        health_listen: Option<String>,
        listeners: Vec<String>,
    ) -> anyhow::Result<RunFileGuard> {
        let pid = std::process::id();
        let folder = folder(data_dir)?;
        let file = folder.join(format!("{pid}.json"));
        let fresh = folder.join(format!("{pid}.new"));
        let this = Self {
            pid,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            listen,
            health_listen,
            listeners,
            folder,
        };
        data_dir::create(&fresh)?.write_all(&serde_json::to_vec(&this)?)?;
        fs::rename(&fresh, &file)?;
        Ok(RunFileGuard(file))
    }

    /// Its operator socket, if it has one.
    pub(crate) fn socket(&self) -> Option<PathBuf> {
        let path = self.folder.join(format!("{}.sock", self.pid));
        path.exists().then_some(path)
    }

    /// Its socket accepts no connection: the process has ended, and its number may be in use again.
    fn is_deserted(&self) -> bool {
        let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        self.socket()
            .is_some_and(|socket| UnixStream::connect(socket).is_err_and(refused))
    }

    /// The running gateways of a data directory; files of dead ones are removed.
    pub(crate) fn find(data_dir: &Path) -> Vec<Self> {
        let folder = data_dir.join("run");
        let Ok(entries) = fs::read_dir(&folder) else {
            return Vec::new();
        };
        let mut found: Vec<Self> = Vec::new();
        for path in entries
            .flatten()
            .map(|e| e.path())
            .filter(|p| p.extension().is_some_and(|e| e == "json"))
        {
            let read = fs::read(&path)
                .ok()
                .and_then(|text| serde_json::from_slice::<Self>(&text).ok());
            let read = read.map(|file| Self {
                folder: folder.clone(),
                ..file
            });
            match read {
                Some(file) if is_alive(file.pid) && !file.is_deserted() => found.push(file),
                _ => drop(RunFileGuard(path)),
            }
        }
        found.sort_by_key(|file| file.pid);
        found
    }
}

fn is_alive(pid: u32) -> bool {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
}
