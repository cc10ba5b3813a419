//! `[console]`: the web console.

use std::time::Duration;

use crate::section::{seconds, section, words};

words! {
    /// Which other servers operators may look at.
    Connect {
        /// None.
        #[default] Off,
        /// Those on public addresses.
        Public,
        /// Also those on this machine and its networks.
        Any,
    }
}

section! {
    /// The web console.
    Console {
        /// Serve /console, and send browsers there from /. So does `surfaces.console`: both must be true.
        Live enabled: bool = true;
        /// Whether operators may look at other MCP servers by URL, through the gateway: off, public addresses only, or any address that
        /// the gateway reaches.
        Live connect: Connect = Connect::Off;
        /// Admins may read the text of this file, replace it and add backends to it over the admin API.
        Live edit: bool = true;
        /// Seconds for which somebody is signed in who showed a credential.
        #[serde(with = "seconds")]
        #[schemars(with = "f64", range(min = 60, max = 2_592_000))]
        Live session_ttl: Duration = Duration::from_secs(43_200);
    }
}
