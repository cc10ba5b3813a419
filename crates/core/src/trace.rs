//! Traces: the W3C trace context of a request, and spans on their way to a collector.
//!
//! A caller names its trace in `_meta` (`traceparent`, as MCP specifies) or in the header of the same name; `_meta`
//! wins, since it travels with the message. Where spans are collected, the request is a span of that trace and its
//! backend gets a span below it; otherwise the caller's context is forwarded unchanged.
//!
//! Not here: how spans reach a collector (the binary).

use ring::rand::{SecureRandom, SystemRandom};

/// A position in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    pub trace: [u8; 16],
    pub span: [u8; 8],
    pub flags: u8,
}

const SAMPLED: u8 = 1;

impl Context {
    /// Parses a `traceparent`. Of a later version only the known part is read, as W3C requires.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?.trim();
        let mut parts = text.splitn(5, '-');
        let version: [u8; 1] = hex(parts.next()?)?;
        let this = Self {
            trace: hex(parts.next()?)?,
            span: hex(parts.next()?)?,
            flags: hex::<1>(parts.next()?)?[0],
        };
        let more = parts.next().is_some();
        let valid = version[0] != 0xff
            && !(version[0] == 0 && more)
            && this.trace != [0; 16]
            && this.span != [0; 8];
        valid.then_some(this)
    }

    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// A span below this one.
    pub fn child(&self) -> Self {
        Self {
            span: random(),
            ..*self
        }
    }

    /// A new trace.
    pub fn root() -> Self {
        Self {
            trace: random(),
            span: random(),
            flags: SAMPLED,
        }
    }

    pub fn traceparent(&self) -> String {
        format!(
            "00-{}-{}-{:02x}",
            to_hex(&self.trace),
            to_hex(&self.span),
            self.flags
        )
    }
}

/// Lower case only, as W3C requires.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    let good = |d: &u8| matches!(d, b'0'..=b'9' | b'a'..=b'f');
    if digits.len() != 2 * N || !digits.iter().all(good) {
        return None;
    }
    let mut out = [0; N];
    for (byte, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(out)
}

pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn random<const N: usize>() -> [u8; N] {
    let mut out = [0; N];
    SystemRandom::new()
        .fill(&mut out)
        .expect("the system has randomness");
    out
}

/// The side of a request that a span is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// From reading the caller's request to its answer.
    Server,
    /// From calling the backend to that answer.
    Client,
}

/// A time span as a collector sees it.
#[derive(Clone, Debug)]
pub struct Span {
    pub context: Context,
    pub parent: Option<[u8; 8]>,
    pub kind: SpanKind,
    pub name: String,
    /// Since 1970.
    pub start_ns: u64,
    pub end_ns: u64,
    pub attributes: Vec<(&'static str, String)>,
    /// The kind of its failure.
    pub error: Option<&'static str>,
}

/// Receives spans. Never waits: spans that do not fit are dropped and counted.
pub trait Spans: Send + Sync + 'static {
    fn take(&self, span: Span);
}

/// The trace of one request.
#[derive(Default)]
pub(crate) struct Traced {
    /// The request's own span and its client span below, where spans are collected.
    pub(crate) spans: Option<(Context, Context)>,
    pub(crate) parent: Option<[u8; 8]>,
    /// The context for the backend, where `_meta` does not have it already.
    pub(crate) onward: Option<Box<str>>,
}

impl Traced {
    /// The trace of the request's own span.
    pub(crate) fn trace(&self) -> Option<[u8; 16]> {
        self.spans.map(|(own, _)| own.trace)
    }

    /// `meta` is the context in the request, `header` the one of HTTP.
    pub(crate) fn new(collected: bool, meta: Option<&[u8]>, header: Option<&[u8]>) -> Self {
        let said = meta.and_then(Context::parse);
        let parent = said.or_else(|| header.and_then(Context::parse));
        if !collected {
            return Self {
                spans: None,
                parent: None,
                onward: parent
                    .filter(|_| said.is_none())
                    .map(|parent| parent.traceparent().into()),
            };
        }
        let own = parent.map_or_else(Context::root, |parent| parent.child());
        let client = own.child();
        Self {
            spans: Some((own, client)),
            parent: parent.map(|parent| parent.span),
            onward: Some(client.traceparent().into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";

    #[test]
    fn a_traceparent_is_read_as_w3c_says() {
        let context = Context::parse(GOOD.as_bytes()).unwrap();
        assert_eq!(context.traceparent(), GOOD);
        assert!(context.is_sampled());
        let later = GOOD.replace("00-0af", "01-0af") + "-more";
        assert!(Context::parse(later.as_bytes()).is_some());
        for bad in [
            "",
            "00",
            &GOOD.to_uppercase(),
            &GOOD.replace("00-0af", "ff-0af"),
            &GOOD.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            &GOOD.replace("00f067aa0ba902b7", &"0".repeat(16)),
            &format!("{GOOD}-more"),
            &GOOD[..GOOD.len() - 1],
        ] {
            assert_eq!(Context::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn the_message_wins_over_the_header_and_nothing_is_made_up_where_none_collects() {
        let other = GOOD.replace("0af7", "1111");
        let quiet = |meta: Option<&str>, header: Option<&str>| {
            let traced = Traced::new(false, meta.map(str::as_bytes), header.map(str::as_bytes));
            traced.onward
        };
        assert_eq!(quiet(None, None), None);
        assert_eq!(
            quiet(Some(GOOD), Some(&other)),
            None,
            "it is in the message"
        );
        assert_eq!(quiet(None, Some(GOOD)).as_deref(), Some(GOOD));
        let traced = Traced::new(true, Some(GOOD.as_bytes()), Some(other.as_bytes()));
        let (own, client) = traced.spans.unwrap();
        assert_eq!(to_hex(&own.trace), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(
            traced.parent.map(|p| to_hex(&p)).as_deref(),
            Some("00f067aa0ba902b7")
        );
        assert_eq!(traced.onward.as_deref(), Some(&*client.traceparent()));
        assert!(own.span != client.span);
    }
}
