"""P-S11: what a session of the console can be used for, and by whom."""

import http.client
import json
import time

import harness
import populated
import pytest
from conftest import has_console, in_node
from rawcaller import MODERN

OWN = {"X-Sentinel-Console": "1"}
# Each is a request that a credential opens, on another surface.
DOORS = (
    ("GET", "/admin/api/status", None),
    ("GET", "/api/catalog", None),
    ("POST", "/api/lab__echo", {"text": "from the console"}),
    ("POST", "/rpc", {"jsonrpc": "2.0", "id": 1, "method": "lab__echo", "params": {"text": "from the console"}}),
    ("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": {
        "io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "page", "version": "1"}}}}),
)
MCP_HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list"}


class Page:
    """A browser's requests without a browser: it keeps the cookie, and sends what it is told to."""

    def __init__(self, world, credential=None):
        self.world, self.cookie, self.attributes = world, None, []
        if credential:
            status, self.session, headers = self.send("POST", "/console/api/session", {"credential": credential}, OWN)
            assert status == 200, (status, self.session)
            self.cookie, *self.attributes = [part.strip() for part in headers["Set-Cookie"].split(";")]

    def send(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection(self.world.gateway.host, self.world.gateway.port, timeout=20)
        sent = {**({"Cookie": self.cookie} if self.cookie else {}), **(headers or {})}
        if isinstance(body, dict):
            body = json.dumps(body)
            sent.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        try:
            return answer.status, json.loads(data or b"null"), answer.headers
        except ValueError:
            return answer.status, data, answer.headers

    def open(self, door, headers):
        method, path, body = door
        return self.send(method, path, body, {**(MCP_HEADERS if path == "/mcp" else {}), **headers})[0]


def new_key(world, name, role):
    made = world.admin.admin("keys", {"name": name, "role": role})
    return made["key"], made["id"]


def killed(world):
    return json.dumps(world.admin.admin("status"))


def test_p_s11_the_cookie_is_bound_to_this_site_and_hidden_from_scripts(guarded):
    page = Page(guarded, guarded.keys["ada"])
    attributes = {part.lower() for part in page.attributes}
    assert {"httponly", "samesite=strict"} <= attributes, page.attributes
    assert any(part.startswith("max-age=") and int(part[8:]) > 0 for part in attributes), page.attributes
    assert not any(part.startswith("domain") for part in attributes), page.attributes
    assert guarded.keys["ada"] not in page.cookie and page.session["caller"]["is_admin"] is True
    assert guarded.keys["ada"] not in json.dumps(page.session)
    another = Page(guarded, guarded.keys["ada"])
    assert another.cookie != page.cookie


def test_p_s11_a_cookie_stands_for_the_credential_on_every_surface_with_the_header_of_the_page_only(guarded, checks):
    page = Page(guarded, guarded.keys["ada"])
    for door in DOORS:
        what = f"{door[0]} {door[1]}"
        checks(page.open(door, OWN) == 200, f"{what} with the header", page.open(door, OWN))
        checks(page.open(door, {}) == 401, f"{what} without the header", page.open(door, {}))
        for foreign in ("http://evil.example", f"http://{guarded.gateway.host}:{guarded.gateway.port + 1}", "null"):
            status = page.open(door, {**OWN, "Origin": foreign})
            checks(status in (401, 403), f"{what} from {foreign}", status)
        for site in ("cross-site", "same-site", "none"):
            status = page.open(door, {**OWN, "Sec-Fetch-Site": site})
            checks(status in (401, 403), f"{what} as {site}", status)
        stranger = Page(guarded)
        stranger.cookie = page.cookie[:-4] + "AAAA"
        checks(stranger.open(door, OWN) == 401, f"{what} with a cookie that nobody was given")


def test_p_s11_a_form_of_another_origin_changes_nothing(guarded, checks):
    page, before = Page(guarded, guarded.keys["ada"]), killed(guarded)
    body = json.dumps({"scope": "tool", "name": "get-sum", "reason": "forged"})
    for kind in ("application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=x", "application/json"):
        for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://localhost:1"}, {"Sec-Fetch-Site": "cross-site"}):
            status, *_ = page.send("POST", "/admin/api/kill", body, {"Content-Type": kind, **headers})
            checks(status in (401, 403), f"a form as {kind} with {headers}", status)
    checks('"get-sum"' not in killed(guarded) and killed(guarded).count("forged") == before.count("forged"), "the kill switch was changed")


def test_p_s11_nobody_is_signed_in_by_another_page(guarded, checks):
    page = Page(guarded)
    credential = {"credential": guarded.keys["vera"]}
    for headers in ({}, {**OWN, "Origin": "http://evil.example"}, {**OWN, "Origin": "http://localhost:1"}, {**OWN, "Sec-Fetch-Site": "cross-site"}):
        status, _, answer = page.send("POST", "/console/api/session", credential, headers)
        checks(status in (401, 403) and "Set-Cookie" not in answer, f"signed in with {headers}", status)
    for wrong in ("sk_wrong", "", "a b", "é", "x" * 100_000, populated.token("eve", "admin", iss="another")):
        status, problem, answer = page.send("POST", "/console/api/session", {"credential": wrong}, OWN)
        checks(status in (400, 401, 413) and "Set-Cookie" not in answer, f"{wrong[:20]!r} as a credential", (status, problem))
        checks(not wrong or wrong not in json.dumps(problem), "the answer repeats the credential")


def test_p_s11_a_viewer_cannot_do_more_with_a_cookie_than_with_its_key(guarded, checks):
    page = Page(guarded, guarded.keys["vera"])
    checks(page.session["caller"]["is_admin"] is False, "a viewer is no admin", page.session)
    for path, body in (
        ("kill", {"scope": "tool", "name": "get-sum", "reason": "a viewer"}), ("keys", {"name": "mine", "role": "admin"}), ("reload", {}),
        ("restart", {"backend": "lab"}), ("pins", {"backend": "vendor"}),
    ):
        status, *_ = page.send("POST", f"/admin/api/{path}", body, OWN)
        checks(status == 403, f"a viewer's POST {path}", status)
    for path in ("status", "audit", "config", "keys"):
        status, *_ = page.send("GET", f"/admin/api/{path}", None, OWN)
        checks(status == 403, f"a viewer's GET {path}", status)
    status, *_ = page.send("POST", "/api/lab__echo", {"text": "hello"}, OWN)
    checks(status == 403, "a viewer's call", status)
    checks('"a viewer"' not in killed(guarded), "a viewer changed the kill switch")


def test_p_s11_signing_out_ends_the_session_and_not_only_the_cookie(guarded):
    page = Page(guarded, guarded.keys["ada"])
    # Another page cannot do so either.
    assert page.send("DELETE", "/console/api/session", None, {"Origin": "http://evil.example"})[0] == 403
    assert page.open(DOORS[0], OWN) == 200
    status, session, headers = page.send("DELETE", "/console/api/session", None, OWN)
    assert status == 200 and session["caller"] is None and "max-age=0" in headers["Set-Cookie"].lower()
    assert page.open(DOORS[0], OWN) == 401
    assert page.send("GET", "/console/api/session", None, OWN)[1]["caller"] is None


def test_p_s11_a_revoked_key_ends_its_sessions_and_their_streams(guarded):
    key, identity = new_key(guarded, "for-an-hour", "admin")
    page = Page(guarded, key)
    assert page.open(DOORS[0], OWN) == 200
    connection = http.client.HTTPConnection(guarded.gateway.host, guarded.gateway.port, timeout=10)
    connection.request("GET", "/admin/api/live", headers={**OWN, "Cookie": page.cookie, "Accept": "text/event-stream"})
    stream = connection.getresponse()
    assert stream.status == 200 and b"overview" in stream.readline()
    guarded.admin.admin("keys/revoke", {"id": identity})
    assert page.open(DOORS[0], OWN) == 401
    assert page.send("GET", "/console/api/session", None, OWN)[1]["caller"] is None
    began = time.monotonic()
    while stream.readline():
        assert time.monotonic() - began < 5, "the stream of a revoked key goes on"
    connection.close()


def test_p_s11_a_session_lasts_no_longer_than_its_token(guarded):
    # Tokens are accepted for a minute longer, for clocks that differ.
    page = Page(guarded, populated.token("short-lived", "admin", exp=int(time.time()) - 57))
    assert page.session["caller"]["expires_at_ms"] / 1000 <= time.time() + 4
    assert page.open(DOORS[0], OWN) == 200
    harness.wait(lambda: page.open(DOORS[0], OWN) == 401, "the session to end with its token", limit_s=10)


def test_p_s11_the_page_allows_no_inline_script_no_frame_and_no_other_origin(guarded, unguarded, checks):
    for world in (guarded, unguarded):
        has_console(world)
        page = Page(world)
        for path in ("/console/", "/console/catalog/tools/x", "/console/sign-in", "/console/theme.js"):
            status, _, headers = page.send("GET", path, None, {"Accept-Encoding": "gzip"})
            policy = dict(part.strip().partition(" ")[::2] for part in headers["Content-Security-Policy"].split(";"))
            checks(status == 200 and policy["default-src"] == "'none'", f"{path}: default-src", policy)
            checks(policy["script-src"] == "'self'" and policy["style-src"] == "'self'", f"{path}: scripts and styles", policy)
            checks(policy["connect-src"] == "'self'" and policy["form-action"] == "'none'" and policy["base-uri"] == "'none'", f"{path}: requests", policy)
            checks(policy["frame-ancestors"] == "'none'", f"{path}: frames", policy)
            checks(headers["X-Content-Type-Options"] == "nosniff", f"{path}: nosniff", headers)
        for host in ("evil.example", f"evil.example:{world.gateway.port}"):
            status, *_ = page.send("GET", "/console/", None, {"Host": host})
            checks(status == 403, f"the page under the name {host}", status)


def test_p_s11_what_a_session_does_is_on_record_under_the_caller(guarded):
    page = Page(guarded, guarded.keys["ada"])
    status, *_ = page.send("POST", "/api/lab__echo", {"text": "on record"}, OWN)
    assert status == 200
    subject = page.session["caller"]["subject"]

    def recorded():
        newest = guarded.admin.admin(f"audit?tool=lab__echo&caller={subject}&limit=1")["records"]
        return newest and "on record" in json.dumps(newest[0]["args"]) and newest[0]

    found = harness.wait(recorded, "the record of the call", guarded.gateway.child)
    assert (found["caller"], found["role"], found["outcome"]) == (subject, "admin", "success"), found


@pytest.mark.timeout(240)
def test_p_s11_pages_of_other_origins_get_nowhere_in_a_browser(guarded, checks, folder):
    has_console(guarded)
    in_node(checks, folder, "safety.test.mjs", 200, url=guarded.url, key=guarded.keys["ada"])
