//! `[review]`: the built-in review broker.

use std::net::SocketAddr;
use std::time::Duration;

use serde::Serialize;

use crate::builder::{Builder, Exposure};
use crate::section::{seconds, section, shown_or_off};
use crate::tree::Path;

section! {
    /// The built-in review broker.
    #[schemars(rename = "Review")]
    RawReview => Review {
        /// Offer the review tools.
        Restart enabled: bool = true;
        /// Seconds after which a claim without activity ends.
        #[serde(with = "seconds")]
        #[schemars(with = "f64", range(min = 1, max = 2_592_000))]
        Live claim_timeout: Duration = Duration::from_secs(1200);
        /// Offer the less common review tools as well.
        Restart extended_tools: bool = false;
        /// Let each side do only what is its own: reviewers claim and judge, proposers close and follow up. Needs
        /// `[auth]`, which tells callers apart. False: roles are for attribution. See docs/review.md.
        Live enforce_roles: bool = false;
        /// Address of `sentinel review serve`.
        Restart listen: String = "127.0.0.1:8321".into();
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Review {
    pub enabled: bool,
    #[serde(with = "seconds")]
    pub claim_timeout: Duration,
    pub extended_tools: bool,
    pub enforce_roles: bool,
    #[serde(serialize_with = "shown_or_off")]
    pub listen: Option<SocketAddr>,
    /// `sentinel review serve`: the broker introduces itself, not a gateway.
    #[serde(skip)]
    pub alone: bool,
}

impl Builder<'_> {
    pub(crate) fn review(&mut self, raw: &RawReview, exposure: Exposure) -> Review {
        let listen = self.address(&Path::dotted("review.listen"), &raw.listen, exposure);
        if raw.enabled && raw.enforce_roles && exposure != Exposure::Authenticated {
            // A caller that can choose its `reviewer_id` would review its own proposal.
            let message = "`enforce_roles` needs [auth]: without it callers cannot be told apart, and one could approve its own proposal";
            self.report(&Path::dotted("review.enforce_roles"), message, |m| {
                m.expected("an [auth] section, or enforce_roles = false")
                    .help("add [auth] and give each caller a key of its own: sentinel key create")
            });
        }
        Review {
            enabled: raw.enabled,
            claim_timeout: raw.claim_timeout,
            extended_tools: raw.extended_tools,
            enforce_roles: raw.enforce_roles,
            listen,
            alone: false,
        }
    }
}
