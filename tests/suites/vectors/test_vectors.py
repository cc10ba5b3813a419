"""Odd and broken JSON as a body, as arguments and as a backend's reply (G-4, C-40; decisions 12, 13 and 43).

The files are those of nst/JSONTestSuite (see `vectors` in tests/support) and byte sequences of our own.

What must hold: as a body, valid JSON that is no request is -32600 and broken JSON -32700; as arguments, valid JSON reaches
the backend byte for byte, repeated names are -32600, broken JSON -32700; as a reply, valid JSON reaches the caller byte
for byte, broken JSON is an error for that call alone. The gateway never answers 5xx and never dies.
"""

import urllib.request

import harness
import pytest
import rawjson
import vectors
from rawcaller import Caller

REFUSED = (-32600, -32700)
# Deeper than `limits.json_depth`: a reader may give up before it sees what else is wrong.
DEEP = 64


def cases():
    """(name, bytes, expectation): expectation is 'valid', 'duplicate', 'invalid' or 'either'."""
    for name, raw in vectors.json_texts().items():
        either = name.startswith("i_") or "invalid_codepoint" in name
        yield name, raw, "either" if either else rawjson.verdict(raw)


everywhere = pytest.mark.parametrize(
    ("era", "backend"), [(era, backend) for era in ("legacy", "modern") for backend in ("legacy", "modern", "stdio")]
)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The texts as files, for the servers that answer with them."""
    folder = tmp_path_factory.mktemp("json")
    for name, raw in vectors.json_texts().items():
        (folder / name).write_bytes(raw)
    return folder


@pytest.fixture(scope="module")
def urls(files):
    with (
        harness.scratch() as folder,
        harness.fixture("raw_server.py", folder, "--era", "legacy", "--files", files) as legacy,
        harness.fixture("raw_server.py", folder, "--era", "modern", "--files", files) as modern,
    ):
        yield {"legacy": legacy, "modern": modern}


@pytest.fixture(scope="module")
def gateway(files, urls):
    # A circuit that opens on broken replies would hide what comes after them.
    breaker = {"circuit_breaker": {"threshold": 1_000_000}}
    backends = [{"name": name, "type": "http", "url": url, **breaker} for name, url in urls.items()]
    arguments = [str(harness.FIXTURES / "raw_server.py"), "--era", "legacy", "--stdio", "--files", str(files)]
    backends.append({"name": "stdio", "type": "stdio", "command": str(harness.PYTHON), "args": arguments, **breaker})
    with harness.scratch() as folder, harness.gateway(folder, backends) as running:
        yield running


@pytest.fixture(autouse=True)
def still_there(gateway):
    """Whatever a test sent, the gateway answers after it."""
    yield
    assert gateway.alive() and gateway.get("/health")[0] == 200


def test_our_reader_agrees_with_the_authors_of_the_files(checks):
    """Our own strict reader must agree with the authors of the files, or what follows proves nothing."""
    for name, _, expected in cases():
        if name.startswith("y_"):
            checks(expected in ("valid", "duplicate"), f"label of {name}", expected)
        if name.startswith("n_"):
            checks(expected == "invalid", f"label of {name}", expected)


def too_deep(raw):
    return raw.count(b"[") + raw.count(b"{") > DEEP


def test_as_a_body(gateway, checks):
    caller = Caller(gateway, "/mcp", "modern")
    for name, raw, expected in cases():
        answer = caller.post(raw, {})
        codes = {"valid": (-32600,), "duplicate": (-32600,), "invalid": (-32700,), "either": REFUSED}[expected]
        if too_deep(raw):
            codes = REFUSED
        checks(answer.code in codes and answer.status == 400, f"body {name} ({expected})", answer)


@everywhere
def test_as_arguments(gateway, backend, era, checks):
    path = f"/mcp/{backend}"
    caller = Caller(gateway, path, era)
    for name, raw, expected in cases():
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
        checks(right, f"arguments {name} ({expected}) {era} caller, {path}", answer)


@everywhere
def test_as_a_reply(gateway, urls, backend, era, checks):
    path = f"/mcp/{backend}"
    calls = counter(urls[backend]) if backend in urls else None
    caller = Caller(gateway, path, era)
    made = 0
    for name, raw, expected in cases():
        if backend == "stdio" and (expected not in ("valid", "duplicate") or b"\n" in raw or b"\r" in raw):
            # Over stdio a broken line cannot be tied to its call, and a line break ends the message.
            continue
        answer = caller.call("reply", b'{"file":"%s"}' % name.encode(), b'"id-%d"' % made)
        made += 1
        returned = rawjson.dig(answer.raw, "result", "structuredContent", "v") if answer.code is None else None
        same = returned is not None and rawjson.compact(returned) == rawjson.compact(raw)
        failed = answer.code is not None and answer.status < 500 and answer.message.get("id") == f"id-{made - 1}"
        right = {"valid": same, "duplicate": same, "invalid": failed, "either": same or failed}[expected]
        checks(right, f"reply {name} ({expected}) {era} caller, {path}", answer)
    if calls is not None:
        seen = calls() - made
        checks(seen == 0, f"replies {era} caller, {path}", f"{seen} calls were sent twice or lost")


@everywhere
def test_g_4_ids(gateway, backend, era, checks):
    """Ids of every legal form come back byte for byte; others are refused (G-4)."""
    path = f"/mcp/{backend}"
    caller = Caller(gateway, path, era)
    for identity in (b"0", b"-1", b"9007199254740993", b"123456789012345678901234567890", b"1.5", b"1.0", b"1e2",
                     b'""', b'"a\\u0062"', b'"\xc3\xa9"', b'"\\ud83d\\ude00"'):
        answer = caller.call("echo", b"{}", identity)
        returned = rawjson.members(answer.raw).get("id")
        checks(returned == identity and answer.code is None, f"id {identity!r} {era} caller", answer)
    for identity in (b"null", b"true", b"{}", b"[1]"):
        answer = caller.call("echo", b"{}", identity)
        checks(answer.code == -32600 and answer.status == 400, f"id {identity!r} {era} caller", answer)


@everywhere
def test_numbers_repeated_names_and_nesting(gateway, backend, era, checks):
    """Numbers byte for byte, repeated names at any depth, nesting (decisions 12 and 13)."""
    path = f"/mcp/{backend}"
    caller = Caller(gateway, path, era)
    for number in (b"1.0", b"1E400", b"-0", b"0.1000000000000000055511151231257827", b"12345678901234567890123"):
        answer = caller.call("echo", b'{"v":%s}' % number)
        returned = rawjson.dig(answer.raw, "result", "structuredContent", "v")
        checks(returned == number, f"number {number!r} {era} caller, {path}", answer)
    for arguments in (b'{"a":1,"a":1}', b'{"x":{"a":1,"a":2}}', b'{"x":[{"a":1,"\\u0061":2}]}'):
        answer = caller.call("echo", arguments)
        checks(answer.code == -32600, f"repeated name {arguments!r} {era} caller", answer)
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
        checks(answer.code == -32600 and answer.status == 400, f"envelope {body!r} {era} caller", answer)
    answer = caller.call("echo", b'{"v":' + b"[" * 50 + b"]" * 50 + b"}")
    checks(answer.code is None, f"50 levels {era} caller", answer)
    answer = caller.call("echo", b'{"v":' + b"[" * 100_000 + b"]" * 100_000 + b"}")
    # A reader that stops there cannot know whether the rest is JSON.
    checks(answer.code in REFUSED and answer.status == 400, f"100,000 levels {era} caller", answer)


def counter(url):
    """Calls that the server saw from now on."""

    def read():
        return int(urllib.request.urlopen(url.replace("/mcp", "/calls"), timeout=5).read())

    before = read()
    return lambda: read() - before


def test_the_gateway_is_alive_after_all_that(gateway, checks):
    checks(gateway.alive(), "the process runs")
    checks(gateway.get("/health")[0] == 200, "/health is 200")
