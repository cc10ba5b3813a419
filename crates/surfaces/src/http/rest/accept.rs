//! The `Accept` header of a REST request: in which form the answer is written.

use http::HeaderMap;
use http::header::ACCEPT;
use sentinel_core::{Fault, Kind};

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
const LINES: [&str; 3] = [
    "application/jsonl",
    "application/x-ndjson",
    "application/ndjson",
];
/// Entries of the header that are looked at.
const ENTRIES_MAX: usize = 32;

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    /// Server-sent events.
    Events,
    /// JSON Lines.
    Lines,
}

/// What a client takes, most wanted first.
#[derive(Debug, Default)]
pub(in crate::http) struct Accept(Vec<Entry>);

#[derive(Debug)]
struct Entry {
    media_type: String,
    /// In thousandths.
    quality: u16,
}

impl Accept {
    pub(in crate::http) fn of(headers: &HeaderMap) -> Self {
        let mut entries: Vec<Entry> = headers
            .get_all(ACCEPT)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .take(ENTRIES_MAX)
            .filter_map(Entry::parse)
            .collect();
        // Stable: of equals the first is meant.
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.quality));
        Self(entries)
    }

    /// The form for the result of an operation. A client that wants only bytes of some type gets them if the result is
    /// such, and JSON otherwise.
    pub(super) fn form(&self) -> Result<Form, Fault> {
        if self.0.is_empty() {
            return Ok(Form::Json);
        }
        let wanted = self.0.iter().filter(|entry| entry.quality > 0);
        let named = wanted.clone().find_map(Entry::form);
        let takes_any = || wanted.clone().any(Entry::may_be_bytes);
        match named {
            Some(form) => Ok(form),
            None if takes_any() => Ok(Form::Json),
            None => Err(not_acceptable(
                "application/json, text/event-stream or application/jsonl",
            )),
        }
    }

    /// Whether bytes of this type are wanted more than JSON.
    pub(super) fn prefers(&self, media_type: &str) -> bool {
        self.quality(media_type) > self.quality(JSON)
    }

    /// Whether there is anything that is wanted more than JSON.
    pub(super) fn prefers_any(&self) -> bool {
        let json = self.quality(JSON);
        self.0.iter().any(|entry| entry.quality > json)
    }

    pub(super) fn takes(&self, media_type: &str) -> bool {
        self.0.is_empty() || self.quality(media_type) > 0
    }

    /// The one that is wanted most; of equals the first.
    pub(in crate::http) fn best(&self, offered: &[&'static str]) -> Option<&'static str> {
        if self.0.is_empty() {
            return offered.first().copied();
        }
        let wanted = offered
            .iter()
            .filter(|media_type| self.quality(media_type) > 0);
        // The last of equals is the greatest.
        wanted
            .rev()
            .max_by_key(|media_type| self.quality(media_type))
            .copied()
    }

    /// By the entry that says most about it.
    fn quality(&self, media_type: &str) -> u16 {
        let essence = essence(media_type);
        let major = essence.split('/').next().unwrap_or_default();
        let specificity = |entry: &&Entry| match &*entry.media_type {
            exact if exact == essence => 3,
            range if range.strip_suffix("/*") == Some(major) => 2,
            "*/*" => 1,
            _ => 0,
        };
        let fitting = self.0.iter().filter(|entry| specificity(entry) > 0);
        let best = fitting.max_by_key(|entry| specificity(entry));
        best.map_or(0, |entry| entry.quality)
    }
}

pub(in crate::http) fn not_acceptable(offered: &str) -> Fault {
    Fault::new(Kind::NotAcceptable, format!("the answer can be {offered}"))
}

/// A media type without parameters, in lower case.
fn essence(media_type: &str) -> String {
    let essence = media_type.split(';').next().unwrap_or_default();
    essence.trim().to_ascii_lowercase()
}

impl Entry {
    fn parse(text: &str) -> Option<Self> {
        let media_type = essence(text);
        let mut parameters = text.split(';').skip(1).map(str::trim);
        let quality = parameters.find_map(|p| p.strip_prefix("q=").or(p.strip_prefix("Q=")));
        let quality = match quality {
            None => 1000,
            Some(text) => (text.parse::<f32>().ok()?.clamp(0.0, 1.0) * 1000.0) as u16,
        };
        media_type.contains('/').then_some(Self {
            media_type,
            quality,
        })
    }

    fn form(&self) -> Option<Form> {
        match &*self.media_type {
            JSON | "application/*" | "*/*" => Some(Form::Json),
            EVENTS => Some(Form::Events),
            lines if LINES.contains(&lines) => Some(Form::Lines),
            _ => None,
        }
    }

    /// Results may hold images, sound, plain text and files; pages and style sheets they are not.
    fn may_be_bytes(&self) -> bool {
        let (major, minor) = self.media_type.split_once('/').unwrap_or_default();
        match major {
            "image" | "audio" | "video" | "font" | "model" => true,
            "application" => !minor.contains("html"),
            "text" => matches!(minor, "plain" | "*"),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept(value: &str) -> Accept {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, value.parse().expect("a header"));
        Accept::of(&headers)
    }

    #[test]
    fn the_form_is_what_the_client_wants_most() {
        for (value, form) in [
            ("*/*", Some(Form::Json)),
            ("application/json", Some(Form::Json)),
            ("application/json, text/event-stream", Some(Form::Json)),
            ("text/event-stream, */*", Some(Form::Events)),
            (
                "text/event-stream;q=0.5, application/json;q=0.4",
                Some(Form::Events),
            ),
            ("application/jsonl", Some(Form::Lines)),
            ("Application/X-NDJSON", Some(Form::Lines)),
            ("image/png", Some(Form::Json)),
            ("text/html", None),
            ("application/json;q=0", None),
            ("nonsense", Some(Form::Json)),
        ] {
            assert_eq!(accept(value).form().ok(), form, "{value}");
        }
        assert_eq!(Accept::of(&HeaderMap::new()).form().ok(), Some(Form::Json));
    }

    #[test]
    fn the_best_of_several_is_the_one_wanted_most() {
        let offered = [
            "text/markdown; charset=utf-8",
            "text/html; charset=utf-8",
            "application/json",
        ];
        for (value, best) in [
            ("*/*", Some(offered[0])),
            (
                "text/html,application/xml;q=0.9,*/*;q=0.8",
                Some(offered[1]),
            ),
            ("application/json", Some(offered[2])),
            ("text/*;q=0.5, application/json;q=0.4", Some(offered[0])),
            ("image/png", None),
        ] {
            assert_eq!(accept(value).best(&offered), best, "{value}");
        }
        assert_eq!(Accept::default().best(&offered), Some(offered[0]));
    }

    #[test]
    fn bytes_are_preferred_only_where_the_client_says_so() {
        assert!(accept("image/png").prefers("image/png"));
        assert!(accept("image/*, application/json;q=0.9").prefers("image/png"));
        assert!(!accept("*/*").prefers("image/png"));
        assert!(accept("image/png").prefers_any() && !accept("*/*").prefers_any());
        assert!(!accept("application/json, text/event-stream").prefers_any());
        assert!(!Accept::of(&HeaderMap::new()).prefers_any());
        assert!(!accept("application/json, image/*;q=0.1").prefers("image/png"));
        assert!(accept("text/plain").takes("text/plain; charset=utf-8"));
        assert!(!accept("text/plain").takes("image/png"));
    }
}
