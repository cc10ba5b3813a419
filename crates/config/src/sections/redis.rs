//! `[redis]`: rate limits shared by many gateways.

use serde::Serialize;

use super::RawConfig;
use crate::builder::Builder;
use crate::mistake::Mistake;
use crate::secret::Secret;
use crate::section::section;
use crate::tree::Path;

section! {
    /// Present: rate limits are shared by all gateways that name the same server (docs/policy.md).
    #[schemars(rename = "Redis", extend("x-off" = true))]
    RawRedis => Redis {
        /// Environment variable with the connection URL: redis://user:password@host:6379/0, or rediss:// for TLS.
        Restart url_env (url): String = "REDIS_URL".into();
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Redis {
    #[serde(rename = "url_env")]
    pub url: Secret,
}

impl Builder<'_> {
    pub(crate) fn redis(&mut self, raw: &RawConfig) -> Option<Redis> {
        let here = Path::dotted("redis");
        if !self.tree.has(&here) {
            return None;
        }
        let url = self.variable_in(&here, "url_env", &raw.redis.url_env)?;
        if let Err(why) = (self.environment.validators.redis_url)(url.expose()) {
            let span = self.tree.value_span(&here.key("url_env"));
            let span = span.or_else(|| self.tree.key_span(&here));
            let message = format!("{}: {why}", raw.redis.url_env);
            self.mistakes
                .push(Mistake::new(span, message).expected("redis://user:password@host/database"));
        }
        Some(Redis { url })
    }
}
