//! `[[listeners]]`: further addresses, each for everything or for one backend or some surfaces.

use std::net::SocketAddr;

use serde::Serialize;

use crate::builder::{Builder, Exposure};
use crate::section::{section, words};
use crate::tree::Path;

section! {
    /// A further address to listen on.
    #[schemars(rename = "Listener", extend("x-off" = true))]
    RawListener => Listener {
        /// Address and port.
        #[schemars(example = &"127.0.0.1:8321")]
        Restart listen: String = String::new();
        /// Serve only this backend, over MCP at `surfaces.mcp_path`. Empty: all backends.
        #[schemars(example = &"review")]
        Restart backend: String = String::new();
        /// Serve only these. Empty: everything that is served, the admin API included.
        Restart surfaces: Vec<SurfaceName> = Vec::new();
    }
}

words! {
    /// A way of calling operations over HTTP.
    SurfaceName {
        /// MCP.
        #[default] Mcp,
        /// REST and the documents about it.
        Rest,
        /// JSON-RPC 2.0.
        Rpc,
        /// The admin API.
        Admin,
        /// The console. It reads the surfaces above, which the listener needs as well.
        Console,
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Listener {
    pub listen: SocketAddr,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub backend: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub surfaces: Vec<SurfaceName>,
}

impl Builder<'_> {
    pub(crate) fn listeners(
        &mut self,
        raw: &[RawListener],
        first: Option<SocketAddr>,
        exposure: Exposure,
        backends: &[String],
    ) -> Vec<Listener> {
        let mut built: Vec<Listener> = Vec::with_capacity(raw.len());
        for (index, listener) in raw.iter().enumerate() {
            let here = Path::dotted("listeners").index(index);
            let at = here.key("listen");
            let Some(listen) = self.address(&at, &listener.listen, exposure) else {
                if listener.listen.is_empty() || listener.listen == "off" {
                    self.wrong(&at, "a listener needs an address", "an address and a port");
                }
                continue;
            };
            let mut taken = built.iter().map(|other| other.listen).chain(first);
            if listen.port() != 0 && taken.any(|other| other == listen) {
                self.wrong(
                    &at,
                    format!("{listen} is listened on already"),
                    "another port",
                );
            }
            if !listener.backend.is_empty() {
                self.known_backend(&here.key("backend"), &listener.backend, backends);
                if listener
                    .surfaces
                    .iter()
                    .any(|name| *name != SurfaceName::Mcp)
                {
                    let message = "a listener for one backend serves MCP only";
                    self.wrong(
                        &here.key("surfaces"),
                        message,
                        "[\"mcp\"], or no `surfaces`",
                    );
                }
            }
            built.push(Listener {
                listen,
                backend: listener.backend.clone(),
                surfaces: listener.surfaces.clone(),
            });
        }
        built
    }
}
