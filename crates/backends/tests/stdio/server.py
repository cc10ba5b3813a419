"""An MCP server on stdio that is as odd as a test asks it to be.

usage: server.py legacy|modern|both|dies-if-initialized|ignores-initialize [state file]

`both` keeps to the era of the first request, and asks nothing in the modern one, like the official Python SDK.
"""

import json
import os
import sys
import threading
import time

ERA = sys.argv[1]
STATE = sys.argv[2] if len(sys.argv) > 2 else None
MODERN = "2026-07-28"
out = threading.Lock()
asked = {}
declared = {}
extra_tools = []
cancelled = []
listen_id = None


def raw(text):
    with out:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def send(**message):
    raw(json.dumps({"jsonrpc": "2.0", **message}))


def notify(method, params):
    send(method=method, params=params)


def ask(method, params):
    """A question to the client; its answer."""
    key = f"q{len(asked)}"
    asked[key] = [threading.Event(), None]
    send(id=key, method=method, params=params)
    asked[key][0].wait(30)
    return asked[key][1]


def text(value, modern):
    result = {"content": [{"type": "text", "text": value}]}
    return {"resultType": "complete", **result} if modern else result


def call(id, params, modern):
    name, args = params["name"], params.get("arguments", {})
    reply = lambda value: send(id=id, result=text(value, modern))
    if name == "echo":
        reply(args["text"])
    elif name == "pid":
        reply(str(os.getpid()))
    elif name == "slow":
        time.sleep(args["seconds"])
        reply("slept")
    elif name == "hang":
        pass
    elif name == "crash":
        os._exit(3)
    elif name == "last-words":
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": id, "result": text("bye", modern)}) + "\n")
        sys.stdout.flush()
        os._exit(0)
    elif name == "garbage":
        for line in ("Listening on port 3000", "{", "[]", '{"jsonrpc":"2.0"}', "\x00\x01", '{"id":99}'):
            raw(line)
        send(id=999999, result={})
        reply("still here")
        send(id=id, result={"content": []})
    elif name == "liar":
        raw(json.dumps({"jsonrpc": "2.0", "id": id}))
    elif name == "huge":
        reply("x" * args["bytes"])
    elif name == "progress":
        token = params["_meta"]["progressToken"]
        for i in (1, 2, 3):
            notify("notifications/progress", {"progressToken": token, "progress": i, "total": 3})
        reply(f"token {token}")
    elif name == "log":
        notify("notifications/message", {"level": "info", "data": "hello"})
        reply("logged")
    elif name == "ask":
        reply(json.dumps(ask("elicitation/create", {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}})))
    elif name == "roots":
        reply(json.dumps(ask("roots/list", {})))
    elif name == "ping-client":
        reply(json.dumps(ask("ping", {})))
    elif name == "declared":
        reply(json.dumps(declared, sort_keys=True))
    elif name == "cancelled":
        reply(json.dumps(cancelled))
    elif name == "grow":
        extra_tools.append({"name": f"extra{len(extra_tools)}", "inputSchema": {"type": "object"}})
        meta = {"_meta": {"io.modelcontextprotocol/subscriptionId": listen_id}} if modern else {}
        notify("notifications/tools/list_changed", meta)
        reply("grown")
    else:
        send(id=id, error={"code": -32602, "message": f"unknown tool {name}"})


NAMES = "echo pid slow hang crash last-words garbage liar huge progress log ask roots ping-client declared cancelled grow deaf hang-up".split()


def tools():
    return [{"name": n, "inputSchema": {"type": "object"}} for n in NAMES] + extra_tools


def handle(message):
    global declared, listen_id
    method, id, params = message["method"], message.get("id"), message.get("params", {})
    modern = "io.modelcontextprotocol/protocolVersion" in params.get("_meta", {})
    if method == "notifications/cancelled":
        cancelled.append(params["requestId"])
    elif id is None:
        pass
    elif method == "initialize" and ERA == "dies-if-initialized":
        os._exit(1)
    elif method == "initialize" and ERA == "ignores-initialize":
        pass
    elif method == "server/discover" and ERA != "legacy":
        send(id=id, result={"resultType": "complete", "supportedVersions": [MODERN], "capabilities": {"tools": {"listChanged": True}}, "ttlMs": 0, "cacheScope": "private", "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "odd", "version": "1"}}})
    elif method == "initialize" and ERA in ("legacy", "both"):
        declared = params["capabilities"]
        send(id=id, result={"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {"listChanged": True}}, "serverInfo": {"name": "odd", "version": "1"}})
    elif method == "ping" and not modern:
        send(id=id, result={})
    elif method == "subscriptions/listen" and modern:
        listen_id = id
        notify("notifications/subscriptions/acknowledged", {"_meta": {"io.modelcontextprotocol/subscriptionId": id}, "notifications": params["notifications"]})
    elif method == "tools/list":
        extra = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if modern else {}
        send(id=id, result={"tools": tools(), **extra})
    elif method == "tools/call" and params["name"] == "deaf":
        send(id=id, result=text("cannot hear you", modern))
        os.close(0)
        time.sleep(120)
    elif method == "tools/call" and params["name"] == "hang-up":
        os.close(1)
        time.sleep(120)
    elif method == "tools/call":
        threading.Thread(target=call, args=(id, params, modern), daemon=True).start()
    else:
        send(id=id, error={"code": -32601, "message": f"no such method {method}"})


if STATE:
    with open(STATE, "a") as f:
        f.write(f"start {os.getpid()}\n")
sys.stderr.write("odd server here\n")
sys.stderr.flush()
for line in sys.stdin:
    message = json.loads(line)
    if STATE:
        with open(STATE, "a") as f:
            f.write(message.get("method", "answer") + "\n")
    if "method" in message:
        handle(message)
    elif message.get("id") in asked:
        slot = asked[message["id"]]
        slot[1] = message.get("result", message.get("error"))
        slot[0].set()
