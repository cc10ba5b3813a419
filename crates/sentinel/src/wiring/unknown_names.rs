//! Names in rules that match nothing, most likely misspelt; for `sentinel check`.
//!
//! Compares with the remembered catalogs. Nothing is reported about a backend without one, nor about URIs, which
//! servers need not list.

use std::collections::BTreeSet;
use std::sync::Arc;

use sentinel_core::ItemKind;
use sentinel_core::catalog::Registry;
use sentinel_core::operation::Operation;
use sentinel_core::policy::{KillSwitch, Scope, means};
use sentinel_review::tools as review;

use super::{enabled, kill_file, listing, place};
use crate::config::{Config, suggest};

/// Operations known while no gateway runs.
struct Known {
    operations: Vec<Arc<Operation>>,
    /// Backends without a remembered catalog.
    missing: BTreeSet<String>,
}

/// One line for each name without a match.
pub(crate) fn unknown_names(config: &Config) -> Vec<String> {
    let known = Known::of(config);
    let mut lines = Vec::new();
    for (role, rules) in &config.rbac.roles {
        for name in &rules.denied_tools {
            let place = format!("rbac.roles.{role}.denied_tools");
            lines.extend(known.complaint(&place, name, false));
        }
    }
    for name in config.rate_limits.per_tool.keys() {
        lines.extend(known.complaint("rate_limits.per_tool", name, true));
    }
    for name in &config.kill_switch.disabled_tools {
        lines.extend(known.complaint("kill_switch.disabled_tools", name, false));
    }
    let file = kill_file(&config.gateway.data_dir);
    if file.exists() {
        let killed = KillSwitch::open(Vec::new(), Some(file)).killed();
        let tools = killed.iter().filter(|one| one.scope == Scope::Tool);
        lines.extend(tools.filter_map(|one| known.complaint("sentinel kill", &one.name, false)));
    }
    lines
}

impl Known {
    fn of(config: &Config) -> Self {
        let enabled = enabled(config);
        let mut listings: Vec<_> = enabled.iter().map(|backend| listing(backend)).collect();
        listings.push(sentinel_core::catalog::Listing::new(review::NAME));
        let registry = Registry::new(listings);
        let mut missing = BTreeSet::new();
        for (index, backend) in enabled.iter().enumerate() {
            match place(config, backend).load() {
                Some(offer) => registry.publisher(index).remember(offer),
                None => drop(missing.insert(backend.name.clone())),
            }
        }
        let mut operations: Vec<_> = registry.catalog().all_operations().cloned().collect();
        if config.review.enabled {
            let names = review::names(config.review.extended_tools).into_iter();
            operations.extend(names.map(|name| {
                let (index, backend) = (enabled.len(), review::NAME.into());
                let tool = Operation::unlisted(Some(ItemKind::Tool), index, &backend, name);
                Arc::new(tool)
            }));
        }
        Self {
            operations,
            missing,
        }
    }

    /// The message about a name in this place, if nothing matches. `tools`: only tools count.
    fn complaint(&self, place: &str, name: &str, tools: bool) -> Option<String> {
        if name.contains(':') || !self.knows_all_of(name) {
            return None;
        }
        let counts = |operation: &&Arc<Operation>| !tools || operation.kind == Some(ItemKind::Tool);
        let candidates = || self.operations.iter().filter(counts);
        if candidates().any(|operation| means(name, operation)) {
            return None;
        }
        let own = |operation: &Arc<Operation>| format!("{}.{}", operation.backend, operation.own);
        let names: Vec<String> = match name.contains('.') {
            true => candidates().map(own).collect(),
            false => candidates().map(|o| o.exposed.to_string()).collect(),
        };
        let near = suggest::nearest(name, names.iter().map(String::as_str));
        let near = near.map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
        Some(format!("{place}: nothing is called \"{name}\"{near}"))
    }

    /// Whether every backend that the name may refer to is remembered.
    fn knows_all_of(&self, name: &str) -> bool {
        let about = name.split_once('.').map(|(backend, _)| backend);
        match about {
            Some(backend) if self.operations.iter().any(|o| *o.backend == *backend) => true,
            _ => self.missing.is_empty() && !self.operations.is_empty(),
        }
    }
}
