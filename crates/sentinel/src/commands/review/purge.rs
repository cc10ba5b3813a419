//! `sentinel review purge`: removes closed reviews for good.

use std::io::{BufRead, IsTerminal};
use std::process::ExitCode;

use anyhow::bail;
use sentinel_core::audit::moment;
use sentinel_review::store::{PurgedReview, ReviewStore};
use serde_json::json;
use tokio::runtime::Runtime;

use super::paint;
use crate::commands::{print, say};

/// What is asked for.
pub(super) struct Purge<'a> {
    pub(super) closed_before: &'a str,
    pub(super) dry_run: bool,
    pub(super) yes: bool,
    pub(super) json: bool,
}

impl Purge<'_> {
    pub(super) fn run(
        &self,
        store: &dyn ReviewStore,
        runtime: &Runtime,
    ) -> anyhow::Result<ExitCode> {
        let before = moment::show(moment::parse(self.closed_before)?);
        if self.dry_run {
            let going = runtime.block_on(store.purgeable(before))?;
            return print(&self.told(&going, "would be removed"));
        }
        if !self.yes {
            let going = runtime.block_on(store.purgeable(before.clone()))?;
            print(&self.told(&going, "would be removed"))?;
            if going.is_empty() || !agrees(going.len())? {
                return Ok(ExitCode::SUCCESS);
            }
        }
        let gone = runtime.block_on(store.purge(before, operator()))?;
        print(&self.told(&gone, "removed"))
    }

    fn told(&self, reviews: &[PurgedReview], what: &str) -> String {
        if self.json {
            return format!("{}\n", json!({ "reviews": reviews, "what": what }));
        }
        let mut out: String = reviews.iter().map(paint::purged).collect();
        out.push_str(&format!("{} closed reviews {what}\n", reviews.len()));
        out
    }
}

fn agrees(count: usize) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        bail!("nothing was removed: say --yes, or --dry-run to look only");
    }
    say(&format!("Remove {count} reviews for good? [y/N]"));
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Who does it, for the history.
fn operator() -> String {
    let uid = rustix::process::getuid().as_raw();
    let name = ["SUDO_USER", "USER", "LOGNAME"];
    let name = name.iter().find_map(|name| std::env::var(name).ok());
    match name.filter(|name| !name.is_empty()) {
        Some(name) => format!("operator {name} (uid {uid})"),
        None => format!("operator (uid {uid})"),
    }
}
