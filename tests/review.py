#!/usr/bin/env python3
"""The review broker as agents use it: two real SDK clients, restarts, kills and a full disk.

    tests/review.py [--kills N] [CHECK ...]      all checks, or those whose name contains a word

The proposer and the reviewer are clients of the Python SDK over HTTP, in every pairing of eras. `--kills` is how often the
broker is killed while it writes (5 here; 20 is the full figure).
"""

import argparse
import asyncio
import contextlib
import http.client
import json
import os
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import uuid
from pathlib import Path

import harness

if Path(sys.prefix) != harness.BUILD / "venv":
    harness.need(harness.PYTHON)
    os.execv(harness.PYTHON, [str(harness.PYTHON), *sys.argv])

from mcp import Client, MCPError  # noqa: E402  (only in the environment of tests/setup)

# As the SDK calls its modes; raw_session names the revision.
MODERN, LEGACY = "2026-07-28", "legacy"
LIMIT_S = 60
DIFF = "--- a/src/lib.rs\n+++ b/src/lib.rs\n@@ -1,2 +1,2 @@\n fn main() {\n-}\n+    run();}\n"
PATCH = DIFF.replace("run()", "run_safely()")


def check(condition, *shown):
    if not condition:
        raise AssertionError(*shown)


class Agent:
    """A client whose tools are methods: `await agent.claim_review(review_id=...)` gives the document."""

    def __init__(self, client):
        self.client = client

    def __getattr__(self, tool):
        async def call(**arguments):
            result = await self.client.call_tool(tool, arguments)
            check(not result.is_error, tool, result.content)
            check(json.loads(result.content[0].text) == result.structured_content, "text and structure differ")
            return result.structured_content

        return call

    async def refused(self, tool, **arguments):
        """The error of a call that must be refused: (kind, message)."""
        result = await self.client.call_tool(tool, arguments)
        check(result.is_error, f"{tool} was not refused", result.structured_content)
        text = result.content[0].text
        if not text.startswith("{"):
            # What the schema forbids is refused by policy before the broker sees it, in words for the model.
            return "invalid_arguments", text
        error = json.loads(text)
        return error["error"], error["message"]


@contextlib.asynccontextmanager
async def agent(url, era, **more):
    async with Client(url, mode=era, read_timeout_seconds=LIMIT_S, **more) as client:
        yield Agent(client)


@contextlib.contextmanager
def broker(folder, *options, database=None, **more):
    """`sentinel review serve` on a free port; yields a harness.Gateway."""
    program = harness.binary()
    harness.need(program)
    config = harness.write_config(folder, [], extra=more.pop("extra", "\n[review]\nclaim_timeout = 1200\n"))
    command = [program, "review", "serve", "--config", config, "--port", "0", *options]
    if database:
        command += ["--db", database]
    streams = {"stdout": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
    with harness.process(command, f"broker-{time.monotonic_ns()}", folder, **streams, **more) as child:
        yield harness.Gateway(child, harness.address(folder, child))


def look(folder, *command, json_too=True):
    """A `sentinel review` command beside the running broker, or after it."""
    options = ["--json"] if json_too else []
    done = subprocess.run(
        [harness.binary(), "--config", Path(folder) / "sentinel.toml", *options, "review", *command],
        capture_output=True, text=True, timeout=LIMIT_S,
    )
    check(done.returncode == 0, command, done.stderr)
    return json.loads(done.stdout) if json_too else done.stdout


async def ten_steps(url, eras):
    """B-45, as the seed tells it."""
    async with agent(url, eras[0]) as proposer, agent(url, eras[1]) as reviewer:
        me = {"reviewer_id": "codex-1"} if eras[1] == MODERN else {}
        made = await proposer.submit_proposal(
            intent="call run", diff=DIFF, agent_type="gsd-executor", phase="3.2", plan="p", task="7", project="demo"
        )
        review = {"review_id": made["review_id"]}
        check(made["status"] == "created", made)
        check(made["affected_files"] == [{"path": "src/lib.rs", "change": "modify", "added": 1, "removed": 1}], made)
        pending = await reviewer.list_pending()
        check(review["review_id"] in [item["review_id"] for item in pending["items"]], pending)
        claimed = await reviewer.claim_review(**review, **me)
        check(claimed["status"] == "claimed" and claimed["claim_generation"] == 1, claimed)
        again = await reviewer.claim_review(**review, **me)
        check(again == {**claimed, "claim_expires_at": again["claim_expires_at"]}, "a second claim changed something")
        kind, _ = await proposer.refused("claim_review", **review, reviewer_id="somebody-else")
        check(kind == "already_claimed", kind)
        await reviewer.post_message(**review, body="please run safely", role="reviewer", **me)
        thread = await proposer.get_messages(**review)
        check([m["body"] for m in thread["items"]] == ["please run safely"] and thread["status"] == "in_discussion", thread)
        await proposer.post_message(**review, body="show me how", role="proposer")
        sent = await reviewer.submit_patch(**review, diff=PATCH, role="reviewer", description="safely", **me)
        check(sent["review"]["status"] == "in_discussion", sent)
        patches = (await proposer.get_patch(**review))["patches"]
        check([p["diff"] for p in patches] == [DIFF, PATCH], patches)
        await proposer.post_message(**review, body="accepted", role="proposer")
        before = await proposer.get_review_status(**review)
        check(set(before) == {"review_id", "status", "version", "claim_generation", "updated_at"}, before)
        waiting = asyncio.create_task(proposer.get_review_status(**review, since=before["version"], wait_ms=20000))
        await asyncio.sleep(0.1)
        began = time.monotonic()
        await reviewer.submit_verdict(**review, decision="approved", reason="good", claim_generation=1, **me)
        after = await waiting
        check(after["status"] == "approved" and time.monotonic() - began < 2, after)
        closed = await proposer.close_review(**review)
        check(closed["status"] == "closed", closed)
        return review["review_id"], await proposer.get_proposal(**review), await proposer.get_messages(**review)


async def the_ten_steps_in_every_pairing_of_eras_then_a_restart(folder):
    kept = []
    with broker(folder) as running:
        for eras in [(LEGACY, LEGACY), (LEGACY, MODERN), (MODERN, LEGACY), (MODERN, MODERN)]:
            kept.append(await ten_steps(running.url, eras))
    with broker(folder) as running:
        async with agent(running.url, LEGACY) as later:
            for review_id, proposal, messages in kept:
                check(await later.get_proposal(review_id=review_id) == proposal, "the proposal changed")
                check(await later.get_messages(review_id=review_id) == messages, "the discussion changed")
    shown = look(folder, "show", kept[0][0][:13])
    check([m["body"] for m in shown["messages"]] == ["please run safely", "show me how", "accepted"], shown)
    coloured = subprocess.run(
        [harness.binary(), "--config", folder / "sentinel.toml", "--color", "always", "review", "show", kept[0][0]],
        capture_output=True, text=True, timeout=LIMIT_S,
    ).stdout
    check("\x1b[32m+    run();}" in coloured and "\x1b[31m-}" in coloured, coloured)
    check(len(look(folder, "list", "--status", "closed")["items"]) == 4)


async def the_gateway_offers_the_tools_beside_its_backends(folder):
    with harness.gateway(folder, [], extra="\n[review]\nenabled = true\nextended_tools = true\n") as running:
        for url in (running.url, running.url + "/review"):
            async with Client(url, mode=MODERN) as client:
                tools = {tool.name: tool for tool in (await client.list_tools()).tools}
                check(len(tools) == 17, sorted(tools))
                check(tools["get_review_status"].annotations.read_only_hint is True)
                check(tools["submit_proposal"].meta["tags"] == ["proposal"], tools["submit_proposal"].meta)
        review_id, proposal, _ = await ten_steps(running.url, (LEGACY, LEGACY))
        async with agent(running.url, MODERN) as one:
            history = await one.get_review_timeline(review_id=review_id)
            events = [event["event"] for event in history["items"]]
            check(events[0] == "review_created" and events[-1] == "review_closed" and len(events) == 8, events)
            stats = await one.get_review_stats()
            check(stats["approval_rate_pct"] == 100.0 and stats["by_status"] == {"closed": 1}, stats)
            read = await one.client.read_resource(f"review://{review_id}")
            check(json.loads(read.contents[0].text)["proposal"]["review_id"] == review_id)
        async with Client(running.url, mode=LEGACY) as client:
            check((await client.list_resource_templates()).resource_templates[0].uri_template == "review://{id}")


async def whoever_follows_a_review_hears_of_each_change(folder):
    """B-49 and decisions 41: subscriptions of both eras, for changes of this process and of another on the same file."""
    with broker(folder) as running, broker(folder) as beside:
        heard = asyncio.Queue()

        async def hear(message):
            if getattr(message, "method", "") == "notifications/resources/updated":
                heard.put_nowait(message.params.uri)

        async with agent(running.url, LEGACY, message_handler=hear) as old, agent(running.url, MODERN) as new:
            templates = [await one.client.list_resource_templates() for one in (old, new)]
            check([t.resource_templates[0].uri_template for t in templates] == ["review://{id}"] * 2, templates)
            made = await new.submit_proposal(intent="i", diff=DIFF, agent_type="a", phase="1")
            other = await new.submit_proposal(intent="i", diff=DIFF, agent_type="a", phase="1")
            review, uri = {"review_id": made["review_id"]}, f"review://{made['review_id']}"
            await old.client.subscribe_resource(uri)
            missing = f"review://{uuid.uuid4()}"
            async with new.client.listen(resource_subscriptions=[uri, missing]) as following:
                check(following.honored.resource_subscriptions == [uri], following.honored)

                async def both_hear(what):
                    began = time.monotonic()
                    first = await asyncio.wait_for(heard.get(), 5)
                    second = await asyncio.wait_for(anext(following), 5)
                    check(first == second.uri == uri, what, first, second)
                    return time.monotonic() - began

                await new.claim_review(review_id=other["review_id"], reviewer_id="codex-1")
                await new.claim_review(**review, reviewer_id="codex-1")
                soon = await both_hear("a claim")
                async with agent(beside.url, LEGACY) as elsewhere:
                    await elsewhere.post_message(**review, body="from the other process", role="reviewer")
                later = await both_hear("a message of another process")
                # What was told is not told again by looking at the file.
                await asyncio.sleep(1.2)
                check(heard.empty(), "a change was told twice")
                read = json.loads((await new.client.read_resource(uri)).contents[0].text)
                check([m["body"] for m in read["messages"]] == ["from the other process"], read)
                check([p["diff"] for p in read["patches"]] == [DIFF], read)
                await old.client.unsubscribe_resource(uri)
                await new.submit_verdict(**review, decision="approved", reviewer_id="codex-1")
                check((await asyncio.wait_for(anext(following), 5)).uri == uri)
            check(heard.empty(), "heard after unsubscribing")
            try:
                await old.client.subscribe_resource(missing)
                check(False, "a review that is not there can be followed")
            except MCPError as error:
                check(error.error.code == -32002, error)
    check(soon < 0.4, "a change of this process took too long", soon)
    return f"told after {soon * 1000:.0f} ms, of another process after {later * 1000:.0f} ms"


async def calls_that_wait_leave_their_place_to_others(folder):
    """Decisions 18: of two places both are free while two calls wait, and each answer comes although the places are taken."""
    extra = "\n[review]\n[admission]\nmax_concurrent = 2\nqueue_size = 0\n"
    with broker(folder, extra=extra) as running:
        for era in (LEGACY, MODERN):
            async with agent(running.url, era) as one, agent(running.url, era) as two:
                made = await one.submit_proposal(intent="i", diff=DIFF, agent_type="a", phase="1")
                review = {"review_id": made["review_id"]}
                waits = [
                    asyncio.create_task(one.get_review_status(**review, since=made["version"], wait_ms=20000)),
                    asyncio.create_task(two.get_review_status(**review, since="created", wait_ms=20000)),
                    asyncio.create_task(two.list_pending(project="nobody's", wait_ms=3000)),
                ]
                await asyncio.sleep(0.3)
                for _ in range(20):
                    check((await one.get_review_status(**review))["status"] == "created")
                await two.claim_review(**review, reviewer_id="codex-1")
                check([(await wait)["status"] for wait in waits[:2]] == ["claimed", "claimed"])
                check((await waits[2])["total"] == 0)


async def twelve_tools_without_the_extended_ones(folder):
    with broker(folder) as running:
        async with Client(running.url, mode=LEGACY) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            check(len(tools) == 12, tools)
            check(client.server_info.name == "gsd-review-broker", client.server_info)


async def bad_arguments_get_clear_errors(folder):
    with broker(folder) as running:
        async with agent(running.url, MODERN) as one:
            made = await one.submit_proposal(intent="i", diff=DIFF, agent_type="a", phase="1")
            review = {"review_id": made["review_id"]}
            unknown = {"review_id": str(uuid.uuid4())}
            for wanted, tool, arguments in [
                ('/role: "boss" is not one of "proposer" or "reviewer"', "post_message", {**review, "body": "x", "role": "boss"}),
                ('/decision: "maybe" is not one of "approved" or "rejected"', "submit_verdict", {**review, "decision": "maybe"}),
                ("unknown status `open`", "list_reviews", {"status": "open"}),
                ("unknown status `open`", "get_review_status", {**review, "since": "open"}),
                ("must be a UUID", "get_proposal", {"review_id": "../../etc/passwd"}),
                ("there is no review", "get_proposal", unknown),
                ("there is no review", "claim_review", {**unknown, "reviewer_id": "a"}),
                ("reviewer_id is required", "claim_review", review),
                ("Cannot transition from 'created' to 'in_discussion'", "post_message", {**review, "body": "x", "role": "proposer"}),
                ("Cannot transition from 'created' to 'approved'", "submit_verdict", {**review, "decision": "approved"}),
                ("Cannot transition from 'created' to 'closed'", "close_review", review),
                ("not a unified diff", "submit_proposal", {"intent": "i", "diff": "words", "agent_type": "a", "phase": "1"}),
                ("leaves the tree", "submit_proposal", {"intent": "i", "diff": DIFF.replace("src/", "../"), "agent_type": "a", "phase": "1"}),
                ("must not be empty", "submit_proposal", {"intent": " ", "diff": DIFF, "agent_type": "a", "phase": "1"}),
                ('"phase" is a required property', "submit_proposal", {"intent": "i", "diff": DIFF, "agent_type": "a"}),
                ("'dif' was unexpected", "submit_proposal", {"intent": "i", "dif": DIFF, "agent_type": "a", "phase": "1"}),
                ("not both", "list_reviews", {"project": "a", "projects": ["b"]}),
                ("wait_ms is at most 25000", "get_review_status", {**review, "wait_ms": 25001}),
            ]:
                _, message = await one.refused(tool, **arguments)
                check(wanted in message, tool, message)
            check(await one.get_proposal(**review) == await one.get_proposal(**review))
            check((await one.get_review_status(**review))["version"] == 1, "a refusal changed the review")
            check((await one.list_reviews(status="pending"))["total"] == 1, "an alias in a filter")


async def a_diff_of_two_megabytes_comes_back_byte_for_byte(folder):
    lines = [f"+line {n} äöü€ {'x' * (n % 60)}" for n in range(40000)]
    diff = f"--- /dev/null\n+++ b/big.txt\n@@ -0,0 +1,{len(lines)} @@\n" + "\n".join(lines) + "\n"
    check(len(diff.encode()) > 2_000_000, len(diff.encode()))
    with broker(folder) as running:
        for era in (LEGACY, MODERN):
            async with agent(running.url, era) as one:
                made = await one.submit_proposal(intent="big", diff=diff, agent_type="a", phase="1")
                check(made["affected_files"][0]["added"] == len(lines), made["affected_files"])
                parts, offset = [], 0
                while offset is not None:
                    page = (await one.get_proposal(review_id=made["review_id"], offset=offset))["patch"]
                    check(len(page["diff"].encode()) <= 262144, "a page is too large")
                    parts.append(page["diff"])
                    offset = page.get("next_offset")
                check("".join(parts) == diff and len(parts) > 7, len(parts))
                odd, offset = [], 0
                while offset is not None and len(odd) < 50:
                    arguments = {"review_id": made["review_id"], "patch_id": made["patch_id"], "offset": offset, "limit": 77_777}
                    page = (await one.get_patch(**arguments))["patches"][0]
                    odd.append(page["diff"])
                    offset = page.get("next_offset")
                check("".join(odd) == diff, "pages of another size")


def raw_session(running):
    """A legacy session without any SDK, for many calls a second: returns `call(tool, arguments)`."""
    connection = http.client.HTTPConnection(running.host, running.port, timeout=LIMIT_S)
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}

    def post(message):
        connection.request("POST", "/mcp", json.dumps(message), headers)
        answer = connection.getresponse()
        return answer, answer.read()

    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "writer", "version": "1"}}
    answer, _ = post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
    headers["Mcp-Session-Id"] = answer.getheader("Mcp-Session-Id")
    post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(tool, **arguments):
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        answer, body = post(message)
        if answer.status == 503:
            raise ConnectionError("the broker is going down")
        check(answer.status == 200, answer.status, body[:300])
        return json.loads(body)["result"]

    return call


async def p_b01_no_acknowledged_write_is_lost_when_killed(folder):
    rates = []
    for kill in range(KILLS):
        acknowledged, lock = {}, threading.Lock()
        with broker(folder) as running:
            began = time.monotonic()
            writers = [threading.Thread(target=write_until_gone, args=(running, acknowledged, lock)) for _ in range(8)]
            for writer in writers:
                writer.start()
            time.sleep(0.5 + 0.13 * kill)
            os.kill(running.child.pid, signal.SIGKILL)
            running.child.wait()
            for writer in writers:
                writer.join()
            rates.append(sum(map(len, acknowledged.values())) / (time.monotonic() - began))
        look(folder, "verify", json_too=False)
        for review_id, bodies in acknowledged.items():
            kept = [m["body"] for m in look(folder, "show", review_id)["messages"]]
            # At most the one write that was under way was kept without being acknowledged.
            check(kept[: len(bodies)] == bodies and len(kept) <= len(bodies) + 1, review_id, len(bodies), len(kept))
    check(statistics.median(rates) >= 200, "the kills met fewer than 200 writes a second", rates)
    return f"{KILLS} kills, {min(rates):.0f} to {max(rates):.0f} writes a second"


def write_until_gone(running, acknowledged, lock):
    """One agent that posts as fast as it is answered, and remembers what was acknowledged."""
    with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
        call = raw_session(running)
        made = call("submit_proposal", intent="i", diff=DIFF, agent_type="a", phase="1")["structuredContent"]
        review_id, bodies = made["review_id"], []
        with lock:
            acknowledged[review_id] = bodies
        call("claim_review", review_id=review_id)
        for n in range(100_000):
            body = f"message {n}"
            if call("post_message", review_id=review_id, body=body, role="reviewer")["isError"]:
                return
            bodies.append(body)


async def p_b06_a_full_disk_is_survived(folder):
    """In a mount namespace of its own, where a small tmpfs holds the database."""
    command = ["unshare", "-rm", sys.executable, __file__, "--disk-full", folder]
    output, code = harness.bounded(command, 120, cwd=harness.ROOT)
    check(code == 0, output)
    return output.strip().splitlines()[-1]


def disk_full(folder):
    disk = Path(folder) / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk], check=True)
    with broker(folder, database=disk / "reviews.db") as running:
        call = raw_session(running)
        made = call("submit_proposal", intent="i", diff=DIFF, agent_type="a", phase="1")["structuredContent"]
        review = {"review_id": made["review_id"]}
        call("claim_review", **review)
        with open(disk / "ballast", "wb", buffering=0) as ballast, contextlib.suppress(OSError):
            while True:
                ballast.write(b"x" * 4096)
        acknowledged, slowest, full = 0, 0.0, 0
        for n in range(60):
            began = time.monotonic()
            result = call("post_message", **review, body=f"{n} " + "y" * 20_000, role="reviewer")
            if result["isError"]:
                slowest = max(slowest, time.monotonic() - began)
                error = json.loads(result["content"][0]["text"])
                check(error["error"] == "storage_full", error)
                full += 1
            else:
                acknowledged += 1
        check(full > 10, "the disk never was full", acknowledged, full)
        check(slowest <= 0.1, "a refusal took too long", slowest)
        status = call("get_review_status", **review)["structuredContent"]
        check(status["status"] in ("claimed", "in_discussion"), "reads go on", status)
        (disk / "ballast").unlink()
        began = time.monotonic()
        while call("post_message", **review, body="space again", role="reviewer")["isError"]:
            check(time.monotonic() - began < 5, "no recovery within 5 s")
            time.sleep(0.1)
        back = time.monotonic() - began
        messages = call("get_messages", **review, limit=200)["structuredContent"]
        check(messages["total"] == acknowledged + 1, messages["total"], acknowledged)
        with sqlite3.connect(disk / "reviews.db") as database:
            check(database.execute("PRAGMA integrity_check").fetchone() == ("ok",))
    print(f"{full} writes refused as storage_full, slowest {slowest * 1000:.0f} ms, back after {back * 1000:.0f} ms")


async def p_b08_a_backup_under_writes_is_a_prefix_of_what_was_acknowledged(folder):
    with broker(folder) as running:
        acknowledged, lock = {}, threading.Lock()
        writer = threading.Thread(target=write_until_gone, args=(running, acknowledged, lock))
        writer.start()
        time.sleep(0.5)
        before = {review: len(bodies) for review, bodies in acknowledged.items()}
        look(folder, "backup", folder / "copy.db", json_too=False)
        harness.stop(running.child)
        writer.join()
    look(folder, "verify", "--db", folder / "copy.db", json_too=False)
    for review, count in before.items():
        kept = [m["body"] for m in look(folder, "show", review, "--db", folder / "copy.db")["messages"]]
        check(len(kept) >= count and kept == [f"message {n}" for n in range(len(kept))], count, len(kept))


async def a_claim_expires_and_a_waiting_reviewer_gets_the_review(folder):
    with broker(folder, extra="\n[review]\nclaim_timeout = 1\n") as running:
        async with agent(running.url, LEGACY) as slow, agent(running.url, LEGACY) as quick:
            made = await slow.submit_proposal(intent="i", diff=DIFF, agent_type="a", phase="1")
            review = {"review_id": made["review_id"]}
            await slow.claim_review(**review)
            check((await quick.list_pending())["total"] == 0)
            free = await quick.list_pending(wait_ms=10000)
            check(free["total"] == 1, free)
            check((await quick.claim_review(**review))["claim_generation"] == 2)
            kind, _ = await slow.refused("submit_verdict", **review, decision="approved", claim_generation=1)
            check(kind == "stale_claim", kind)


CHECKS = [
    the_ten_steps_in_every_pairing_of_eras_then_a_restart,
    the_gateway_offers_the_tools_beside_its_backends,
    whoever_follows_a_review_hears_of_each_change,
    calls_that_wait_leave_their_place_to_others,
    twelve_tools_without_the_extended_ones,
    bad_arguments_get_clear_errors,
    a_diff_of_two_megabytes_comes_back_byte_for_byte,
    a_claim_expires_and_a_waiting_reviewer_gets_the_review,
    p_b01_no_acknowledged_write_is_lost_when_killed,
    p_b06_a_full_disk_is_survived,
    p_b08_a_backup_under_writes_is_a_prefix_of_what_was_acknowledged,
]


def main():
    passed = failed = 0
    for one in CHECKS:
        if OPTIONS.check and not any(word in one.__name__ for word in OPTIONS.check):
            continue
        with tempfile.TemporaryDirectory(prefix="review-") as folder:
            try:
                note = asyncio.run(asyncio.wait_for(one(Path(folder)), 300))
                print(f"ok      {one.__name__}{f': {note}' if note else ''}", flush=True)
                passed += 1
            except Exception:
                print(f"FAILED  {one.__name__}\n{traceback.format_exc()}", flush=True)
                for log in Path(folder).glob("*.log"):
                    print(harness.tail(log))
                failed += 1
    print(f"review: {passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--disk-full", metavar="FOLDER", help=argparse.SUPPRESS)
    parser.add_argument("check", nargs="*")
    OPTIONS = parser.parse_args()
    KILLS = OPTIONS.kills
    if OPTIONS.disk_full:
        disk_full(OPTIONS.disk_full)
    else:
        sys.exit(main())
