//! The pages at `/problems`: what each kind of fault means and what to do, from the tables of `rescue`. The `type` of a
//! problem document leads here.
//!
//! A browser gets HTML, a program that asks for JSON gets that, and others get Markdown.

use std::fmt::Write;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::FutureExt;
use http::header::{CACHE_CONTROL, HeaderValue, VARY};
use hyper::body::Incoming;
use ring::digest::{SHA256, digest};
use sentinel_core::{Fault, Kind};
use serde_json::{Value, json};

use super::assets::secure;
use super::exchange::Exchange;
use super::rest::Content;
use super::rest::accept::{Accept, not_acceptable};
use super::routes::Handled;
use crate::rescue;

const MARKDOWN: &str = "text/markdown; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";

const STYLE: &str = "body{max-width:44rem;margin:2rem auto;padding:0 1rem;font-family:system-ui,sans-serif;\
    line-height:1.5;color:#20262d;background:#fff}a{color:#0b57a4}code{background:#eef1f4;padding:.1em .3em}\
    dt{font-weight:600;margin-top:.75rem}dd{margin:0}";

/// The one style sheet of the pages is in them, and allowed by its hash.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let hash = STANDARD.encode(digest(&SHA256, STYLE.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).expect("base64")
});

/// `GET /problems`.
pub(super) fn all<'a>(exchange: &'a Exchange<'a>, _: Incoming) -> Handled<'a> {
    respond(exchange, None).boxed()
}

/// `GET /problems/{code}`.
pub(super) fn one<'a>(exchange: &'a Exchange<'a>, _: Incoming) -> Handled<'a> {
    async move {
        let kind = Kind::ALL.iter().find(|kind| kind.as_str() == exchange.rest);
        let kind = kind
            .ok_or_else(|| Fault::new(Kind::NotFound, "no problem has this code; see /problems"))?;
        respond(exchange, Some(*kind)).await
    }
    .boxed()
}

async fn respond(
    exchange: &Exchange<'_>,
    kind: Option<Kind>,
) -> Result<http::Response<super::body::Body>, Fault> {
    let accept = Accept::of(exchange.headers());
    let offered = [MARKDOWN, HTML, JSON, "text/plain"];
    let media_type = accept
        .best(&offered)
        .ok_or_else(|| not_acceptable("HTML, Markdown or JSON"))?;
    let text = match (media_type, kind) {
        (HTML, Some(kind)) => html_of(kind),
        (HTML, None) => html_of_all(),
        (JSON, Some(kind)) => json_of(kind).to_string(),
        (JSON, None) => {
            json!({ "problems": kinds().map(json_of).collect::<Vec<Value>>() }).to_string()
        }
        (_, Some(kind)) => markdown_of(kind, "#"),
        (_, None) => {
            let all: Vec<String> = kinds().map(|kind| markdown_of(kind, "##")).collect();
            format!("# Problems\n\n{}", all.join("\n"))
        }
    };
    let content = Content {
        media_type: HeaderValue::from_static(media_type),
        bytes: text.into(),
    };
    let mut response = content.respond_to(exchange.headers());
    let headers = response.headers_mut();
    secure(headers, POLICY.clone());
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.insert(
        CACHE_CONTROL,
        HeaderValue::from_static("public, max-age=3600"),
    );
    Ok(response)
}

/// Every kind; of those with one code the first.
fn kinds() -> impl Iterator<Item = Kind> {
    let first = |kind: &&Kind| {
        Kind::ALL
            .iter()
            .find(|other| other.as_str() == kind.as_str())
            == Some(*kind)
    };
    Kind::ALL.iter().filter(first).copied()
}

/// The facts of a kind, by name.
fn facts(kind: Kind) -> [(&'static str, String); 4] {
    let row = rescue::row(kind);
    let again = match rescue::is_retryable(kind) {
        true => "can succeed: later, with the request corrected, or with what the answer asks for",
        false => "fails in the same way until something else changes",
    };
    [
        ("HTTP status", row.status().to_string()),
        ("JSON-RPC code", codes(kind)),
        ("What to do", rescue::hint(kind).to_owned()),
        ("Another attempt", again.to_owned()),
    ]
}

/// The code on the RPC surface, and those of MCP where they are others.
fn codes(kind: Kind) -> String {
    let (row, rpc) = (rescue::row(kind), rescue::rpc_code(kind));
    let legacy = match row.legacy == rpc {
        true => String::new(),
        false => format!("in MCP up to 2025-11-25: {}, ", row.legacy),
    };
    format!("{rpc} ({legacy}in MCP 2026-07-28: {})", row.modern)
}

fn markdown_of(kind: Kind, heading: &str) -> String {
    let advice = rescue::advice(kind);
    let mut out = format!(
        "{heading} `{}`: {}\n\n{}\n\n",
        kind.as_str(),
        advice.title,
        advice.meaning
    );
    for (name, text) in facts(kind) {
        let _ = writeln!(out, "- {name}: {text}");
    }
    out
}

fn json_of(kind: Kind) -> Value {
    let (advice, row) = (rescue::advice(kind), rescue::row(kind));
    json!({
        "type": format!("/problems/{}", kind.as_str()),
        "code": kind.as_str(),
        "title": advice.title,
        "meaning": advice.meaning,
        "hint": advice.hint,
        "retryable": advice.is_retryable,
        "status": row.status().as_u16(),
        "rpcCode": rescue::rpc_code(kind),
        "mcpCode": row.modern,
    })
}

fn html_of(kind: Kind) -> String {
    let advice = rescue::advice(kind);
    let mut body = format!(
        "<p><a href=\"/problems\">Problems</a></p><h1>{}</h1><p><code>{}</code></p><p>{}</p><dl>",
        escaped(advice.title),
        kind.as_str(),
        escaped(advice.meaning)
    );
    for (name, text) in facts(kind) {
        let _ = write!(body, "<dt>{name}</dt><dd>{}</dd>", escaped(&text));
    }
    page(advice.title, &format!("{body}</dl>"))
}

fn html_of_all() -> String {
    let mut body = "<h1>Problems</h1><dl>".to_owned();
    for kind in kinds() {
        let (code, advice) = (kind.as_str(), rescue::advice(kind));
        let (title, meaning) = (escaped(advice.title), escaped(advice.meaning));
        let _ = write!(
            body,
            "<dt><a href=\"/problems/{code}\">{title}</a> <code>{code}</code></dt><dd>{meaning}</dd>"
        );
    }
    page("Problems", &format!("{body}</dl>"))
}

fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{}: Sentinel Gateway</title><style>{STYLE}</style></head><body>{body}</body></html>",
        escaped(title)
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
