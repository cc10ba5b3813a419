//! How others find a running gateway: `<data_dir>/run/<pid>.json`.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RunFile {
    pub(crate) pid: u32,
    pub(crate) version: String,
    /// Where it listens, with the real port.
    pub(crate) listen: String,
    /// The second listener, for probes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) health_listen: Option<String>,
}

/// Present while this process runs; removed when dropped.
#[derive(Debug)]
pub(crate) struct Announced(PathBuf);

impl Drop for Announced {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

impl RunFile {
    pub(crate) fn announce(
        data_dir: &Path,
        listen: String,
        health_listen: Option<String>,
    ) -> anyhow::Result<Announced> {
        let pid = std::process::id();
        let folder = data_dir.join("run");
        fs::create_dir_all(&folder)?;
        let this = Self {
            pid,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            listen,
            health_listen,
        };
        let file = folder.join(format!("{pid}.json"));
        let fresh = folder.join(format!("{pid}.new"));
        fs::write(&fresh, serde_json::to_vec(&this)?)?;
        fs::rename(&fresh, &file)?;
        Ok(Announced(file))
    }

    /// The gateways of a data directory that are alive; files of dead ones are cleared away.
    pub(crate) fn find(data_dir: &Path) -> Vec<Self> {
        let Ok(entries) = fs::read_dir(data_dir.join("run")) else {
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
            match read {
                Some(file) if is_alive(file.pid) => found.push(file),
                _ => drop(fs::remove_file(&path)),
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
