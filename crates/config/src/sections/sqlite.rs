//! `[sqlite]`: the default store.

use std::path::{Path as FilePath, PathBuf};

use serde::Serialize;

use crate::builder::Builder;
use crate::section::section;
use crate::tree::Path;

section! {
    /// The default store.
    #[schemars(rename = "Sqlite")]
    RawSqlite => Sqlite {
        /// The database file. Empty: `sentinel.db` in the data directory.
        Restart path: String = String::new();
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sqlite {
    pub path: PathBuf,
}

impl Builder<'_> {
    pub(crate) fn sqlite(&mut self, raw: &RawSqlite, data_dir: &FilePath) -> Sqlite {
        let path = match raw.path.as_str() {
            "" => data_dir.join("sentinel.db"),
            path => self.path(&Path::dotted("sqlite.path"), path),
        };
        Sqlite { path }
    }
}
