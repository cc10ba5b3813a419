//! Reading of one message: its members, then which kind of message they make.

use bytes::Bytes;

use super::{
    Id, Message, Notification, Outcome, Params, Payload, Refusal, Request, Response, invalid,
};
use crate::json::{self, Key, Kind, Member, Object, Rules, Scanner, Span};
use crate::method::Method;

/// The members of an envelope before validation.
#[derive(Default)]
struct Parts {
    version: Option<Span>,
    id: Option<Span>,
    method: Option<Span>,
    params: Option<(Object, Option<Object>)>,
    bad_params: bool,
    result: Option<Object>,
    error: Option<Object>,
}

impl Message {
    pub fn parse(body: Bytes, rules: Rules) -> Result<Self, Refusal> {
        let mut scanner = Scanner::new(&body, rules)?;
        let mut parts = Parts::default();
        if scanner.peek() != Some(Kind::Object) {
            scanner.value()?;
            scanner.end()?;
            return Err(invalid("a message must be a JSON object"));
        }
        let mut repeated = None;
        scanner.object(|s, key| parts.take(s, key, &body, &mut repeated))?;
        scanner.end()?;
        if let Some(name) = repeated {
            return Err(invalid(&format!("the envelope names {name:?} twice")));
        }
        parts.judge(body)
    }
}

impl Parts {
    fn take(
        &mut self,
        s: &mut Scanner<'_>,
        key: Key,
        body: &[u8],
        repeated: &mut Option<&'static str>,
    ) -> Result<(), json::Error> {
        let mut once = |slot_taken: bool, name: &'static str| {
            if slot_taken {
                *repeated = Some(name);
            }
        };
        match &*key.name(body) {
            b"jsonrpc" => {
                once(self.version.is_some(), "jsonrpc");
                self.version = Some(s.value()?);
            }
            b"id" => {
                once(self.id.is_some(), "id");
                self.id = Some(s.value()?);
            }
            b"method" => {
                once(self.method.is_some(), "method");
                self.method = Some(s.value()?);
            }
            b"params" => {
                once(self.params.is_some(), "params");
                if s.peek() == Some(Kind::Object) {
                    self.params = Some(scan_params(s, body)?);
                } else {
                    s.value()?;
                    self.bad_params = true;
                }
            }
            b"result" => {
                once(self.result.is_some(), "result");
                self.result = Some(scan_payload(s)?);
            }
            b"error" => {
                once(self.error.is_some(), "error");
                self.error = Some(scan_payload(s)?);
            }
            _ => {
                s.value()?;
            }
        }
        Ok(())
    }

    fn judge(self, body: Bytes) -> Result<Message, Refusal> {
        let id_raw = self.id.map(|span| body.slice(span.range()));
        let id = id_raw.clone().and_then(Id::from_raw);
        let refuse = |why: &str| {
            Err(Refusal {
                id: id.clone(),
                ..invalid(why)
            })
        };
        if self.version.map(|span| span.of(&body)) != Some(br#""2.0""#) {
            return refuse(r#"jsonrpc must be "2.0""#);
        }
        if let Some(span) = self.method {
            let Some(name) = json::decode_string(span.of(&body)) else {
                return refuse("method must be a string");
            };
            if self.result.is_some() || self.error.is_some() {
                return refuse("a message is either a request or a response");
            }
            if self.bad_params {
                return refuse("params must be an object");
            }
            let method = Method::parse(&name);
            let (object, meta) = self.params.unwrap_or_default();
            let params = Params::of(body, object, meta);
            return match (id_raw, id) {
                (None, _) => Ok(Message::Notification(Notification { method, params })),
                (Some(_), Some(id)) => Ok(Message::Request(Request { id, method, params })),
                (Some(_), None) => Err(invalid("id must be a string or a number")),
            };
        }
        let outcome = match (self.result, self.error) {
            (Some(object), None) => Outcome::Result(Payload {
                body: body.clone(),
                object,
            }),
            (None, Some(object)) => Outcome::Error(Payload {
                body: body.clone(),
                object,
            }),
            (Some(_), Some(_)) => return refuse("a response has either a result or an error"),
            (None, None) => return refuse("neither method, result nor error"),
        };
        Ok(Message::Response(Response { id, outcome }))
    }
}

pub(super) fn scan_params(
    s: &mut Scanner<'_>,
    body: &[u8],
) -> Result<(Object, Option<Object>), json::Error> {
    let mut members = Vec::with_capacity(4);
    let mut meta = None;
    let span = s.object(|s, key| {
        let value = if key.is(body, "_meta") && s.peek() == Some(Kind::Object) {
            let object = scan_object(s)?;
            let span = object.span;
            meta = Some(object);
            span
        } else {
            s.value()?
        };
        members.push(Member { key, value });
        Ok(())
    })?;
    Ok((Object { span, members }, meta))
}

fn scan_object(s: &mut Scanner<'_>) -> Result<Object, json::Error> {
    let mut members = Vec::with_capacity(4);
    let span = s.object(|s, key| {
        members.push(Member {
            key,
            value: s.value()?,
        });
        Ok(())
    })?;
    Ok(Object { span, members })
}

fn scan_payload(s: &mut Scanner<'_>) -> Result<Object, json::Error> {
    if s.peek() == Some(Kind::Object) {
        scan_object(s)
    } else {
        Ok(Object {
            span: s.value()?,
            members: Vec::new(),
        })
    }
}
