//! Reports a request as spans of its trace: its own, and its backend's below it.

use std::time::Duration;

use sentinel_wire::{Method, Revision};

use super::{Entry, Facts};
use crate::trace::{Span, SpanKind, Spans};

impl Entry {
    /// Reports the spans, if the trace is sampled.
    pub(super) fn trace(
        &self,
        spans: &dyn Spans,
        facts: &Facts,
        (outcome, kind): (&'static str, &'static str),
        latency: Duration,
    ) {
        let Some((own, client)) = facts.traced.spans.filter(|(own, _)| own.is_sampled()) else {
            return;
        };
        let draft = self.trail.draft();
        let [method, operation, request_id] =
            [draft.method, draft.operation, draft.request_id].map(for_a_span);
        let revision = self.who.as_ref().and_then(|who| who.revision);
        let mut attributes = vec![("sentinel.outcome", outcome.to_owned())];
        let texts = [
            ("mcp.method.name", method),
            (
                "mcp.protocol.version",
                revision.map_or("", Revision::as_str),
            ),
            ("jsonrpc.request.id", request_id.trim_matches('"')),
            ("sentinel.surface", draft.surface),
            ("sentinel.backend", draft.backend),
            ("error.type", kind),
        ];
        let is_known = self.trail.about.get().is_some();
        let named = match facts.method {
            // Identified by the task handle, if that was valid.
            Some(Method::TasksGet | Method::TasksUpdate | Method::TasksCancel) if is_known => {
                "gen_ai.tool.name"
            }
            Some(Method::ToolsCall) => "gen_ai.tool.name",
            Some(Method::PromptsGet) => "gen_ai.prompt.name",
            _ => "mcp.resource.uri",
        };
        let texts = texts.into_iter().chain([(named, operation)]);
        attributes.extend(
            texts
                .filter(|(_, text)| !text.is_empty())
                .map(|(name, text)| (name, text.to_owned())),
        );
        // Names of resources come from callers and are too many for names of spans.
        let name = match facts.method {
            Some(Method::ToolsCall | Method::PromptsGet) if !draft.backend.is_empty() => {
                format!("{method} {operation}")
            }
            _ if method.is_empty() => "refused".to_owned(),
            _ => method.to_owned(),
        };
        let error = Some(kind).filter(|kind| !kind.is_empty());
        let end_ns = facts.at_ns + latency.as_nanos() as u64;
        if let Some(at) = self.trail.dispatched_at.get() {
            let before = at.saturating_duration_since(facts.began).as_nanos() as u64;
            spans.take(Span {
                context: client,
                parent: Some(own.span),
                kind: SpanKind::Client,
                name: name.clone(),
                start_ns: facts.at_ns + before,
                end_ns,
                attributes: attributes.clone(),
                error,
            });
        }
        spans.take(Span {
            context: own,
            parent: facts.traced.parent,
            kind: SpanKind::Server,
            name,
            start_ns: facts.at_ns,
            end_ns,
            attributes,
            error,
        });
    }
}

/// Bound on a caller's text in one span, since thousands of spans may wait for a collector.
const SPAN_TEXT_LEN_MAX: usize = 512;

fn for_a_span(text: &str) -> &str {
    &text[..text.floor_char_boundary(SPAN_TEXT_LEN_MAX)]
}
