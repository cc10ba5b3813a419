//! `[redis]`: rate limits shared by many gateways.

use serde::Serialize;

use super::RawConfig;
use crate::builder::Builder;
use crate::secret::Secret;
use crate::section::section;

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
        let expected = "redis://user:password@host/database";
        let check = self.environment.validators.redis_url;
        let url = self.store_url("redis", &raw.redis.url_env, check, expected)?;
        Some(Redis { url })
    }
}
