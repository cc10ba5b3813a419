"""The ids in test names, and docs/guarantees.md, which says what each means and where it is proved.

An id stands at the beginning of a name: `g_24_...` in Rust, `test_g_24_...` in Python, 'G-24: ...' in JavaScript; several may
follow each other (`g_47_c_37_...`), and `p_2_to_p_6_...` means all five. On the page they are written as people write
them: G-24, P-S10, issue 17.3, decision 18.
"""

import collections
import re

import harness

PAGE = harness.ROOT / "docs/guarantees.md"
# The longer forms first: `p_s10` is no `p_s`.
ID = r"(?:issue_\d+(?:_\d+)?|decision_\d+|p_[arsb]\d\d|[abcdegop]_\d+)"
IDS = re.compile(rf"({ID})(?:_to_({ID}))?(?:_|$)")
RUST = re.compile(r"#\[(?:tokio::)?test\b[^\n]*\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\(crate\))? )?(?:async )?fn (\w+)")
# Tests inside `proptest!` and other macros have no attribute that the first expression sees, but a name with an id.
RUST_NAMED = re.compile(rf"\bfn ({ID}_\w+)")
PYTHON = re.compile(r"^(?:async )?def test_(\w+)", re.MULTILINE)
SCRIPT = re.compile(r"^\s*test\(\s*[`'\"]((?:[A-Z]+-[A-Z]?\d+,?\s*)+):", re.MULTILINE)
FOLDERS = ("crates", "fuzz", "tests")
# What is a build's or somebody else's.
SKIPPED = {"target", "node_modules", "__pycache__", "fixtures"}
ROW = re.compile(r"^\| (?P<id>[^|]+?) \| (?P<words>[^|]+?) \| (?P<state>[^|]*?) \| (?P<files>[^|]*?) \|$", re.MULTILINE)


def shown(identity):
    """`p_s10` as people write it: P-S10."""
    kind, _, number = identity.partition("_")
    if kind == "issue":
        return f"issue {number.replace('_', '.')}"
    return f"decision {number}" if kind == "decision" else f"{kind}-{number}".upper()


def ids_of(name):
    """The ids at the beginning of a test's name, in their written form."""
    found, at = [], 0
    while match := IDS.match(name, at):
        first, last = match[1], match[2]
        found.append(shown(first))
        if last:
            kind, low, high = first.rpartition("_")[0], int(first.rpartition("_")[2]), int(last.rpartition("_")[2])
            found += [shown(f"{kind}_{n}") for n in range(low + 1, high + 1)]
        at = match.end()
    return found


def tests():
    """(id, file) of every test whose name begins with an id."""
    for folder in FOLDERS:
        for path in sorted((harness.ROOT / folder).rglob("*")):
            parts = path.relative_to(harness.ROOT).parts
            if path.suffix not in (".rs", ".py", ".mjs") or SKIPPED & set(parts):
                continue
            text, file = path.read_text(), "/".join(parts)
            if path.suffix == ".mjs":
                for names in SCRIPT.findall(text):
                    yield from ((identity, file) for identity in re.findall(r"[A-Z]+-[A-Z]?\d+", names))
                continue
            names = set(PYTHON.findall(text)) if path.suffix == ".py" else {*RUST.findall(text), *RUST_NAMED.findall(text)}
            for name in sorted(names):
                yield from ((identity, file) for identity in ids_of(name))


def proofs():
    """id -> files with tests that prove it, in order."""
    found = collections.defaultdict(set)
    for identity, file in tests():
        found[identity].add(file)
    return {identity: sorted(files) for identity, files in found.items()}


def short(file):
    """The integration tests are most of the page; the page says where they are."""
    return file.replace("crates/sentinel/tests/it/", "it/")


def page():
    """id -> (words, state, files) as the page has them."""
    rows = ROW.findall(PAGE.read_text())
    return {identity: (words, state, re.findall(r"`([^`]+)`", files)) for identity, words, state, files in rows
            if identity not in ("id", "---")}


def rewritten():
    """The page with the files of every id as they are now."""
    found = proofs()

    def row(match):
        if match["id"] in ("id", "---"):
            return match[0]
        files = ", ".join(f"`{short(file)}`" for file in found.get(match["id"], []))
        return f"| {match['id']} | {match['words']} | {match['state']} | {files} |"

    return ROW.sub(row, PAGE.read_text())


if __name__ == "__main__":
    PAGE.write_text(rewritten())
