//! Text with `${VAR}` and `${VAR:-default}` in it.
//!
//! `$${` stands for a literal `${`. Anything that does not read as one of the two forms is literal.
//! Where values come from is the caller's business; nothing is expanded twice.

/// A piece of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Text(String),
    Variable {
        name: String,
        default: Option<String>,
    },
}

/// Text with variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    pub pieces: Vec<Piece>,
}

/// A template with its variables filled in.
pub struct Filled {
    pub text: String,
    pub missing: Vec<String>,
}

/// Splits a text into literal pieces and variables.
pub fn parse(text: &str) -> Template {
    parse_with(text, variable)
}

/// Reads `VAR` or `VAR:-default`; `None` if that is no variable's name.
pub fn variable(inside: &str) -> Option<Piece> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default.to_owned())),
        None => (inside, None),
    };
    is_name(name).then(|| Piece::Variable {
        name: name.to_owned(),
        default,
    })
}

/// Splits a text whose `${…}` mean what `read` says; `None` leaves one as it stands.
pub fn parse_with(text: &str, read: impl Fn(&str) -> Option<Piece>) -> Template {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let escaped = rest[..at].ends_with('$');
        literal.push_str(&rest[..at - usize::from(escaped)]);
        rest = &rest[at + 2..];
        let piece = match rest.split_once('}') {
            Some((inside, after)) if !escaped => read(inside).map(|piece| (piece, after)),
            _ => None,
        };
        match piece {
            Some((piece, after)) => {
                if !literal.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut literal)));
                }
                pieces.push(piece);
                rest = after;
            }
            None => literal.push_str("${"),
        }
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        pieces.push(Piece::Text(literal));
    }
    Template { pieces }
}

impl Template {
    /// Whether there is no variable in it.
    pub fn is_plain(&self) -> bool {
        self.pieces
            .iter()
            .all(|piece| matches!(piece, Piece::Text(_)))
    }

    /// The literal text, without variables.
    pub fn text(&self) -> String {
        let texts = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Text(text) => Some(text.as_str()),
            Piece::Variable { .. } => None,
        });
        texts.collect()
    }

    pub fn fill(&self, value: impl Fn(&str) -> Option<String>) -> Filled {
        let mut filled = Filled {
            text: String::new(),
            missing: Vec::new(),
        };
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => filled.text.push_str(text),
                Piece::Variable { name, default } => {
                    match value(name)
                        .filter(|v| !v.is_empty())
                        .or_else(|| default.clone())
                    {
                        Some(value) => filled.text.push_str(&value),
                        None => filled.missing.push(name.clone()),
                    }
                }
            }
        }
        filled
    }

    /// The template with these variables as the text that names them, for somebody else to expand.
    pub fn with_literal(mut self, meant: impl Fn(&str) -> bool) -> Self {
        for piece in &mut self.pieces {
            if let Piece::Variable {
                name,
                default: None,
            } = piece
                && meant(name)
            {
                *piece = Piece::Text(format!("${{{name}}}"));
            }
        }
        self
    }

    /// The template as `parse` would read it again.
    pub fn written(&self) -> String {
        self.escaped(|text| text.replace("${", "$${"), str::to_owned)
    }

    /// The template with its literal text and its defaults escaped for the syntax that it is written in.
    pub fn escaped(
        &self,
        text: impl Fn(&str) -> String,
        default_text: impl Fn(&str) -> String,
    ) -> String {
        let one = |piece: &Piece| match piece {
            Piece::Text(literal) => text(literal),
            Piece::Variable {
                name,
                default: None,
            } => format!("${{{name}}}"),
            Piece::Variable {
                name,
                default: Some(default),
            } => format!("${{{name}:-{}}}", default_text(default)),
        };
        self.pieces.iter().map(one).collect()
    }
}

/// Whether this can be the name of an environment variable.
pub fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::{Piece, parse};

    fn filled(text: &str) -> (String, Vec<String>) {
        let filled = parse(text).fill(|name| (name == "A").then(|| "x".to_owned()));
        (filled.text, filled.missing)
    }

    #[test]
    fn variables_defaults_and_escapes_are_read() {
        assert_eq!(filled("Bearer ${A}!"), ("Bearer x!".into(), vec![]));
        assert_eq!(filled("${B:-y}${A:-z}"), ("yx".into(), vec![]));
        assert_eq!(filled("${B}"), (String::new(), vec!["B".into()]));
        assert_eq!(
            filled("$${A} ${not a name} ${A"),
            ("${A} ${not a name} ${A".into(), vec![])
        );
        assert_eq!(filled("cost: $5"), ("cost: $5".into(), vec![]));
    }

    #[test]
    fn a_template_is_written_as_it_is_read() {
        for text in ["a ${A} b", "${A:-b c}", "plain", "$${A}"] {
            assert_eq!(parse(text).written(), text);
        }
        assert_eq!(
            parse("${A}").pieces,
            [Piece::Variable {
                name: "A".into(),
                default: None
            }]
        );
    }
}
