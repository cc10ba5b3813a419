//! Configurations of MCP clients, as `sentinel import` reads them.

use std::cell::RefCell;
use std::ffi::OsString;

use sentinel_config::{Environment, Validators};
use toml_edit::DocumentMut;

use crate::program::import::{Client, Source, import};

const CLIENTS: [Client; 5] = [
    Client::ClaudeCode,
    Client::ClaudeDesktop,
    Client::Cursor,
    Client::Vscode,
    Client::Generic,
];

/// Whatever a client's file holds, what is written is TOML. The first byte chooses the client.
pub(crate) fn client_file(data: &[u8]) {
    thread_local! {
        /// Of this thread alone, written again for each input.
        static FILE: RefCell<tempfile::NamedTempFile> =
            RefCell::new(tempfile::NamedTempFile::new().expect("a temporary file"));
    }
    let Some((&chosen, text)) = data.split_first() else {
        return;
    };
    let client = CLIENTS[usize::from(chosen) % CLIENTS.len()];
    let lookup = |name: &str| (name == "HOME").then(|| OsString::from("/home/me"));
    let environment = Environment {
        validators: Validators::default(),
        variables: &lookup,
        cwd: "/project".into(),
    };
    let path = FILE.with_borrow(|file| file.path().to_owned());
    std::fs::write(&path, text).expect("it is ours");
    if let Ok(imported) = import(&[Source { path, client }], &environment) {
        let toml: Result<DocumentMut, _> = imported.toml.parse();
        assert!(toml.is_ok(), "{toml:?}:\n{}", imported.toml);
    }
}
