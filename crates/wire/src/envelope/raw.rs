//! Objects with the text that they were read from.

use crate::json::{self, Key, Member, Object};

/// An object with the text that contains it, for copies with changes.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a> {
    pub text: &'a [u8],
    pub object: &'a Object,
}

impl<'a> Raw<'a> {
    pub fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.object
            .get(self.text, name)
            .map(|span| span.of(self.text))
    }

    /// Copies the object to `out`. A member named in `edits` is replaced, or removed for `None`; a replacement
    /// without a member is added at the end. All other members stay as they are.
    pub fn rewrite(&self, edits: &[(&str, Option<&[u8]>)], out: &mut Vec<u8>) {
        let mut first = true;
        let mut comma = |out: &mut Vec<u8>| {
            out.push(if first { b'{' } else { b',' });
            first = false;
        };
        let mut used = [false; 16];
        debug_assert!(edits.len() <= used.len());
        for Member { key, value } in &self.object.members {
            match edits.iter().position(|(name, _)| key.is(self.text, name)) {
                Some(i) => {
                    if let (false, Some(new)) = (used[i], edits[i].1) {
                        comma(out);
                        copy_key(self.text, *key, out);
                        out.extend_from_slice(new);
                    }
                    used[i] = true;
                }
                None => {
                    comma(out);
                    copy_key(self.text, *key, out);
                    out.extend_from_slice(value.of(self.text));
                }
            }
        }
        for (i, (name, value)) in edits.iter().enumerate() {
            if let (false, Some(new)) = (used[i], value) {
                comma(out);
                json::encode_string(name, out);
                out.push(b':');
                out.extend_from_slice(new);
            }
        }
        if first {
            out.push(b'{');
        }
        out.push(b'}');
    }
}

fn copy_key(text: &[u8], key: Key, out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend_from_slice(key.span.of(text));
    out.extend_from_slice(b"\":");
}
