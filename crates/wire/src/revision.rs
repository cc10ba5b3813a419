//! The published revisions of MCP, and the two eras they fall into.

use std::fmt;

/// A published revision, oldest first, so that `<` means "older than".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
}

/// Legacy peers perform a handshake and keep sessions; modern ones send everything in each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Era {
    Legacy,
    Modern,
}

impl Revision {
    pub const ALL: [Self; 5] = [
        Self::V2024_11_05,
        Self::V2025_03_26,
        Self::V2025_06_18,
        Self::V2025_11_25,
        Self::V2026_07_28,
    ];
    /// The newest revision that begins with `initialize`.
    pub const NEWEST_LEGACY: Self = Self::V2025_11_25;
    pub const NEWEST: Self = Self::V2026_07_28;

    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|r| r.as_str() == text)
    }

    pub fn era(self) -> Era {
        if self < Self::V2026_07_28 {
            Era::Legacy
        } else {
            Era::Modern
        }
    }

    pub fn is_modern(self) -> bool {
        self.era() == Era::Modern
    }

    /// The server's answer to an `initialize` that asks for `requested`: a handshake always ends in a legacy
    /// revision, and an unknown one is answered with our newest.
    pub fn negotiate(requested: &str) -> Self {
        Self::parse(requested)
            .filter(|r| !r.is_modern())
            .unwrap_or(Self::NEWEST_LEGACY)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_39_a_handshake_ends_in_a_legacy_revision() {
        for legacy in &Revision::ALL[..4] {
            assert_eq!(Revision::negotiate(legacy.as_str()), *legacy);
        }
        for other in ["2026-07-28", "2024-10-07", "1.0", ""] {
            assert_eq!(Revision::negotiate(other), Revision::V2025_11_25, "{other}");
        }
    }
}
