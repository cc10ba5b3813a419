//! `[console]`: the web console.

use std::time::Duration;

use crate::section::{seconds, section};

section! {
    /// The web console.
    Console {
        /// Serve /console, and send browsers there from /. So does `surfaces.console`: both must be true.
        Live enabled: bool = true;
        /// Seconds for which somebody is signed in who showed a credential.
        #[serde(with = "seconds")]
        #[schemars(with = "f64", range(min = 60, max = 2_592_000))]
        Live session_ttl: Duration = Duration::from_secs(43_200);
    }
}
