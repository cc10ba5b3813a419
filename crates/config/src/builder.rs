//! From what the file says to what the program needs: what all sections share.
//!
//! Nothing here stops at the first mistake: a value that cannot be used is reported, a stand-in takes
//! its place, and the stand-in is never seen because a configuration with mistakes is not returned.
//!
//! Not here: the shape of the file (`shape`), the sections themselves (`sections`), parsing of addresses,
//! URLs and paths (`builder::values`).

pub(crate) mod values;

use std::collections::BTreeSet;
use std::path::Path as FilePath;

use crate::Environment;
use crate::mistake::Mistake;
use crate::secret::Secret;
use crate::suggest::nearest;
use crate::tree::{Path, Tree};

/// Whether an address that the network reaches may be listened on (P-S15).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exposure {
    /// Callers are authenticated.
    Authenticated,
    /// They are not, and the file says in words that this is meant.
    Allowed,
    /// They are not.
    Refused,
}

/// Builds the configuration, or says everything that is wrong with it.
pub(crate) struct Builder<'a> {
    pub(crate) tree: &'a Tree,
    /// Reported and taken out by the shape check.
    pub(crate) removed: &'a BTreeSet<Path>,
    pub(crate) environment: &'a Environment<'a>,
    /// Relative paths of the file start here.
    pub(crate) base: &'a FilePath,
    /// The file has syntax errors: what seems missing may be what could not be read.
    pub(crate) incomplete: bool,
    pub(crate) mistakes: Vec<Mistake>,
    pub(crate) notices: Vec<String>,
}

impl Builder<'_> {
    /// The URL of a store whose section is there, from the variable that `url_env` or its default names.
    pub(crate) fn store_url(
        &mut self,
        section: &str,
        variable: &str,
        check: fn(&str) -> Result<(), String>,
        expected: &str,
    ) -> Option<Secret> {
        let section = Path::dotted(section);
        self.tree.has(&section).then_some(())?;
        let named = section.key("url_env");
        let path = if self.tree.has(&named) {
            named
        } else {
            section
        };
        let url = self.variable(&path, variable)?;
        if let Err(why) = check(url.expose()) {
            self.wrong(&path, format!("{variable}: {why}"), expected);
        }
        Some(url)
    }

    pub(crate) fn known_backend(&mut self, path: &Path, name: &str, names: &[String]) {
        // The built-in broker can be switched off like a backend.
        if name == "review" || names.iter().any(|known| known == name) {
            return;
        }
        let help = nearest(name, names.iter().map(String::as_str))
            .map(|near| format!("did you mean \"{near}\"?"));
        let message = format!("there is no backend \"{name}\"");
        self.report(path, message, |m| m.maybe_help(help));
    }
}
