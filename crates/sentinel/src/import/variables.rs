//! The environment variables that an imported configuration names, and the shell lines that set them.

use crate::config::template::{Template, is_name};

/// How a variable gets its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Export {
    /// This text, a credential.
    Literal(String),
    /// Text with other variables in it.
    Template(Template),
    /// The user knows it; this is what the client would have asked.
    Ask(String),
}

/// All variables, in the order of their first use.
#[derive(Debug, Default)]
pub(crate) struct Exports {
    list: Vec<(String, Export)>,
    /// Variables that the client's file already refers to: setting them would change what it means.
    referenced: Vec<String>,
}

impl Exports {
    pub(crate) fn refer(&mut self, name: String) {
        self.referenced.push(name);
    }

    /// Names a variable for this value: the wanted name, or if another value has it, the longer one, or
    /// that with a number. The same value under the same name is one variable.
    pub(crate) fn name(&mut self, wanted: &str, longer: &str, export: Export) -> String {
        let numbered = (2..).map(|n| format!("{longer}_{n}"));
        let mut candidates = [wanted.to_owned(), longer.to_owned()]
            .into_iter()
            .chain(numbered);
        let asks = matches!(export, Export::Ask(_));
        let open = |name: &String| asks || !self.referenced.contains(name);
        let free = |name: &String| {
            open(name)
                && self
                    .list
                    .iter()
                    .find(|(known, _)| known == name)
                    .is_none_or(|(_, e)| *e == export)
        };
        let name = candidates.find(free).expect("the numbers do not end");
        if !self.list.iter().any(|(known, _)| *known == name) {
            self.list.push((name.clone(), export));
        }
        name
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.list.iter().map(|(name, _)| name.clone()).collect()
    }

    /// How this variable gets its value, if it was named for one.
    pub(crate) fn find(&self, name: &str) -> Option<&Export> {
        let mut all = self.list.iter();
        all.find(|(known, _)| known == name)
            .map(|(_, export)| export)
    }

    /// Lines for a shell.
    pub(crate) fn shell(&self) -> String {
        let line = |(name, export): &(String, Export)| match export {
            Export::Literal(value) => format!("export {name}={}\n", single_quoted(value)),
            Export::Template(template) => {
                format!("export {name}=\"{}\"\n", double_quoted(template))
            }
            Export::Ask(question) => {
                format!(
                    "# export {name}=...   # {}\n",
                    question.replace(['\n', '\r'], " ")
                )
            }
        };
        self.list.iter().map(line).collect()
    }
}

/// A text as the name of a variable: `my-server` and `api key` become `MY_SERVER` and `API_KEY`.
pub(crate) fn variable_name(text: &str) -> String {
    let mut name = String::new();
    let mut before = ' ';
    for c in text.chars() {
        if c.is_ascii_uppercase() && before.is_ascii_lowercase() {
            name.push('_');
        }
        if c.is_ascii_alphanumeric() {
            name.push(c.to_ascii_uppercase());
        } else if !name.is_empty() && !name.ends_with('_') {
            name.push('_');
        }
        before = c;
    }
    let name = name.trim_end_matches('_').to_owned();
    if is_name(&name) {
        name
    } else {
        format!("MCP_{name}")
    }
}

fn single_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn double_quoted(template: &Template) -> String {
    let escape = |text: &str| {
        let mut out = String::new();
        for c in text.chars() {
            if matches!(c, '\\' | '"' | '$' | '`') {
                out.push('\\');
            }
            out.push(c);
        }
        out
    };
    template.escaped(escape, escape)
}
