//! Which calls need a confirmation, and the tokens by which callers give it.
//!
//! A token is random, used once, and bound to the caller, its role, the tool and the exact arguments. Tokens are kept in
//! memory: a restart forgets them, and so does another gateway of the same configuration never learn of them.
//!
//! Not here: how a caller is asked (`walk::confirm`).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::roles::Pattern;
use crate::operation::Operation;
use crate::seal::random_id;

/// Bounds on tokens, in total and per caller; the oldest is evicted.
const TOKENS_MAX: usize = 4096;
const TOKENS_PER_CALLER_MAX: usize = 64;

/// The settings of confirmations in `[surfaces]`.
#[derive(Clone, Debug)]
pub struct ConfirmConfig {
    /// Patterns of tools, as in `denied_tools`.
    pub tools: Vec<String>,
    pub ttl: Duration,
}

impl Default for ConfirmConfig {
    fn default() -> Self {
        Self {
            tools: Vec::new(),
            ttl: Duration::from_secs(300),
        }
    }
}

/// What a token is bound to: a digest of caller, role, tool and arguments.
pub(crate) type Bound = [u8; 32];

struct Token {
    principal: Arc<str>,
    bound: Bound,
    until: Instant,
}

pub struct Confirmations {
    /// Whether any pattern exists, here or in a role: the only check for most calls.
    is_used: AtomicBool,
    tools: ArcSwap<Vec<Pattern>>,
    ttl_ms: AtomicU64,
    tokens: Mutex<HashMap<String, Token>>,
}

impl Confirmations {
    pub(super) fn new(config: &ConfirmConfig, of_roles: bool) -> Self {
        let this = Self {
            is_used: AtomicBool::new(false),
            tools: ArcSwap::default(),
            ttl_ms: AtomicU64::new(0),
            tokens: Mutex::default(),
        };
        this.reconfigure(config, of_roles);
        this
    }

    /// `of_roles`: some role has patterns of its own.
    pub(super) fn reconfigure(&self, config: &ConfirmConfig, of_roles: bool) {
        let tools = config.tools.iter().map(|text| Pattern::new(text)).collect();
        self.tools.store(Arc::new(tools));
        let ttl_ms = config.ttl.as_millis() as u64;
        self.ttl_ms.store(ttl_ms, Ordering::Relaxed);
        self.roles_changed(of_roles);
    }

    pub(super) fn roles_changed(&self, of_roles: bool) {
        let is_used = of_roles || !self.tools.load().is_empty();
        self.is_used.store(is_used, Ordering::Relaxed);
    }

    pub(super) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// The pattern by which everybody has to confirm calls of this tool.
    pub(super) fn naming(&self, tool: &Operation) -> Option<String> {
        let tools = self.tools.load();
        let found = tools.iter().find(|pattern| pattern.matches(tool));
        found.map(|pattern| pattern.text().to_owned())
    }

    pub(crate) fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl_ms.load(Ordering::Relaxed))
    }

    /// A new token for exactly this call.
    pub(crate) fn issue(&self, principal: Arc<str>, bound: Bound) -> String {
        let now = Instant::now();
        let mut tokens = self.tokens.lock();
        let of_caller = |token: &Token| token.principal == principal;
        if tokens.len() >= TOKENS_MAX || tokens.len() >= TOKENS_PER_CALLER_MAX {
            tokens.retain(|_, token| token.until > now);
            if tokens.values().filter(|token| of_caller(token)).count() >= TOKENS_PER_CALLER_MAX {
                forget_oldest(&mut tokens, of_caller);
            }
            if tokens.len() >= TOKENS_MAX {
                forget_oldest(&mut tokens, |_| true);
            }
        }
        let (id, until) = (random_id(), now + self.ttl());
        let token = Token {
            principal,
            bound,
            until,
        };
        tokens.insert(id.clone(), token);
        id
    }

    /// Consumes a token; true if it was issued to this caller for exactly this call and is valid. The token of another
    /// caller or call stays: every element of a batch comes with the one token of its request.
    pub(crate) fn redeem(&self, id: &str, principal: &str, bound: &Bound) -> bool {
        let mut tokens = self.tokens.lock();
        let is_meant = |token: &Token| *token.principal == *principal && token.bound == *bound;
        if !tokens.get(id).is_some_and(is_meant) {
            return false;
        }
        let token = tokens.remove(id);
        token.is_some_and(|token| token.until > Instant::now())
    }
}

fn forget_oldest(tokens: &mut HashMap<String, Token>, among: impl Fn(&Token) -> bool) {
    let oldest = tokens.iter().filter(|(_, token)| among(token));
    let oldest = oldest.min_by_key(|(_, token)| token.until);
    if let Some(id) = oldest.map(|(id, _)| id.clone()) {
        tokens.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn confirmations() -> Confirmations {
        Confirmations::new(&ConfirmConfig::default(), false)
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_holds_once_for_its_caller_its_call_and_its_time() {
        let all = confirmations();
        let issue = || all.issue("a".into(), [1; 32]);
        let token = issue();
        assert!(!all.redeem(&token, "b", &[1; 32]), "another caller's");
        assert!(all.redeem(&token, "a", &[1; 32]));
        assert!(!all.redeem(&token, "a", &[1; 32]), "used");
        let token = issue();
        assert!(!all.redeem(&token, "a", &[2; 32]), "another call's");
        assert!(all.redeem(&token, "a", &[1; 32]), "still its own call's");
        let token = issue();
        tokio::time::advance(Duration::from_secs(301)).await;
        assert!(!all.redeem(&token, "a", &[1; 32]), "expired");
        assert!(!all.redeem("", "a", &[1; 32]));
    }

    #[tokio::test(start_paused = true)]
    async fn one_caller_holds_so_many_tokens_and_the_oldest_gives_way() {
        let all = confirmations();
        let other = all.issue("b".into(), [0; 32]);
        let mut issued = Vec::new();
        for _ in 0..=TOKENS_PER_CALLER_MAX {
            tokio::time::advance(Duration::from_millis(1)).await;
            issued.push(all.issue("a".into(), [0; 32]));
        }
        assert_eq!(all.tokens.lock().len(), TOKENS_PER_CALLER_MAX + 1);
        assert!(!all.redeem(&issued[0], "a", &[0; 32]));
        assert!(all.redeem(&issued[1], "a", &[0; 32]));
        assert!(all.redeem(&other, "b", &[0; 32]));
        for n in 0..TOKENS_MAX + 10 {
            all.issue(format!("c{n}").into(), [0; 32]);
        }
        assert!(all.tokens.lock().len() <= TOKENS_MAX);
    }
}
