//! Annotations in the comment of a function.
//!
//! A line that begins with `@` is an annotation; all other lines are the description. Directly after `@param`, such lines continue its
//! text.
//!
//! | line | meaning |
//! | --- | --- |
//! | `@tool [name]` | a tool; the name is the function's unless given |
//! | `@resource uri [name]` | a resource; with `{parameters}` in its URI, a resource template |
//! | `@prompt [name]` | a prompt |
//! | `@route VERB /path/{id}` | an HTTP route to the tool; repeatable. Without `@tool`, the function is reached by its routes only |
//! | `@title text` | a title for people |
//! | `@tags a, b` | tags of the tool |
//! | `@param name text` | what a parameter means; repeatable |
//! | `@bind name source` | the parameter is filled by the gateway and not in the schema; repeatable. Sources: `auth.user_id`, `auth.tenant_id`, `auth.user_email`, `auth.role`, `auth.token` |
//! | `@auth` | for callers with a credential only |
//! | `@isolation level` | `read committed`, `repeatable read` or `serializable` |
//! | `@read_only` | the transaction is READ ONLY, as it is for STABLE and IMMUTABLE functions |
//! | `@deferrable` | the transaction waits for a safe snapshot; for serializable read-only ones |
//! | `@idempotent [true\|false]` | calling it again changes nothing more |
//! | `@destructive [true\|false]` | it deletes or overwrites |
//! | `@timeout 5s` | a statement time-out shorter than the configured one (`ms`, `s`, `min`) |
//! | `@max_rows 100` | fewer rows in one answer than configured |
//! | `@mime text/plain` | the media type of the result |
//! | `@ignore` | no operation, even where all functions are |
//!
//! Not here: whether the annotations fit the function (`functions`).

use std::time::Duration;

use super::super::mode::Isolation;

const WORDS: [&str; 18] = [
    "tool",
    "resource",
    "prompt",
    "route",
    "title",
    "tags",
    "param",
    "bind",
    "auth",
    "isolation",
    "read_only",
    "deferrable",
    "idempotent",
    "destructive",
    "timeout",
    "max_rows",
    "mime",
    "ignore",
];
const VERBS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
const NAME_LEN_MAX: usize = 128;
const ROUTES_MAX: usize = 32;
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3600);

/// Why a comment cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CommentError {
    #[error("its comment has the unknown word @{word} (known are @{})", WORDS.join(", @"))]
    Unknown { word: String },
    #[error("its comment says @{word} twice")]
    Twice { word: String },
    #[error("its comment has @{word} {value:?}, which must be {wanted}")]
    Value {
        word: String,
        value: String,
        wanted: &'static str,
    },
    #[error("its comment contradicts itself: {0}")]
    Contradiction(&'static str),
}

/// Where the value of a bound parameter comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    UserId,
    TenantId,
    UserEmail,
    Role,
    Token,
}

impl Source {
    const ALL: [Self; 5] = [
        Self::UserId,
        Self::TenantId,
        Self::UserEmail,
        Self::Role,
        Self::Token,
    ];

    /// The setting of the transaction that holds it.
    pub(super) fn setting(self) -> &'static str {
        match self {
            Self::UserId => "auth.user_id",
            Self::TenantId => "auth.tenant_id",
            Self::UserEmail => "auth.user_email",
            Self::Role => "auth.role",
            Self::Token => "auth.token",
        }
    }
}

/// One `@route`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RouteLine {
    pub(super) verb: String,
    pub(super) path: String,
}

/// A comment as read. Names are `None` where the function's own is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Comment {
    pub(super) description: String,
    pub(super) tool: Option<Option<String>>,
    /// URI or URI template, and a name.
    pub(super) resource: Option<(String, Option<String>)>,
    pub(super) prompt: Option<Option<String>>,
    pub(super) routes: Vec<RouteLine>,
    pub(super) title: Option<String>,
    pub(super) tags: Vec<String>,
    pub(super) params: Vec<(String, String)>,
    pub(super) binds: Vec<(String, Source)>,
    pub(super) needs_identity: bool,
    pub(super) isolation: Option<Isolation>,
    pub(super) is_read_only: bool,
    pub(super) is_deferrable: bool,
    pub(super) idempotent: Option<bool>,
    pub(super) destructive: Option<bool>,
    pub(super) timeout: Option<Duration>,
    pub(super) max_rows: Option<usize>,
    pub(super) mime: Option<String>,
    pub(super) is_ignored: bool,
    pub(super) has_annotations: bool,
}

impl Comment {
    pub(super) fn parse(text: &str) -> Result<Self, CommentError> {
        let mut comment = Self::default();
        let mut description: Vec<&str> = Vec::new();
        let mut seen: Vec<&str> = Vec::new();
        let mut continues_param = false;
        for line in text.lines().map(str::trim) {
            let Some(annotation) = line.strip_prefix('@') else {
                let param = comment.params.last_mut();
                match param.filter(|_| continues_param && !line.is_empty()) {
                    Some((_, text)) => {
                        if !text.is_empty() {
                            text.push(' ');
                        }
                        text.push_str(line);
                    }
                    None => {
                        description.push(line);
                        continues_param = false;
                    }
                }
                continue;
            };
            let (word, value) = match annotation.split_once(char::is_whitespace) {
                Some((word, value)) => (word, value.trim()),
                None => (annotation, ""),
            };
            let Some(word) = WORDS.iter().find(|known| **known == word) else {
                let word = word.chars().take(NAME_LEN_MAX).collect();
                return Err(CommentError::Unknown { word });
            };
            let is_repeatable = matches!(*word, "route" | "param" | "bind");
            if !is_repeatable && seen.contains(word) {
                let word = (*word).to_owned();
                return Err(CommentError::Twice { word });
            }
            seen.push(word);
            comment.take(word, value)?;
            continues_param = *word == "param";
        }
        comment.description = description.join("\n").trim().to_owned();
        comment.has_annotations = !seen.is_empty();
        comment.check(seen.len())?;
        Ok(comment)
    }

    /// Whether it makes an operation of the function.
    pub(super) fn is_marked(&self) -> bool {
        self.tool.is_some()
            || self.resource.is_some()
            || self.prompt.is_some()
            || !self.routes.is_empty()
    }

    /// What `@bind` says about a parameter.
    pub(super) fn bound(&self, parameter: &str) -> Option<Source> {
        let found = self.binds.iter().find(|(name, _)| name == parameter);
        found.map(|(_, source)| *source)
    }

    /// What `@param` says about a parameter.
    pub(super) fn about(&self, parameter: &str) -> Option<&str> {
        let found = self.params.iter().find(|(name, _)| name == parameter);
        found.map(|(_, text)| text.as_str())
    }

    fn take(&mut self, word: &str, value: &str) -> Result<(), CommentError> {
        let wrong = |wanted| CommentError::Value {
            word: word.to_owned(),
            value: value.to_owned(),
            wanted,
        };
        let flag = || match value {
            "" | "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(wrong("true, false or nothing")),
        };
        let nothing = || match value {
            "" => Ok(true),
            _ => Err(wrong("without a value")),
        };
        let own_name = || match value {
            "" => Ok(None),
            name if is_name(name) => Ok(Some(name.to_owned())),
            _ => Err(wrong(NAME_WANTED)),
        };
        match word {
            "tool" => self.tool = Some(own_name()?),
            "prompt" => self.prompt = Some(own_name()?),
            "resource" => {
                self.resource =
                    Some(resource(value).ok_or_else(|| wrong("a URI, and perhaps a name"))?);
            }
            "route" => {
                let wanted = "GET, POST, PUT, PATCH or DELETE and a path that begins with /";
                let route = route(value).ok_or_else(|| wrong(wanted))?;
                if self.routes.len() >= ROUTES_MAX || self.routes.contains(&route) {
                    return Err(wrong("different from the others, and one of at most 32"));
                }
                self.routes.push(route);
            }
            "title" if value.is_empty() => return Err(wrong("a text")),
            "title" => self.title = Some(value.to_owned()),
            "tags" => {
                let tags = value
                    .split(',')
                    .map(str::trim)
                    .filter(|tag| !tag.is_empty());
                self.tags = tags.map(str::to_owned).collect();
                if self.tags.is_empty() {
                    return Err(wrong("names separated by commas"));
                }
            }
            "param" => {
                let (name, text) = value.split_once(char::is_whitespace).unwrap_or((value, ""));
                if name.is_empty() || self.about(name).is_some() {
                    return Err(wrong("the name of a parameter, once, and a text"));
                }
                self.params.push((name.to_owned(), text.trim().to_owned()));
            }
            "bind" => {
                let bound = bind(value).filter(|(name, _)| self.bound(name).is_none());
                let wanted = "the name of a parameter, once, and auth.user_id, auth.tenant_id, auth.user_email, auth.role or auth.token";
                self.binds.push(bound.ok_or_else(|| wrong(wanted))?);
            }
            "auth" => self.needs_identity = nothing()?,
            "read_only" => self.is_read_only = nothing()?,
            "deferrable" => self.is_deferrable = nothing()?,
            "ignore" => self.is_ignored = nothing()?,
            "idempotent" => self.idempotent = Some(flag()?),
            "destructive" => self.destructive = Some(flag()?),
            "isolation" => {
                let wanted = "read committed, repeatable read or serializable";
                self.isolation = Some(Isolation::parse(value).ok_or_else(|| wrong(wanted))?);
            }
            "timeout" => {
                let wanted = "a time such as 500ms, 5s or 2min, of at most a day";
                self.timeout = Some(duration(value).ok_or_else(|| wrong(wanted))?);
            }
            "max_rows" => {
                let rows = value
                    .parse()
                    .ok()
                    .filter(|rows| (1..=1_000_000).contains(rows));
                self.max_rows = Some(rows.ok_or_else(|| wrong("a number from 1 to 1000000"))?);
            }
            "mime" => {
                let mime = Some(value).filter(|mime| is_mime(mime));
                self.mime = Some(mime.ok_or_else(|| wrong("a media type"))?.to_owned());
            }
            _ => {}
        }
        Ok(())
    }

    fn check(&self, annotations: usize) -> Result<(), CommentError> {
        let is_wrong = |is_wrong: bool, why| match is_wrong {
            true => Err(CommentError::Contradiction(why)),
            false => Ok(()),
        };
        is_wrong(self.is_ignored && annotations > 1, "@ignore stands alone")?;
        is_wrong(
            self.is_read_only && self.destructive == Some(true),
            "@read_only and @destructive",
        )?;
        let is_bound = |(name, _): &(String, String)| self.bound(name).is_some();
        is_wrong(
            self.params.iter().any(is_bound),
            "@param describes a parameter that @bind hides",
        )?;
        let is_serializable = self.isolation == Some(Isolation::Serializable);
        is_wrong(
            self.is_deferrable && !is_serializable,
            "@deferrable needs @isolation serializable",
        )
    }
}

pub(super) const NAME_WANTED: &str =
    "a name of at most 128 letters, digits, underscores, hyphens and dots";

/// Whether every client takes it as the name of an operation.
pub(super) fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    !name.is_empty() && name.len() <= NAME_LEN_MAX && name.chars().all(fits)
}

fn resource(value: &str) -> Option<(String, Option<String>)> {
    let (uri, name) = match value.split_once(char::is_whitespace) {
        Some((uri, name)) => (uri, Some(name.trim())),
        None => (value, None),
    };
    let (scheme, rest) = uri.split_once(':')?;
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let is_scheme =
        scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(fits);
    let is_good = is_scheme && !rest.is_empty() && name.is_none_or(is_name);
    is_good.then(|| (uri.to_owned(), name.map(str::to_owned)))
}

fn route(value: &str) -> Option<RouteLine> {
    let (verb, path) = value.split_once(char::is_whitespace)?;
    let (verb, path) = (verb.to_ascii_uppercase(), path.trim());
    let is_path = path.starts_with('/')
        && path
            .chars()
            .all(|c| c.is_ascii_graphic() && !matches!(c, '?' | '#'));
    (VERBS.contains(&verb.as_str()) && is_path).then(|| RouteLine {
        verb,
        path: path.to_owned(),
    })
}

fn bind(value: &str) -> Option<(String, Source)> {
    let (name, setting) = value.split_once(char::is_whitespace)?;
    let setting = setting.trim();
    let source = Source::ALL
        .into_iter()
        .find(|one| one.setting() == setting)?;
    Some((name.to_owned(), source))
}

fn duration(value: &str) -> Option<Duration> {
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = value.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let duration = match unit.trim() {
        "ms" => Duration::from_millis(number),
        "s" | "" => Duration::from_secs(number),
        "min" => Duration::from_secs(number.checked_mul(60)?),
        _ => return None,
    };
    (!duration.is_zero() && duration <= TIMEOUT_MAX).then_some(duration)
}

fn is_mime(value: &str) -> bool {
    let fits = |c: char| c.is_ascii_graphic() || c == ' ';
    let Some((kind, rest)) = value.split_once('/') else {
        return false;
    };
    !kind.is_empty() && !rest.is_empty() && value.len() <= 200 && value.chars().all(fits)
}

#[cfg(test)]
mod tests;
