//! Request bodies: JSON as it came, forms, files, texts, bytes.

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use sentinel_wire::Payload;
use sentinel_wire::json::{self, Kind, Rules};

use super::media::is_json;
use super::operation::{Body, Field, Form};
use super::request::Unsendable;
use super::style::{Escape, How, Shape, Style};

/// Padding is left out by many.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The media type of a body, and its bytes.
pub(super) fn encode(body: &Body, raw: &[u8]) -> Result<(String, Bytes), Unsendable> {
    let media_type = body.media_type.clone();
    match &body.form {
        Form::Json => Ok((media_type, Bytes::copy_from_slice(raw))),
        Form::Text => Ok((media_type, Shape::of(raw).text().into())),
        Form::Bytes => {
            let file = File::of(raw)?;
            let media_type = file.content_type.unwrap_or(media_type);
            Ok((media_type, file.bytes.into()))
        }
        Form::Urlencoded(fields) => {
            let pairs = members(raw)?.into_iter().flat_map(|(name, value)| {
                pairs(
                    &name,
                    &value,
                    fields.iter().find(|field| field.name == name),
                )
            });
            let text: Vec<String> = pairs.collect();
            Ok((media_type, text.join("&").into()))
        }
        Form::Multipart(fields) => multipart(fields, raw),
    }
}

/// The members of an object, in order.
fn members(raw: &[u8]) -> Result<Vec<(String, Bytes)>, Unsendable> {
    let object = json::Object::parse(raw, Rules::backend());
    let object = object.map_err(|_| Unsendable("the body must be an object".to_owned()))?;
    let member = |m: &json::Member| {
        (
            m.key.decode(raw).into_owned(),
            Bytes::copy_from_slice(m.value.of(raw)),
        )
    };
    Ok(object.members.iter().map(member).collect())
}

/// One member of a form. Without words of the description lists repeat their name, and objects are JSON.
fn pairs(name: &str, raw: &[u8], field: Option<&Field>) -> Vec<String> {
    let shape = Shape::of(raw);
    let (style, explode, reserved) = match field {
        Some(Field {
            style: Some(style), ..
        }) => *style,
        Some(Field {
            content_type: Some(kind),
            ..
        }) if is_json(kind) => {
            let text = Shape::Scalar(String::from_utf8_lossy(raw).into_owned());
            return form_how(name, Style::Form, true).in_query(&text);
        }
        _ => (Style::Form, true, false),
    };
    let styled = field.is_some_and(|field| field.style.is_some());
    let how = How {
        escape: if reserved {
            Escape::Reserved
        } else {
            Escape::Form
        },
        ..form_how(name, style, explode)
    };
    match &shape {
        Shape::Map(_) if !styled => {
            how.in_query(&Shape::Scalar(String::from_utf8_lossy(raw).into_owned()))
        }
        _ => how.in_query(&shape),
    }
}

fn form_how(name: &str, style: Style, explode: bool) -> How<'_> {
    How {
        name,
        style,
        explode,
        escape: Escape::Form,
    }
}

/// A file as a caller gives it.
struct File {
    bytes: Vec<u8>,
    filename: Option<String>,
    content_type: Option<String>,
}

impl File {
    /// An object with `data` or `text`; a bare string is base64.
    fn of(raw: &[u8]) -> Result<Self, Unsendable> {
        let wrong = |why: &str| Unsendable(format!("a file {why}"));
        let decode = |text: &str| {
            let bare: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
            LENIENT
                .decode(bare)
                .map_err(|error| wrong(&format!("must be base64: {error}")))
        };
        if let Some(text) = json::decode_string(raw) {
            return Ok(Self {
                bytes: decode(&text)?,
                filename: None,
                content_type: None,
            });
        }
        let object = Payload::parse(Bytes::copy_from_slice(raw), Rules::backend())
            .map_err(|_| wrong("must be an object with `data` or `text`"))?;
        let member = |name: &str| object.string(name).map(|text| text.into_owned());
        let bytes = match (member("data"), member("text")) {
            (Some(data), None) => decode(&data)?,
            (None, Some(text)) => text.into_bytes(),
            _ => return Err(wrong("must have one of `data` and `text`")),
        };
        let content_type = member("content_type");
        let good = |kind: &String| {
            kind.contains('/') && kind.bytes().all(|b| b.is_ascii_graphic() || b == b' ')
        };
        if content_type.as_ref().is_some_and(|kind| !good(kind)) {
            return Err(wrong("has a `content_type` that is none"));
        }
        Ok(Self {
            bytes,
            filename: member("filename"),
            content_type,
        })
    }
}

fn multipart(fields: &[Field], raw: &[u8]) -> Result<(String, Bytes), Unsendable> {
    let boundary = format!("sentinel-{}", sentinel_core::random::uuid());
    let mut out = Vec::new();
    for (name, value) in members(raw)? {
        let field = fields.iter().find(|field| field.name == name);
        let list = Kind::of(&value) == Some(Kind::Array);
        // Each item of a list is a part of the same name.
        let parts: Vec<Bytes> = match list {
            true => {
                let spans = json::elements(&value, Rules::backend()).unwrap_or_default();
                spans
                    .iter()
                    .map(|span| Bytes::copy_from_slice(span.of(&value)))
                    .collect()
            }
            false => vec![value],
        };
        for part in parts {
            if Kind::of(&part) != Some(Kind::Null) {
                write_part(&boundary, &name, field, &part, &mut out)?;
            }
        }
    }
    out.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    Ok((
        format!("multipart/form-data; boundary={boundary}"),
        out.into(),
    ))
}

fn write_part(
    boundary: &str,
    name: &str,
    field: Option<&Field>,
    raw: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Unsendable> {
    let declared = field.and_then(|field| field.content_type.clone());
    let nested = matches!(Kind::of(raw), Some(Kind::Object | Kind::Array));
    let is_file = field.is_some_and(|field| field.is_file);
    let (bytes, filename, content_type) = if is_file {
        let file = File::of(raw)?;
        let kind = file.content_type.or(declared);
        let kind = kind.unwrap_or_else(|| "application/octet-stream".to_owned());
        // A part without a name of a file is read as a plain value.
        (
            file.bytes,
            Some(file.filename.unwrap_or_else(|| name.to_owned())),
            Some(kind),
        )
    } else if nested || declared.as_deref().is_some_and(is_json) {
        let kind = declared.unwrap_or_else(|| "application/json".to_owned());
        (raw.to_vec(), None, Some(kind))
    } else {
        (Shape::of(raw).text().into_bytes(), None, declared)
    };
    let mut head = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"{}\"",
        quoted(name)
    );
    if let Some(filename) = filename {
        head.push_str(&format!("; filename=\"{}\"", quoted(&filename)));
    }
    head.push_str("\r\n");
    if let Some(kind) = content_type.filter(|kind| kind.bytes().all(|b| (b' '..=b'~').contains(&b)))
    {
        head.push_str(&format!("Content-Type: {kind}\r\n"));
    }
    head.push_str("\r\n");
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(&bytes);
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// As HTML has it: what could end the name is percent-encoded.
fn quoted(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '"' => out.push_str("%22"),
            c if c.is_control() => out.push_str(&format!("%{:02X}", u32::from(c).min(0xff))),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests;
