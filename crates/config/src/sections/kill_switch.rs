//! `[kill_switch]`: what is switched off.

use crate::builder::Builder;
use crate::section::section;
use crate::tree::Path;

section! {
    /// What is switched off.
    KillSwitch {
        /// Tools that nobody may call.
        Live disabled_tools: Vec<String> = Vec::new();
        /// Backends whose operations nobody may call.
        Live disabled_backends: Vec<String> = Vec::new();
        /// Callers who may call nothing, by subject.
        Live disabled_callers: Vec<String> = Vec::new();
        /// Nobody may call anything.
        Live everything: bool = false;
    }
}

impl Builder<'_> {
    pub(crate) fn check_kill_switch(&mut self, raw: &KillSwitch, names: &[String]) {
        let here = Path::dotted("kill_switch.disabled_backends");
        for (index, name) in raw.disabled_backends.iter().enumerate() {
            self.known_backend(&here.index(index), name, names);
        }
        let here = Path::dotted("kill_switch.disabled_callers");
        for (index, name) in raw.disabled_callers.iter().enumerate() {
            if name.is_empty() {
                self.wrong(
                    &here.index(index),
                    "no caller has an empty name",
                    "a subject",
                );
            }
        }
    }
}
