//! `[rbac]`: what each role may see and call.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::RawConfig;
use crate::builder::Builder;
use crate::mistake::Mistake;
use crate::section::section;
use crate::suggest::nearest;
use crate::tree::Path;

section! {
    /// What each role may see and call. See docs/policy.md.
    Rbac {
        /// Roles by name. `admin` exists without being written.
        #[schemars(example = json!({
            "admin": {},
            "developer": { "permissions": ["tools.read", "tools.execute"], "denied_tools": ["n8n.delete_*"] },
            "auditor": { "permissions": ["tools.read"], "denied_tools": [] },
        }))]
        Live roles: BTreeMap<String, Role> = BTreeMap::new();
    }
}

/// One role.
#[derive(Debug, Default, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Role {
    /// "*", "admin", "tools.read", "tools.execute", "<backend>.*" or "tool:<glob>".
    #[schemars(example = json!(["*"]))]
    pub permissions: Vec<String>,
    /// Tools that this role neither sees nor calls, whatever its permissions; globs are allowed.
    pub denied_tools: Vec<String>,
    /// Tools whose calls this role has to confirm, besides `surfaces.confirm`; globs are allowed.
    pub confirm: Vec<String>,
}

impl Builder<'_> {
    /// Roles that other keys name must exist.
    pub(crate) fn check_role_names(&mut self, raw: &RawConfig) {
        let mut known: Vec<&str> = raw.rbac.roles.keys().map(String::as_str).collect();
        known.push("admin");
        for (path, role, may_be_empty) in [
            ("gateway.stdio_role", &raw.gateway.stdio_role, false),
            ("auth.default_role", &raw.auth.default_role, true),
            ("auth.anonymous_role", &raw.auth.anonymous_role, true),
        ] {
            if known.contains(&role.as_str()) || (role.is_empty() && may_be_empty) {
                continue;
            }
            let help = nearest(role, known.iter().copied())
                .map(|near| format!("did you mean \"{near}\"?"));
            let message = format!("there is no role \"{role}\"");
            self.report(&Path::dotted(path), message, |m| {
                m.expected("admin, or a role of [rbac.roles]")
                    .maybe_help(help)
            });
        }
    }

    pub(crate) fn rbac(&mut self, raw: Rbac, names: &[String]) -> Rbac {
        for (role, rules) in &raw.roles {
            let here = Path::dotted("rbac.roles").key(role);
            if role.is_empty() {
                let span = self.tree.key_span(&here);
                self.mistakes
                    .push(Mistake::new(span, "a role needs a name"));
            }
            let here = here.key("permissions");
            for (index, permission) in rules.permissions.iter().enumerate() {
                self.permission(&here.index(index), permission, names);
            }
        }
        let mut roles: BTreeMap<_, _> = raw.roles;
        roles.entry("admin".into()).or_insert_with(|| Role {
            permissions: vec!["*".into()],
            ..Role::default()
        });
        Rbac { roles }
    }

    fn permission(&mut self, path: &Path, text: &str, names: &[String]) {
        const WORDS: [&str; 4] = ["*", "admin", "tools.read", "tools.execute"];
        if WORDS.contains(&text)
            || text
                .strip_prefix("tool:")
                .is_some_and(|glob| !glob.is_empty())
        {
            return;
        }
        let slip = nearest(text, WORDS);
        if let (None, Some((backend, rest))) = (slip, text.split_once('.'))
            && !rest.is_empty()
        {
            return self.known_backend(path, backend, names);
        }
        self.report(path, format!("\"{text}\" is no permission"), |m| {
            m.expected("\"*\", \"admin\", \"tools.read\", \"tools.execute\", \"<backend>.*\" or \"tool:<glob>\"")
                .maybe_help(slip.map(|near| format!("did you mean \"{near}\"?")))
        });
    }
}
