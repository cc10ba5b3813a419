//! Checks a unified diff without applying it, and lists the files it touches.
//!
//! Well formed means: at least one file, each with its headers, and every hunk exactly as long as
//! it says. Text before the first file (a commit message) passes. Paths must stay inside the tree
//! that the diff is for: not absolute, no `..`, whatever system it will be applied on.
//!
//! Not here: whether the diff fits any file; the proposer applies it and finds out.

use crate::store::{AffectedFile, FileChange};
use sentinel_core::builtin::Refused;

/// Larger diffs are no reviews, and a request body ends at 4 MiB.
pub const BYTES_MAX: usize = 3 << 20;
/// More files than this make every listing of the review unreadable.
pub const FILES_MAX: usize = 10_000;

/// The files that a valid diff touches.
pub fn check(diff: &str) -> Result<Vec<AffectedFile>, Refused> {
    if diff.len() > BYTES_MAX {
        let message = format!(
            "the diff has {} bytes; at most {BYTES_MAX} are taken: split the change",
            diff.len()
        );
        return Err(Refused::new("diff_too_large", message));
    }
    if diff.contains('\0') {
        return Err(bad(
            0,
            "it contains NUL; `git diff --binary` writes such files as text",
        ));
    }
    let mut reader = Reader {
        lines: diff.lines().enumerate().peekable(),
        files: Vec::new(),
    };
    reader.read()?;
    if reader.files.is_empty() {
        return Err(bad(
            0,
            "there is no file in it: expected `--- a/…` and `+++ b/…` headers",
        ));
    }
    Ok(reader.files)
}

fn bad(line: usize, what: &str) -> Refused {
    let place = if line == 0 {
        String::new()
    } else {
        format!("line {line}: ")
    };
    Refused::new("invalid_diff", format!("not a unified diff: {place}{what}"))
}

struct Reader<'a> {
    lines: std::iter::Peekable<std::iter::Enumerate<std::str::Lines<'a>>>,
    files: Vec<AffectedFile>,
}

/// What the extended headers of git say before the hunks.
#[derive(Default)]
struct Head {
    /// Line of `diff --git`, for complaints.
    line: usize,
    old: Option<String>,
    new: Option<String>,
    created: bool,
    deleted: bool,
    renamed: bool,
    /// A change without hunks: mode, rename or binary.
    whole: bool,
}

impl Reader<'_> {
    fn read(&mut self) -> Result<(), Refused> {
        while let Some((at, line)) = self.lines.next() {
            let number = at + 1;
            if let Some(names) = line.strip_prefix("diff --git ") {
                self.git(number, names)?;
            } else if let Some(old) = line.strip_prefix("--- ")
                && self
                    .lines
                    .peek()
                    .is_some_and(|(_, next)| next.starts_with("+++ "))
            {
                let head = Head {
                    line: number,
                    ..Head::default()
                };
                self.file(head, old)?;
            } else if line.starts_with("@@") {
                return Err(bad(number, "a hunk without the headers of its file"));
            } else if line.starts_with("diff --cc ") || line.starts_with("diff --combined ") {
                return Err(bad(
                    number,
                    "a combined diff of a merge; make it against one parent",
                ));
            }
            if self.files.len() > FILES_MAX {
                return Err(bad(number, "too many files"));
            }
        }
        Ok(())
    }

    /// The extended headers of git, up to the hunks or to the next file.
    fn git(&mut self, number: usize, names: &str) -> Result<(), Refused> {
        let mut head = Head {
            line: number,
            ..Head::default()
        };
        while let Some((at, line)) = self.lines.peek().copied() {
            let number = at + 1;
            let take = |name: &str| line.strip_prefix(name);
            if let Some(name) = take("rename from ").or_else(|| take("copy from ")) {
                head.old = Some(path(number, name, "")?);
                head.renamed = true;
                head.whole = true;
            } else if let Some(name) = take("rename to ").or_else(|| take("copy to ")) {
                head.new = Some(path(number, name, "")?);
            } else if line.starts_with("new file mode ") {
                head.created = true;
                head.whole = true;
            } else if line.starts_with("deleted file mode ") {
                head.deleted = true;
                head.whole = true;
            } else if line.starts_with("old mode ") || line.starts_with("Binary files ") {
                head.whole = true;
            } else if line == "GIT binary patch" {
                head.whole = true;
                self.lines.next();
                self.skip_binary();
                break;
            } else if let Some(old) = take("--- ") {
                self.lines.next();
                return self.file(head, old);
            } else if !["new mode ", "index ", "similarity ", "dissimilarity "]
                .iter()
                .any(|known| line.starts_with(known))
            {
                break;
            }
            self.lines.next();
        }
        if !head.whole {
            return Err(bad(head.line, "a file without any change"));
        }
        let (old, new) = git_names(head.line, names)?;
        self.push(
            Head {
                old: head.old.or(old),
                new: head.new.or(new),
                ..head
            },
            0,
            0,
        )
    }

    /// The lines of a binary patch, up to the next file.
    fn skip_binary(&mut self) {
        while let Some((_, line)) = self.lines.peek() {
            if line.starts_with("diff --git ") {
                break;
            }
            self.lines.next();
        }
    }

    /// `---` was read; `+++` and the hunks follow.
    fn file(&mut self, mut head: Head, old: &str) -> Result<(), Refused> {
        let number = head.line;
        let Some((at, line)) = self.lines.next() else {
            return Err(bad(number, "`---` without `+++`"));
        };
        let Some(new) = line.strip_prefix("+++ ") else {
            return Err(bad(at + 1, "`---` without `+++`"));
        };
        let (old, new) = (timeless(old), timeless(new));
        if old == "/dev/null" {
            head.created = true;
        } else {
            head.old = Some(path(at, old, "a/")?);
        }
        if new == "/dev/null" {
            head.deleted = true;
        } else {
            head.new = Some(path(at + 1, new, "b/")?);
        }
        let (mut added, mut removed, mut hunks) = (0, 0, 0);
        while let Some((at, line)) = self.lines.peek().copied() {
            let Some(sizes) = hunk(at + 1, line)? else {
                break;
            };
            self.lines.next();
            let counted = self.hunk(at + 1, sizes)?;
            added += counted.0;
            removed += counted.1;
            hunks += 1;
        }
        if hunks == 0 && !head.whole {
            return Err(bad(head.line, "a file without hunks"));
        }
        self.push(head, added, removed)
    }

    /// Reads the lines of one hunk; (added, removed).
    fn hunk(
        &mut self,
        number: usize,
        (mut old, mut new): (u64, u64),
    ) -> Result<(u64, u64), Refused> {
        let (mut added, mut removed) = (0, 0);
        while old > 0 || new > 0 {
            let Some((at, line)) = self.lines.next() else {
                return Err(bad(number, "the diff ends inside this hunk"));
            };
            let short = || {
                bad(
                    at + 1,
                    &format!("the hunk of line {number} is not as long as it says"),
                )
            };
            let less = |count: &mut u64| {
                *count = count.checked_sub(1).ok_or_else(short)?;
                Ok::<_, Refused>(())
            };
            match line.as_bytes().first() {
                Some(b'+') => {
                    less(&mut new)?;
                    added += 1;
                }
                Some(b'-') => {
                    less(&mut old)?;
                    removed += 1;
                }
                // An empty line is a context line whose only space was stripped in transit.
                Some(b' ' | b'\r') | None => {
                    less(&mut old)?;
                    less(&mut new)?;
                }
                Some(b'\\') => {}
                Some(_) => return Err(short()),
            }
        }
        // "\ No newline at end of file" belongs to the line before it.
        while self
            .lines
            .peek()
            .is_some_and(|(_, line)| line.starts_with('\\'))
        {
            self.lines.next();
        }
        // What follows must not look like more of the same hunk.
        if let Some((at, line)) = self.lines.peek()
            && (line.starts_with('+') || (line.starts_with('-') && !line.starts_with("--")))
        {
            return Err(bad(
                at + 1,
                &format!("the hunk of line {number} is longer than it says"),
            ));
        }
        Ok((added, removed))
    }

    fn push(&mut self, head: Head, added: u64, removed: u64) -> Result<(), Refused> {
        let change = if head.created {
            FileChange::Create
        } else if head.deleted {
            FileChange::Delete
        } else if head.renamed {
            FileChange::Rename
        } else {
            FileChange::Modify
        };
        let name = if head.deleted {
            head.old.or(head.new)
        } else {
            head.new.or(head.old)
        };
        let path = name.ok_or_else(|| bad(head.line, "a file without a name"))?;
        self.files.push(AffectedFile {
            path,
            change,
            added,
            removed,
        });
        Ok(())
    }
}

/// The sizes of a hunk from its header; `None` for any other line.
fn hunk(number: usize, line: &str) -> Result<Option<(u64, u64)>, Refused> {
    let Some(rest) = line.strip_prefix("@@ ") else {
        return if line.starts_with("@@") {
            Err(bad(number, "expected `@@ -from,size +from,size @@`"))
        } else {
            Ok(None)
        };
    };
    let sizes = || {
        let (ranges, _) = rest.split_once(" @@")?;
        let (old, new) = ranges.split_once(' ')?;
        let size = |range: &str, sign: char| -> Option<u64> {
            let range = range.strip_prefix(sign)?;
            let (start, size) = range.split_once(',').unwrap_or((range, "1"));
            start.parse::<u64>().ok()?;
            size.parse().ok()
        };
        Some((size(old, '-')?, size(new, '+')?))
    };
    match sizes() {
        Some(sizes) => Ok(Some(sizes)),
        None => Err(bad(number, "expected `@@ -from,size +from,size @@`")),
    }
}

/// A header's name without the time that plain `diff` writes behind a tab.
fn timeless(name: &str) -> &str {
    let name = name.split('\t').next().unwrap_or(name);
    name.trim_end_matches('\r')
}

/// `a/x b/x` of a `diff --git` line; names that differ are in other headers.
fn git_names(number: usize, names: &str) -> Result<(Option<String>, Option<String>), Refused> {
    let names = names.trim_end_matches('\r');
    let halves = if names.starts_with('"') {
        names
            .find("\" ")
            .map(|at| (&names[..=at], &names[at + 2..]))
    } else {
        // Both halves are equally long when the names are the same.
        let middle = names.len() / 2;
        (names.is_char_boundary(middle) && names[middle..].starts_with(' '))
            .then(|| (&names[..middle], &names[middle + 1..]))
            .or_else(|| {
                names
                    .split_once(" b/")
                    .map(|(old, _)| (old, &names[old.len() + 1..]))
            })
    };
    match halves {
        Some((old, new)) => Ok((
            Some(path(number, old, "a/")?),
            Some(path(number, new, "b/")?),
        )),
        None => Ok((None, None)),
    }
}

/// A path as it is named in a header, checked and without git's prefix.
fn path(number: usize, name: &str, prefix: &str) -> Result<String, Refused> {
    let name = name.trim_end_matches('\r');
    let plain = unquote(name).ok_or_else(|| bad(number, "a quoted name that does not end"))?;
    let inner = plain.strip_prefix(prefix).unwrap_or(&plain);
    let refuse = |why: &str| {
        Err(Refused::new(
            "invalid_path",
            format!("line {number}: the path `{inner}` {why}"),
        ))
    };
    if inner.is_empty() {
        return refuse("is empty");
    }
    if inner.bytes().any(|byte| byte < 0x20 && byte != b'\t') {
        return refuse("has control characters");
    }
    let drive = inner.as_bytes().get(1) == Some(&b':') && inner.as_bytes()[0].is_ascii_alphabetic();
    if inner.starts_with(['/', '\\']) || plain.starts_with(['/', '\\']) || drive {
        return refuse("is absolute");
    }
    if inner.split(['/', '\\']).any(|part| part == "..") {
        return refuse("leaves the tree");
    }
    Ok(inner.to_owned())
}

/// Git quotes names with unusual bytes like C strings.
fn unquote(name: &str) -> Option<String> {
    let Some(inner) = name.strip_prefix('"') else {
        return Some(name.to_owned());
    };
    let inner = inner.strip_suffix('"')?;
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next()? {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'v' => 11,
            high @ b'0'..=b'3' => {
                let (middle, low) = (rest.next()?, rest.next()?);
                let digits = [high, middle, low];
                if digits.iter().any(|digit| !(b'0'..=b'7').contains(digit)) {
                    return None;
                }
                digits
                    .iter()
                    .fold(0, |n: u8, digit| n << 3 | (digit - b'0'))
            }
            plain => plain,
        });
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests;
