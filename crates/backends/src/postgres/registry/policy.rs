//! How the transaction of a handler is opened: what the handler needs, and what its caller asks for beyond that.

use std::borrow::Cow;

use super::super::mode::{Isolation, Mode};

/// A caller asks for a stronger isolation with this header.
pub(super) const HEADER: &str = "x-pgmi-transaction-isolation";

/// What a handler needs of its transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    pub(super) isolation: Option<Isolation>,
    pub(super) is_read_only: bool,
}

impl Needs {
    /// The mode for a call: at least what the handler needs and the server does by default.
    pub(super) fn mode(self, default: Isolation, requested: Option<Isolation>) -> Mode {
        let default = Some(default).filter(|level| *level > Isolation::ReadCommitted);
        let isolation = self.isolation.max(requested).max(default);
        Mode {
            isolation,
            is_read_only: self.is_read_only,
            // Such a transaction waits for a snapshot with which it cannot fail.
            is_deferrable: self.is_read_only && isolation == Some(Isolation::Serializable),
        }
    }
}

/// The isolation that a text names, with any case and separators; `None` for none that there is.
pub(super) fn isolation(text: &str) -> Option<Isolation> {
    let text: Cow<'_, str> = match text.contains(['-', '_']) {
        true => text.replace(['-', '_'], " ").into(),
        false => text.into(),
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    let words = words.join(" ");
    match words.eq_ignore_ascii_case("read uncommitted") {
        // PostgreSQL has no weaker level.
        true => Some(Isolation::ReadCommitted),
        false => Isolation::parse(&words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Isolation::{ReadCommitted, RepeatableRead, Serializable};

    #[test]
    fn callers_can_ask_for_more_but_not_for_less() {
        for (needed, default, requested, wanted) in [
            (None, ReadCommitted, None, None),
            (
                Some(RepeatableRead),
                ReadCommitted,
                None,
                Some(RepeatableRead),
            ),
            (
                Some(RepeatableRead),
                ReadCommitted,
                Some(ReadCommitted),
                Some(RepeatableRead),
            ),
            (
                Some(RepeatableRead),
                ReadCommitted,
                Some(Serializable),
                Some(Serializable),
            ),
            (
                None,
                RepeatableRead,
                Some(ReadCommitted),
                Some(RepeatableRead),
            ),
            (
                None,
                ReadCommitted,
                Some(ReadCommitted),
                Some(ReadCommitted),
            ),
        ] {
            let needs = Needs {
                isolation: needed,
                is_read_only: false,
            };
            assert_eq!(needs.mode(default, requested).isolation, wanted);
        }
        let reading = Needs {
            isolation: None,
            is_read_only: true,
        };
        assert!(!reading.mode(ReadCommitted, None).is_deferrable);
        assert!(
            reading
                .mode(ReadCommitted, Some(Serializable))
                .is_deferrable
        );
    }

    #[test]
    fn isolation_is_named_in_any_case_and_with_any_separator() {
        assert_eq!(isolation(" Repeatable_READ "), Some(RepeatableRead));
        assert_eq!(isolation("read-uncommitted"), Some(ReadCommitted));
        assert_eq!(isolation("serializable"), Some(Serializable));
        for other in ["", "snapshot", "serializable, serializable", "read"] {
            assert_eq!(isolation(other), None, "{other}");
        }
    }
}
