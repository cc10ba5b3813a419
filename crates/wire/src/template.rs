//! URI templates (RFC 6570) matched against URIs, to route `resources/read`.
//!
//! Level 1 is exact: `{x}` stands for one or more characters other than `/`. The operators of the higher levels are
//! treated as wildcards, since matching only has to find the resource's owner and not the variables: `{+x}` is one or
//! more characters, and `{/x}`, `{?x}`, `{&x}`, `{#x}`, `{.x}`, `{;x}` are nothing or their own character and any
//! rest.
//!
//! Matching keeps the set of positions reachable so far, so its cost is at most the length of the URI times that of
//! the template; there is no backtracking.
//!
//! Not here: expansion, and the choice between several matches (`sentinel-core`; it takes the one
//! with the most literal characters).

/// Longer templates are refused: real ones have some dozens of bytes.
pub const TEMPLATE_LEN_MAX: usize = 2048;
/// Templates with more expressions are refused as well; both bounds keep the worst match at some milliseconds.
pub const EXPRESSIONS_MAX: usize = 64;
/// Longer URIs match no template; bounds the work that a caller can cause.
pub const URI_LEN_MAX: usize = 16 * 1024;

/// A template that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error("the template is longer than {TEMPLATE_LEN_MAX} bytes")]
    TooLong,
    #[error("the template has more than {EXPRESSIONS_MAX} expressions")]
    TooManyExpressions,
    #[error("the template has a brace without its partner, at byte {at}")]
    Brace { at: usize },
    #[error("the template has an expression without a valid variable, at byte {at}")]
    Expression { at: usize },
}

/// A parsed template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    pieces: Vec<Piece>,
    literal_chars: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Literal(Box<str>),
    /// One or more characters, none of them a slash.
    Segment,
    /// One or more characters of any kind.
    Anything,
    /// Nothing, or this character and anything after it.
    Optional(u8),
}

impl Template {
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        if text.len() > TEMPLATE_LEN_MAX {
            return Err(TemplateError::TooLong);
        }
        let mut pieces = Vec::new();
        let mut literal_chars = 0;
        let mut at = 0;
        while at < text.len() {
            let rest = &text[at..];
            let len = rest.find(['{', '}']).unwrap_or(rest.len());
            if len > 0 {
                literal_chars += rest[..len].chars().count();
                pieces.push(Piece::Literal(rest[..len].into()));
                at += len;
                continue;
            }
            let end = rest[1..].find(['{', '}']).map(|end| end + 1);
            match end {
                Some(end) if rest.starts_with('{') && rest[end..].starts_with('}') => {
                    pieces.push(
                        parse_expression(&rest[1..end]).ok_or(TemplateError::Expression { at })?,
                    );
                    at += end + 1;
                }
                _ => return Err(TemplateError::Brace { at }),
            }
        }
        let literals = pieces.iter().filter(|p| matches!(p, Piece::Literal(_)));
        if pieces.len() - literals.count() > EXPRESSIONS_MAX {
            return Err(TemplateError::TooManyExpressions);
        }
        Ok(Self {
            pieces,
            literal_chars,
        })
    }

    /// How specific the template is.
    pub fn literal_chars(&self) -> usize {
        self.literal_chars
    }

    /// Whether the URI can be an expansion of the template.
    pub fn matches(&self, uri: &str) -> bool {
        if uri.len() > URI_LEN_MAX {
            return false;
        }
        // Literals at both ends decide most cases at once, and leave a single wildcard in most others.
        let (mut pieces, mut uri) = (&self.pieces[..], uri);
        if let [Piece::Literal(first), rest @ ..] = pieces {
            let Some(stripped) = uri.strip_prefix(&first[..]) else {
                return false;
            };
            (pieces, uri) = (rest, stripped);
        }
        if let [rest @ .., Piece::Literal(last)] = pieces {
            let Some(stripped) = uri.strip_suffix(&last[..]) else {
                return false;
            };
            (pieces, uri) = (rest, stripped);
        }
        match pieces {
            [] => uri.is_empty(),
            [Piece::Segment] => !uri.is_empty() && !uri.contains('/'),
            [Piece::Anything] => !uri.is_empty(),
            [Piece::Optional(start)] => uri.is_empty() || uri.as_bytes()[0] == *start,
            _ => reaches_end(pieces, uri),
        }
    }
}

fn reaches_end(pieces: &[Piece], uri: &str) -> bool {
    let mut reached = vec![false; uri.len() + 1];
    reached[0] = true;
    for piece in pieces {
        reached = piece.advance(uri, &reached);
        if !reached.contains(&true) {
            return false;
        }
    }
    reached[uri.len()]
}

impl Piece {
    /// The positions in `uri` that this piece can lead to from those `reached`.
    fn advance(&self, uri: &str, reached: &[bool]) -> Vec<bool> {
        let bytes = uri.as_bytes();
        let mut next = vec![false; reached.len()];
        if let Piece::Literal(text) = self {
            for at in positions(reached) {
                if bytes[at..].starts_with(text.as_bytes()) {
                    next[at + text.len()] = true;
                }
            }
            return next;
        }
        // Whether a start to the left of this position is still open.
        let mut open = false;
        for at in 0..=bytes.len() {
            // Splitting a character would let `{a}{b}` match a single one.
            next[at] = open && uri.is_char_boundary(at);
            let Some(byte) = bytes.get(at) else { break };
            match self {
                Piece::Segment => open = (open || reached[at]) && *byte != b'/',
                Piece::Anything => open |= reached[at],
                Piece::Optional(start) => {
                    next[at] |= reached[at];
                    open |= reached[at] && byte == start;
                }
                Piece::Literal(_) => {}
            }
        }
        if matches!(self, Piece::Optional(_)) {
            next[bytes.len()] |= reached[bytes.len()];
        }
        next
    }
}

fn positions(reached: &[bool]) -> impl Iterator<Item = usize> {
    reached
        .iter()
        .enumerate()
        .filter_map(|(at, reached)| reached.then_some(at))
}

/// The text between the braces: an operator, then names that may have `*` or `:length`.
fn parse_expression(text: &str) -> Option<Piece> {
    let operator = text.bytes().next()?;
    let (piece, names) = match operator {
        b'+' => (Piece::Anything, &text[1..]),
        b'/' | b'?' | b'&' | b'#' | b'.' | b';' => (Piece::Optional(operator), &text[1..]),
        _ => (Piece::Segment, text),
    };
    names.split(',').all(is_variable).then_some(piece)
}

fn is_variable(text: &str) -> bool {
    let name = match text.split_once(':') {
        Some((name, length)) => {
            if length.is_empty() || !length.bytes().all(|b| b.is_ascii_digit()) {
                return false;
            }
            name
        }
        None => text.strip_suffix('*').unwrap_or(text),
    };
    // RFC 6570 allows letters, digits, `_`, `%` and dots; real servers also use `-`.
    !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'%' | b'.' | b'-'))
}

#[cfg(test)]
mod tests;
