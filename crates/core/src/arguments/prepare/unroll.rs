//! The compiler's steps along references, counted.

use serde_json::Value;

use super::{Places, children};

/// Open schemas along one way.
const UNROLLED_DEPTH_MAX: usize = 256;

/// Keywords that apply schemas to the value itself, not to a part of it.
const IN_PLACE: [&str; 8] = [
    "allOf",
    "anyOf",
    "dependencies",
    "dependentSchemas",
    "else",
    "if",
    "oneOf",
    "then",
];

/// Walks as the compiler does, which remembers nothing of the ways it has gone.
pub(super) struct Unroll<'a> {
    pub(super) places: &'a Places,
    pub(super) root: &'a Value,
    pub(super) left: usize,
    pub(super) within: Vec<String>,
}

impl Unroll<'_> {
    fn step(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left > 0
    }

    /// What `unevaluated*` gathers: everything that applies in place. It stops where it is already.
    pub(super) fn evaluated(&mut self, pointer: &str) -> bool {
        if !self.step() || self.within.len() > UNROLLED_DEPTH_MAX {
            return false;
        }
        if self.within.iter().any(|within| within == pointer) {
            return true;
        }
        self.within.push(pointer.to_owned());
        let enough = self.around(pointer, &IN_PLACE, |unroll, next| unroll.evaluated(next));
        self.within.pop();
        enough
    }

    /// What tells branches apart, in `allOf` and behind references. It stops at a depth.
    pub(super) fn pins(&mut self, pointer: &str, depth: usize) -> bool {
        if depth == 0 {
            return true;
        }
        self.step()
            && self.around(pointer, &["allOf"], |unroll, next| {
                unroll.pins(next, depth - 1)
            })
    }

    fn around(
        &mut self,
        pointer: &str,
        keywords: &[&str],
        mut visit: impl FnMut(&mut Self, &str) -> bool,
    ) -> bool {
        let Some(Value::Object(schema)) = self.root.pointer(pointer) else {
            return true;
        };
        let places = self.places;
        let targets = places.known.get(pointer).map_or(&[][..], Vec::as_slice);
        targets.iter().all(|target| visit(self, target))
            && children(schema, pointer)
                .filter(|(keyword, _)| keywords.contains(keyword))
                .all(|(_, child)| visit(self, &child))
    }
}
