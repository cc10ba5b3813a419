//! `[console]`: the web console.

use crate::builder::Builder;
use crate::section::section;
use crate::tree::Path;

section! {
    /// The web console.
    Console {
        /// Serve /console.
        Restart enabled: bool = true;
    }
}

impl Builder<'_> {
    pub(crate) fn check_console(&mut self) {
        if self.tree.has(&Path::dotted("console")) {
            let notice = "`console` is understood but has no effect in this version";
            self.notices.push(notice.to_owned());
        }
    }
}
