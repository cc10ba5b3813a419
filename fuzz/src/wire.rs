//! The readers of `sentinel-wire`: messages, streams, lines, headers, templates, answers of servers.

use bytes::{Bytes, BytesMut};
use sentinel_wire::envelope::{Payload, write_request};
use sentinel_wire::header::{self, params};
use sentinel_wire::http1::{Head, Piece, Problem};
use sentinel_wire::json::{Kind, Rules, Scanner};
use sentinel_wire::lines::{LineDecoder, push_line};
use sentinel_wire::sse::{self, Decoder};
use sentinel_wire::template::{Template, URI_LEN_MAX};
use sentinel_wire::translate::{self, About, Outgoing};
use sentinel_wire::{
    Incoming, Message, Method, Outcome, Params, Passing, Request, Response, Revision,
};
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// The first byte chooses bound and chunk size, the rest is the stream.
fn knobs(data: &[u8]) -> Option<(usize, usize, &[u8])> {
    let (&knob, stream) = data.split_first()?;
    Some((usize::from(knob) * 2, 1 + usize::from(knob % 7), stream))
}

/// Chunks do not matter, events keep their bound, and what was read can be written and read again.
pub(crate) fn sse(data: &[u8]) {
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

/// Chunks do not matter to what is read of a server's answer, and what follows it is left alone.
pub(crate) fn http1(data: &[u8]) {
    let Some((max, size, stream)) = knobs(data) else {
        return;
    };
    let read = |chunks: &mut dyn Iterator<Item = &[u8]>| {
        let mut buffer = BytesMut::new();
        let (head, mut body) = loop {
            if let Some(taken) = Head::take(&mut buffer, max)? {
                break taken;
            }
            buffer.extend_from_slice(chunks.next().ok_or(Problem::CutShort)?);
        };
        let mut whole = Vec::new();
        loop {
            match body.next(&mut buffer)? {
                Piece::Data(data) => whole.extend_from_slice(&data),
                Piece::End => break,
                Piece::Missing => match chunks.next() {
                    Some(chunk) => buffer.extend_from_slice(chunk),
                    None => body.close()?,
                },
            }
        }
        chunks.for_each(|chunk| buffer.extend_from_slice(chunk));
        Ok::<_, Problem>((head.status, head.keeps_alive, whole, buffer))
    };
    let whole = read(&mut std::iter::once(stream));
    assert_eq!(read(&mut stream.chunks(size)).ok(), whole.ok());
}

/// Chunks do not matter, lines keep their bound, and what was read can be written and read again.
pub(crate) fn lines(data: &[u8]) {
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
pub(crate) fn header(data: &[u8]) {
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
pub(crate) fn template(data: &[u8]) {
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

/// The depth allowed to callers here; small, so that the fuzzer meets it.
const DEPTH_MAX: u32 = 16;

/// The scanner takes what serde_json takes, and what is read can be written, in any revision.
pub(crate) fn envelope(data: &[u8]) {
    assert_eq!(is_json(data), is_json_to_serde(data));
    let body = Bytes::copy_from_slice(data);
    if let Ok(incoming) = Incoming::parse(body.clone(), Rules::caller(DEPTH_MAX)) {
        assert!(is_json_to_serde(data));
        let messages = match incoming {
            Incoming::One(message) => vec![Ok(message)],
            Incoming::Batch(messages) => messages,
        };
        for message in messages.into_iter().flatten() {
            if let Message::Request(request) = message {
                check_request(&request);
            }
        }
    }
    if let Ok(Message::Response(response)) = Message::parse(body, Rules::backend()) {
        check_response(&response);
    }
}

/// Chunks do not matter to a response that passes, and what passes is what the whole text says.
pub(crate) fn passing(data: &[u8]) {
    let Some((_, size, text)) = knobs(data) else {
        return;
    };
    let read = |chunks: &mut dyn Iterator<Item = &[u8]>| {
        let mut passing = Passing::default();
        let mut result = Vec::new();
        for chunk in chunks {
            let part = passing.take(chunk).ok()?;
            result.extend_from_slice(&chunk[part]);
        }
        passing.end().ok()?;
        Some((result, passing.id(), passing.is_error()))
    };
    let whole = match Message::parse(Bytes::copy_from_slice(text), Rules::backend()) {
        Ok(Message::Response(Response {
            id,
            outcome: Outcome::Result(result),
        })) if Kind::of(result.as_bytes()) == Some(Kind::Object) => Some((
            result.as_bytes().to_vec(),
            id.and_then(|id| id.as_u64()),
            result.get("isError") == Some(b"true"),
        )),
        _ => None,
    };
    assert_eq!(read(&mut std::iter::once(text)), whole);
    assert_eq!(read(&mut text.chunks(size)), whole);
}

fn check_request(request: &Request) {
    let mut out = Vec::new();
    write_request(
        request.id.as_bytes(),
        request.method.as_str(),
        request.params.as_bytes(),
        &mut out,
    );
    let again = Message::parse(Bytes::from(out), Rules::caller(DEPTH_MAX + 1));
    let Ok(Message::Request(again)) = again else {
        panic!("a request was written that is none: {again:?}");
    };
    assert_eq!(again.id, request.id);
    assert_eq!(again.method, request.method);
    assert_eq!(again.params.as_bytes(), request.params.as_bytes());
    for (from, to) in pairs() {
        let mut out = Vec::new();
        let outgoing = Outgoing {
            method: &request.method,
            from,
            to,
            own_name: Some("own"),
            progress_token: Some(b"7"),
            task: None,
            about: About {
                capabilities: b"{}",
                client_info: None,
                log_level: None,
                traceparent: None,
            },
        };
        outgoing.write(&request.params, &mut out);
        // The rules of callers again: a rewrite must not leave a key behind that it replaced.
        let written = Params::parse(Bytes::from(out), Rules::caller(DEPTH_MAX + 2));
        assert!(written.is_ok(), "{from:?} to {to:?}: {written:?}");
    }
}

fn check_response(response: &Response) {
    for (from, to) in pairs() {
        match &response.outcome {
            Outcome::Error(error) => assert!(is_json(&translate::error(error, to))),
            Outcome::Result(result) => {
                for method in [Method::ToolsCall, Method::PromptsGet, Method::ToolsList] {
                    let translated = translate::result(&method, result, from, to);
                    assert!(is_json(&translated));
                    let same = *translated == *result.as_bytes();
                    assert!(same || !translate::is_verbatim(&method, from, to));
                }
                check_tool(result, from, to);
            }
        }
    }
}

fn check_tool(tool: &Payload, from: Revision, to: Revision) {
    assert!(is_json(&translate::tool(&tool.to_bytes(), from, to)));
}

fn pairs() -> impl Iterator<Item = (Revision, Revision)> {
    Revision::ALL
        .into_iter()
        .flat_map(|from| Revision::ALL.into_iter().map(move |to| (from, to)))
}

fn is_json(text: &[u8]) -> bool {
    let scan = || {
        let mut scanner = Scanner::new(text, Rules::backend())?;
        scanner.value()?;
        scanner.end()
    };
    scan().is_ok()
}

/// serde_json skips strings without looking at their UTF-8.
fn is_json_to_serde(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok() && serde_json::from_slice::<IgnoredAny>(text).is_ok()
}
