//! Canonical form of a value: no white space, keys sorted, strings escaped uniformly. Numbers keep their spelling,
//! since some readers tell `1` from `1.0`.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::{decode_string, encode_string};

/// The value must have been scanned, which bounds its depth; other text is returned unchanged.
pub fn canonical(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    write(text.trim_ascii(), &mut out);
    out
}

fn write(text: &[u8], out: &mut Vec<u8>) {
    match text.first() {
        Some(b'{') => {
            let Ok(members) = serde_json::from_slice::<BTreeMap<String, &RawValue>>(text) else {
                return out.extend_from_slice(text);
            };
            out.push(b'{');
            for (i, (key, value)) in members.iter().enumerate() {
                separate(i, out);
                encode_string(key, out);
                out.push(b':');
                write(value.get().as_bytes(), out);
            }
            out.push(b'}');
        }
        Some(b'[') => {
            let Ok(items) = serde_json::from_slice::<Vec<&RawValue>>(text) else {
                return out.extend_from_slice(text);
            };
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                separate(i, out);
                write(item.get().as_bytes(), out);
            }
            out.push(b']');
        }
        Some(b'"') => match decode_string(text) {
            Some(decoded) => encode_string(&decoded, out),
            None => out.extend_from_slice(text),
        },
        _ => out.extend_from_slice(text),
    }
}

fn separate(index: usize, out: &mut Vec<u8>) {
    if index > 0 {
        out.push(b',');
    }
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn order_space_and_escapes_do_not_matter_and_numbers_do() {
        let one = canonical(br#" {"b": [1, {"y":2,"x":"\u0041"}], "a": null} "#);
        assert_eq!(one, br#"{"a":null,"b":[1,{"x":"A","y":2}]}"#);
        assert_eq!(one, canonical(&one));
        assert_ne!(canonical(b"1"), canonical(b"1.0"));
        assert_ne!(canonical(br#"["a","b"]"#), canonical(br#"["b","a"]"#));
        assert_ne!(canonical(br#"{"a":"1"}"#), canonical(br#"{"a":1}"#));
    }
}
