#!/usr/bin/env python3
"""Odd and broken JSON as a body, as arguments and as a backend's reply (G-4, G-81; decisions 12, 13 and 43).

The files come from nst/JSONTestSuite and are not part of this repository: SENTINEL_VECTORS names their folder, else
`../shared/vectors`. Where there are none, only our own cases run, and that is said; with CI set it is a failure.

What must hold: as a body, valid JSON that is no request is -32600 and broken JSON -32700; as arguments, valid JSON reaches
the backend byte for byte, repeated names are -32600, broken JSON -32700; as a reply, valid JSON reaches the caller byte
for byte, broken JSON is an error for that call alone. The gateway never answers 5xx and never dies.
"""

import os
import sys
import urllib.request
from pathlib import Path

import harness
import rawjson
from rawcaller import Caller

FOLDER = Path(os.environ.get("SENTINEL_VECTORS") or harness.ROOT.parent / "shared/vectors") / "json"
REFUSED = (-32600, -32700)
# Deeper than `limits.json_depth`: a reader may give up before it sees what else is wrong.
DEEP = 64


class Tally:
    def __init__(self):
        self.passed, self.failures = 0, []

    def check(self, right, what, answer=""):
        if right:
            self.passed += 1
        else:
            self.failures.append(f"{what}: {answer}")


def vectors():
    """(name, bytes, expectation): expectation is 'valid', 'duplicate', 'invalid' or 'either'."""
    for path in sorted(FOLDER.glob("test_*/*.json")):
        raw = path.read_bytes()
        either = path.name.startswith("i_") or "invalid_codepoint" in path.name
        yield path.name, raw, "either" if either else rawjson.verdict(raw)


def check_labels(tally):
    """Our own strict reader must agree with the authors of the files, or what follows proves nothing."""
    for name, _, expected in vectors():
        if name.startswith("y_"):
            tally.check(expected in ("valid", "duplicate"), f"label of {name}", expected)
        if name.startswith("n_"):
            tally.check(expected == "invalid", f"label of {name}", expected)


def too_deep(raw):
    return raw.count(b"[") + raw.count(b"{") > DEEP


def as_body(gateway, tally):
    caller = Caller(gateway, "/mcp", "modern")
    for name, raw, expected in vectors():
        answer = caller.post(raw, {})
        codes = {"valid": (-32600,), "duplicate": (-32600,), "invalid": (-32700,), "either": REFUSED}[expected]
        if too_deep(raw):
            codes = REFUSED
        tally.check(answer.code in codes and answer.status == 400, f"body {name} ({expected})", answer)


def as_arguments(gateway, path, era, tally):
    caller = Caller(gateway, path, era)
    for name, raw, expected in vectors():
        arguments = b'{"v":' + raw + b"}"
        if expected != "either":
            expected = rawjson.verdict(arguments)
        answer = caller.call("echo", arguments)
        returned = rawjson.dig(answer.raw, "result", "structuredContent")
        same = returned is not None and rawjson.compact(returned) == rawjson.compact(arguments)
        refused = answer.status < 500 and answer.code in REFUSED
        right = {
            "valid": same,
            "duplicate": answer.code == -32600,
            "invalid": answer.code == -32700 or (refused and too_deep(raw)),
            "either": same or refused,
        }[expected]
        tally.check(right, f"arguments {name} ({expected}) {era} caller, {path}", answer)


def as_reply(gateway, path, era, calls, tally, lines_only=False):
    caller = Caller(gateway, path, era)
    made = 0
    for name, raw, expected in vectors():
        folder = "test_parsing" if name[1:2] == "_" else "test_transform"
        if lines_only and (expected not in ("valid", "duplicate") or b"\n" in raw or b"\r" in raw):
            # Over stdio a broken line cannot be tied to its call, and a line break ends the message.
            continue
        answer = caller.call("reply", b'{"file":"%s/%s"}' % (folder.encode(), name.encode()), b'"id-%d"' % made)
        made += 1
        returned = rawjson.dig(answer.raw, "result", "structuredContent", "v") if answer.code is None else None
        same = returned is not None and rawjson.compact(returned) == rawjson.compact(raw)
        failed = answer.code is not None and answer.status < 500 and answer.message.get("id") == f"id-{made - 1}"
        right = {"valid": same, "duplicate": same, "invalid": failed, "either": same or failed}[expected]
        tally.check(right, f"reply {name} ({expected}) {era} caller, {path}", answer)
    if calls is not None:
        seen = calls() - made
        tally.check(seen == 0, f"replies {era} caller, {path}", f"{seen} calls were sent twice or lost")


def ids(gateway, path, era, tally):
    """Ids of every legal form come back byte for byte; others are refused (G-4)."""
    caller = Caller(gateway, path, era)
    for identity in (b"0", b"-1", b"9007199254740993", b"123456789012345678901234567890", b"1.5", b"1.0", b"1e2",
                     b'""', b'"a\\u0062"', b'"\xc3\xa9"', b'"\\ud83d\\ude00"'):
        answer = caller.call("echo", b"{}", identity)
        returned = rawjson.members(answer.raw).get("id")
        tally.check(returned == identity and answer.code is None, f"id {identity!r} {era} caller", answer)
    for identity in (b"null", b"true", b"{}", b"[1]"):
        answer = caller.call("echo", b"{}", identity)
        tally.check(answer.code == -32600 and answer.status == 400, f"id {identity!r} {era} caller", answer)


def own_cases(gateway, path, era, tally):
    """Numbers byte for byte, repeated names at any depth, nesting (decisions 12 and 13)."""
    caller = Caller(gateway, path, era)
    for number in (b"1.0", b"1E400", b"-0", b"0.1000000000000000055511151231257827", b"12345678901234567890123"):
        answer = caller.call("echo", b'{"v":%s}' % number)
        returned = rawjson.dig(answer.raw, "result", "structuredContent", "v")
        tally.check(returned == number, f"number {number!r} {era} caller, {path}", answer)
    for arguments in (b'{"a":1,"a":1}', b'{"x":{"a":1,"a":2}}', b'{"x":[{"a":1,"\\u0061":2}]}'):
        answer = caller.call("echo", arguments)
        tally.check(answer.code == -32600, f"repeated name {arguments!r} {era} caller", answer)
    for body in (
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","m\\u0065thod":"tools/list"}',
        b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
        b'{"id":1,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":7}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":7}',
        b"[]",
    ):
        answer = caller.post(body, {})
        tally.check(answer.code == -32600 and answer.status == 400, f"envelope {body!r} {era} caller", answer)
    answer = caller.call("echo", b'{"v":' + b"[" * 50 + b"]" * 50 + b"}")
    tally.check(answer.code is None, f"50 levels {era} caller", answer)
    answer = caller.call("echo", b'{"v":' + b"[" * 100_000 + b"]" * 100_000 + b"}")
    # A reader that stops there cannot know whether the rest is JSON.
    tally.check(answer.code in REFUSED and answer.status == 400, f"100,000 levels {era} caller", answer)


def main():
    present = FOLDER.is_dir()
    if not present:
        print(f"vectors: {FOLDER} is not there: only our own cases run")
        if os.environ.get("CI"):
            print("vectors: 0 passed, 1 failed")
            return 1
    tally = Tally()
    if present:
        check_labels(tally)
    with harness.scratch() as folder:
        try:
            run(folder, tally, present)
        except (harness.NotReady, AssertionError, OSError) as problem:
            tally.check(False, "the run", problem)
    for failure in tally.failures[:60]:
        print(f"  {failure}")
    if len(tally.failures) > 60:
        print(f"  ... and {len(tally.failures) - 60} more")
    print(f"vectors: {tally.passed} passed, {len(tally.failures)} failed")
    return 1 if tally.failures else 0


def run(folder, tally, present):
    server = harness.FIXTURES / "raw_server.py"
    files = ["--files", FOLDER] if present else []
    # A circuit that opens on broken replies would hide what comes after them.
    breaker = {"circuit_breaker": {"threshold": 1_000_000}}
    with (
        harness.fixture("raw_server.py", folder, "--era", "legacy", *files) as legacy,
        harness.fixture("raw_server.py", folder, "--era", "modern", *files) as modern,
    ):
        arguments = [str(server), "--era", "legacy", "--stdio", *map(str, files)]
        backends = [
            {"name": "legacy", "type": "http", "url": legacy, **breaker},
            {"name": "modern", "type": "http", "url": modern, **breaker},
            {"name": "stdio", "type": "stdio", "command": str(harness.PYTHON), "args": arguments, **breaker},
        ]
        with harness.gateway(folder, backends) as gateway:
            cases(gateway, {"legacy": legacy, "modern": modern}, tally, present)
            tally.check(gateway.alive(), "the gateway is alive", "it ended")
            tally.check(gateway.get("/health")[0] == 200, "the gateway answers", "/health is not 200")


def cases(gateway, urls, tally, present):
    for era in ("legacy", "modern"):
        for backend in ("legacy", "modern", "stdio"):
            path = f"/mcp/{backend}"
            own_cases(gateway, path, era, tally)
            ids(gateway, path, era, tally)
            if present:
                as_arguments(gateway, path, era, tally)
                count = counter(urls[backend]) if backend in urls else None
                as_reply(gateway, path, era, count, tally, lines_only=backend == "stdio")
    if present:
        as_body(gateway, tally)


def counter(url):
    """Calls that the server saw from now on."""

    def read():
        return int(urllib.request.urlopen(url.replace("/mcp", "/calls"), timeout=5).read())

    before = read()
    return lambda: read() - before


if __name__ == "__main__":
    sys.exit(main())
