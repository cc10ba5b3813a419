"""A caller of the gateway that writes its own bytes, in either era, and sees the bytes that come back."""

import http.client
import json

MODERN = "2026-07-28"
ACCEPT = "application/json, text/event-stream"


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.raw = status, headers, body
        try:
            self.message = json.loads(body) if body else None
        except (ValueError, RecursionError):
            self.message = None

    @property
    def error(self):
        return self.message.get("error") if isinstance(self.message, dict) else None

    @property
    def code(self):
        return self.error.get("code") if isinstance(self.error, dict) else None

    def __str__(self):
        return f"HTTP {self.status} {self.raw[:200]!r}"


class Caller:
    """One connection to one endpoint, e.g. `/mcp/raw`."""

    def __init__(self, gateway, path, era, version="2025-11-25", headers=None):
        self.connection = http.client.HTTPConnection(gateway.host, gateway.port, timeout=20)
        self.path, self.era, self.session, self.headers = path, era, {}, headers or {}
        if era == "legacy":
            self.initialized = self.initialize(version)

    def post(self, body, headers):
        sent = {"Content-Type": "application/json", "Accept": ACCEPT, **self.headers, **self.session, **headers}
        try:
            self.connection.request("POST", self.path, body, sent)
            answer = self.connection.getresponse()
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            # After a refused body the server may close; a second refusal would be its fault.
            self.connection.close()
            self.connection.request("POST", self.path, body, sent)
            answer = self.connection.getresponse()
        data = answer.read()
        if answer.headers.get_content_type() == "text/event-stream":
            data = last_event(data)
        return Answer(answer.status, answer.headers, data)

    def initialize(self, version):
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
        answer = self.post(json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}), {})
        if not isinstance(answer.message, dict) or "result" not in answer.message:
            raise AssertionError(f"initialize was refused: {answer}")
        self.session = {"MCP-Protocol-Version": answer.message["result"]["protocolVersion"]}
        if answer.headers.get("Mcp-Session-Id"):
            self.session["Mcp-Session-Id"] = answer.headers["Mcp-Session-Id"]
        self.post(b'{"jsonrpc":"2.0","method":"notifications/initialized"}', {})
        return answer

    def request(self, method, params, identity=b"1", name=None):
        """One request with `params` as bytes of an object, without the closing brace of its members."""
        headers = {}
        if self.era == "modern":
            meta = {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
            }
            params = b'"_meta":' + json.dumps(meta).encode() + (b"," + params if params else b"")
            headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method} | ({"Mcp-Name": name} if name else {})
        body = b'{"jsonrpc":"2.0","id":%s,"method":"%s","params":{%s}}' % (identity, method.encode(), params)
        return self.post(body, headers)

    def call(self, tool, arguments, identity=b"1"):
        return self.request("tools/call", b'"name":"%s","arguments":%s' % (tool.encode(), arguments), identity, tool)


def last_event(data):
    """The data of the last event that has any: on a call's stream, the response."""
    found = b""
    for event in data.replace(b"\r\n", b"\n").split(b"\n\n"):
        lines = [line[5:].removeprefix(b" ") for line in event.split(b"\n") if line.startswith(b"data:")]
        found = b"\n".join(lines) or found
    return found
