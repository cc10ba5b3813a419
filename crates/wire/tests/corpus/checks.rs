//! What must hold for any input: one function per fuzz target (P-R19).
//!
//! The targets under `fuzz/` and the replay of the seeds in `tests/corpus.rs` both run these, so a
//! finding becomes a regression test by copying its file into the seeds.

use bytes::Bytes;
use sentinel_wire::header::{self, params};
use sentinel_wire::lines::{LineDecoder, push_line};
use sentinel_wire::sse::{self, Decoder};
use sentinel_wire::template::{Template, URI_LEN_MAX};
use serde_json::value::RawValue;

/// The first byte chooses bound and chunk size, the rest is the stream.
fn knobs(data: &[u8]) -> Option<(usize, usize, &[u8])> {
    let (&knob, stream) = data.split_first()?;
    Some((usize::from(knob) * 2, 1 + usize::from(knob % 7), stream))
}

/// Chunks do not matter, events keep their bound, and what was read can be written and read again.
pub fn sse(data: &[u8]) {
    let Some((max, size, stream)) = knobs(data) else {
        return;
    };
    let read = |chunks: &mut dyn Iterator<Item = &[u8]>| {
        let mut decoder = Decoder::new(max);
        let mut events = Vec::new();
        for chunk in chunks {
            let mut chunk = Bytes::copy_from_slice(chunk);
            while let Some(event) = decoder.next(&mut chunk) {
                events.push(event);
            }
        }
        events
    };
    let whole = read(&mut std::iter::once(stream));
    assert_eq!(read(&mut stream.chunks(size)), whole);
    for event in whole.into_iter().flatten() {
        assert!(event.data.len() <= max);
        let mut out = Vec::new();
        sse::push_message(&mut out, &event.data);
        let again = Decoder::new(usize::MAX).next(&mut Bytes::from(out));
        let again = again.expect("it is complete").expect("it has no bound");
        assert_eq!(again.data, sse::one_line(event.data));
    }
}

/// Chunks do not matter, lines keep their bound, and what was read can be written and read again.
pub fn lines(data: &[u8]) {
    let Some((max, size, stream)) = knobs(data) else {
        return;
    };
    let read = |chunks: &mut dyn Iterator<Item = &[u8]>| {
        let mut decoder = LineDecoder::new(max);
        let mut lines = Vec::new();
        for mut chunk in chunks {
            while let Some(line) = decoder.next(&mut chunk) {
                lines.push(line);
            }
        }
        lines.extend(decoder.finish());
        lines
    };
    let whole = read(&mut std::iter::once(stream));
    assert_eq!(read(&mut stream.chunks(size)), whole);
    for line in whole {
        match line {
            Err(error) => assert!(error.len > max as u64),
            Ok(line) => {
                assert!(line.len() <= max && !line.contains(&b'\n'));
                let mut out = Vec::new();
                push_line(&mut out, &line);
                let again = LineDecoder::new(usize::MAX).next(&mut &out[..]);
                assert_eq!(again, Some(Ok(sse::one_line(line))));
            }
        }
    }
}

/// A header value, and behind a NUL a schema, and behind another NUL arguments.
pub fn header(data: &[u8]) {
    let mut parts = data.splitn(3, |b| *b == 0);
    let value = parts.next().unwrap_or_default();
    if let Ok(text) = header::decode(value) {
        assert_eq!(
            header::decode(header::encode(&text).as_bytes()),
            Ok(text.clone())
        );
        if let Some(number) = header::parse_integer(&text) {
            let scalar = header::Scalar::Integer(number);
            assert_eq!(scalar.agrees_with(scalar.encode().as_bytes()), Ok(true));
            assert_eq!(scalar.agrees_with(value), Ok(true));
        }
    }
    let Ok(found) = header::annotations(parts.next().unwrap_or_default()) else {
        return;
    };
    let Ok(arguments) = serde_json::from_slice::<&RawValue>(parts.next().unwrap_or_default())
    else {
        return;
    };
    if let Ok(sent) = params::headers(&found, Some(arguments)) {
        let received = sent.iter().map(|(name, value)| (*name, value.as_bytes()));
        assert_eq!(params::check(&found, Some(arguments), received), Ok(()));
    }
}

/// A template, and behind a line end a URI. A template matches what it expands to.
pub fn template(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let (text, uri) = text.split_once('\n').unwrap_or((text, ""));
    let Ok(template) = Template::parse(text) else {
        return;
    };
    template.matches(uri);
    let expansion = expand(text);
    assert!(template.literal_chars() <= expansion.chars().count());
    if expansion.len() <= URI_LEN_MAX {
        assert!(template.matches(&expansion), "{text} and {expansion}");
    }
}

/// Gives every variable the value `v`, and leaves those undefined that an operator introduces.
fn expand(template: &str) -> String {
    let mut out = String::new();
    let mut rest = template;
    while let Some((literal, tail)) = rest.split_once('{') {
        let (expression, tail) = tail.split_once('}').expect("the template was parsed");
        out.push_str(literal);
        if !expression.starts_with(['/', '?', '&', '#', '.', ';']) {
            out.push('v');
        }
        rest = tail;
    }
    out + rest
}
