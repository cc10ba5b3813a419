"""Every write to the disk, watched by strace: what a failing one, or a power failure, would take."""

import contextlib
import http.client
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import time
from pathlib import Path

import harness

from broker import DIFF, PATCH, check, look, raw_session


@contextlib.contextmanager
def broker_under(folder, wrapper, database):
    """`sentinel review serve` as the child of another program; yields a raw session's `call`, or None if it never came up."""
    config = harness.write_config(folder, [], extra="\n[review]\n")
    serve = [harness.binary(), "review", "serve", "--config", config, "--port", "0", "--db", database]
    streams = {"stdout": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
    run = Path(folder) / "data/run"
    shutil.rmtree(run, ignore_errors=True)
    with harness.process([*wrapper, *serve], f"traced-{time.monotonic_ns()}", folder, **streams) as child:

        def up():
            for file in run.glob("*.json"):
                with contextlib.suppress(OSError, ValueError, KeyError):
                    return json.loads(file.read_text())["listen"]
            return child.poll() is not None and "gone"

        listen = harness.wait(up, "the traced broker")
        if listen == "gone":
            yield None
            return
        running = harness.Gateway(child, listen)
        running.pid = int(next(run.glob("*.json")).stem)
        try:
            running.call = raw_session(running)
        except (OSError, http.client.HTTPException):
            running.call = None
        yield running
        # strace is ended by its child's end, not the other way round.
        with contextlib.suppress(ProcessLookupError):
            os.kill(running.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(10)


def life(call):
    """One review from its proposal to its end; yields the name of each step that was acknowledged."""
    made = call("submit_proposal", intent="i", diff=DIFF, agent_type="a", phase="1")
    if made["isError"]:
        return
    review = {"review_id": made["structuredContent"]["review_id"]}
    yield review["review_id"]
    for step, arguments in [
        ("claim_review", {}),
        ("post_message", {"body": "one", "role": "reviewer"}),
        ("submit_patch", {"diff": PATCH, "role": "reviewer"}),
        ("post_message", {"body": "two", "role": "proposer"}),
        ("submit_verdict", {"decision": "approved", "claim_generation": 1}),
        ("close_review", {}),
    ]:
        # After a refusal the same again: the store must have recovered by itself, or refuse again.
        for _ in range(20):
            if not call(step, **review, **arguments)["isError"]:
                yield arguments.get("body", step)
                break
            time.sleep(0.1)
        else:
            return


def kept_of_life(database, review_id):
    """The steps of `life` that a file has, from its history."""
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as db:
        if db.execute("PRAGMA integrity_check").fetchall() != [("ok",)] or db.execute("PRAGMA foreign_key_check").fetchall():
            return ["damaged"]
        rows = db.execute(
            "SELECT e.event, m.body FROM review_events e LEFT JOIN messages m ON m.id = e.about_id"
            " WHERE e.review_id = ? ORDER BY e.seq", (review_id,)
        ).fetchall()
    names = {
        "review_created": review_id, "review_claimed": "claim_review", "patch_submitted": "submit_patch",
        "verdict_approved": "submit_verdict", "review_closed": "close_review",
    }
    return [body or names[event] for event, body in rows]


async def test_p_b03_each_acknowledgement_came_after_the_sync_of_what_it_says(folder):
    """Every write to the files that no finished fdatasync covers is dropped, as a power failure would; then it is read."""
    database = folder / "synced.db"
    trace = folder / "trace"
    calls = "trace=pwrite64,fdatasync,fsync,ftruncate,unlink"
    strace = ["strace", "-f", "-ttt", "-T", "-y", "-xx", "-s", "1000000", "-e", calls, "-o", trace]
    acknowledged = []
    with broker_under(folder, strace, database) as running:
        for step in life(running.call):
            acknowledged.append((time.time(), step))
        for n in range(20):
            made = running.call("submit_proposal", intent=f"more {n}", diff=DIFF, agent_type="a", phase="1")
            acknowledged.append((time.time(), made["structuredContent"]["review_id"]))
    check(len(acknowledged) == 27, acknowledged)
    operations = read_trace(trace, database)
    lost = [losses(folder, operations, database, acknowledged[: k + 1]) for k in range(len(acknowledged))]
    check(not any(lost), "acknowledged before it was synced", [one for one in lost if one])
    # Sabotage: without the last sync before each acknowledgement something is lost.
    lost = [losses(folder, operations, database, acknowledged[: k + 1], forget_last_sync=True) for k in range(len(acknowledged))]
    check(sum(map(bool, lost)) > 20, "the model does not see a missing sync", lost)
    syncs = sum(kind == "sync" for _, kind, *_ in operations)
    return f"{len(acknowledged)} acknowledgements, {syncs} syncs, 0 lost; without the last sync {sum(map(bool, lost))} are"

TRACED = re.compile(
    r"^(?P<pid>\d+) +(?P<at>[\d.]+) (?:(?P<name>\w+)\((?P<args>.*?)(?: <unfinished \.\.\.>|\) += (?P<result>-?\d+)[^<]*<(?P<took>[\d.]+)>)"
    r"|<\.\.\. (?P<resumed>\w+) resumed>(?P<rest>.*?)\) += (?P<result2>-?\d+)[^<]*<(?P<took2>[\d.]+)>)$"
)


def read_trace(trace, database):
    """The writes to the database's files in order: (time of completion, kind, file, ...)."""
    pending, operations = {}, []
    for line in trace.read_text().splitlines():
        found = TRACED.match(line)
        if not found:
            continue
        if found["name"] and found["result"] is None:
            pending[found["pid"]] = (found["name"], found["args"])
            continue
        name, args = (found["name"], found["args"]) if found["name"] else pending.pop(found["pid"])
        if found["resumed"]:
            args += found["rest"]
            done = float(found["at"])
        else:
            done = float(found["at"]) + float(found["took"])
        file = re.match(r"\d+<([^>]*)>|\"([^\"]*)\"", args)
        path = decode(file[1] or file[2]) if file else ""
        if not path.startswith(str(database)) or path.endswith("-shm"):
            continue
        if name in ("fdatasync", "fsync"):
            operations.append((done, "sync", path))
        elif name == "unlink":
            operations.append((done, "unlink", path))
        elif name == "ftruncate":
            operations.append((done, "truncate", path, int(args.split(",")[1])))
        else:
            data = re.search(r'"((?:\\x[0-9a-f]{2})*)", (\d+), (\d+)', args)
            content = bytes.fromhex(data[1].replace("\\x", ""))
            check(len(content) == int(data[2]), "the trace has only a part of a write")
            operations.append((done, "write", path, int(data[3]), content))
    return operations


def decode(text):
    """A name as strace shows it: in hexadecimal, or as it is."""
    return bytes.fromhex(text.replace("\\x", "")).decode() if text.startswith("\\x") else text


def losses(folder, operations, database, acknowledged, forget_last_sync=False):
    """What a power failure right after the last of these acknowledgements would have taken."""
    at = acknowledged[-1][0]
    before = [one for one in operations if one[0] <= at]
    if forget_last_sync:
        last = max((k for k, one in enumerate(before) if one[1] == "sync"), default=None)
        before = [one for k, one in enumerate(before) if k != last]
    files, waiting = {}, {}
    for _, kind, path, *what in before:
        if kind == "sync":
            for change in waiting.pop(path, []):
                change(files.setdefault(path, bytearray()))
        elif kind == "unlink":
            files.pop(path, None)
            waiting.pop(path, None)
        elif kind == "truncate":
            waiting.setdefault(path, []).append(lambda file, size=what[0]: file.__delitem__(slice(size, None)))
        else:
            waiting.setdefault(path, []).append(lambda file, what=what: put(file, *what))
    place = Path(folder) / "after-power-failure"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for path, content in files.items():
        (place / Path(path).name).write_bytes(content)
    copy = place / database.name
    first = acknowledged[0][1]
    try:
        # Opened for writing, as after a real failure, so that the log is read.
        with contextlib.closing(sqlite3.connect(copy)) as db:
            reviews = {row for (row,) in db.execute("SELECT id FROM reviews")}
            ok = db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            db.execute("SELECT count(*) FROM messages").fetchone()
        kept = kept_of_life(copy, first)
    except sqlite3.DatabaseError as error:
        return str(error)
    wanted_life = [step for _, step in acknowledged[:7]]
    missing = [step for step in wanted_life if step not in kept] + [step for _, step in acknowledged[7:] if step not in reviews]
    return missing or (None if ok else "damaged")


def put(file, offset, content):
    if len(file) < offset:
        file.extend(bytes(offset - len(file)))
    file[offset : offset + len(content)] = content

FAULTS = ["signal=SIGKILL", "error=EIO", "error=ENOSPC"]
# SQLite in WAL mode renames nothing; the files are opened once and again after a failure.
SYSTEM_CALLS = ["pwrite64", "fdatasync", "ftruncate", "openat"]


def faulty_life(folder, system_call, fault, nth):
    """A life during which the nth such system call on the database fails. False if there was no nth."""
    database = Path(folder) / f"{system_call}-{fault[-4:]}-{nth}.db"
    paths = [part for suffix in ("", "-wal") for part in ("-P", f"{database}{suffix}")]
    trace = Path(folder) / "trace"
    # The first steps open the files; what is meant is the life of a review, so the writer's own calls are counted.
    inject = f"inject={system_call}:{fault}:when={nth}"
    strace = ["strace", "-f", "-o", trace, *paths, "-e", f"trace={system_call}", "-e", inject]
    acknowledged = []
    with broker_under(folder, strace, database) as running:
        if running is not None:
            with contextlib.suppress(OSError, http.client.HTTPException):
                for step in life(running.call or raw_session(running)):
                    acknowledged.append(step)
    fired = "(INJECTED)" in trace.read_text() or "killed by SIGKILL" in trace.read_text()
    if not acknowledged:
        check(fired, "nothing was acknowledged and nothing failed", system_call, fault, nth)
        return True
    kept = kept_of_life(database, acknowledged[0])
    what = f"{system_call} {fault} when={nth}: acknowledged {acknowledged}, kept {kept}"
    check(kept[: len(acknowledged)] == acknowledged and len(kept) <= len(acknowledged) + 1, what)
    look(folder, "verify", "--db", database, json_too=False)
    if not fault.startswith("signal"):
        check(len(acknowledged) == 7, "did not recover", what)
    database.unlink()
    return fired


async def test_p_b04_a_failing_system_call_loses_nothing_acknowledged(folder, options):
    """Each call that writes the database fails once, or is the last thing the broker does."""
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    ran = 0
    if options.long:
        for system_call in SYSTEM_CALLS:
            for fault in FAULTS:
                nth = 1
                while faulty_life(folder, system_call, fault, nth):
                    nth += 1
                    ran += 1
        return f"{ran} faults, all that there are"
    # One of each kind where it hurts most, and some anywhere.
    chosen = [("fdatasync", fault, chance.randint(2, 8)) for fault in FAULTS]
    chosen += [("pwrite64", chance.choice(FAULTS), chance.randint(1, 90)) for _ in range(6)]
    for system_call, fault, nth in chosen:
        ran += faulty_life(folder, system_call, fault, nth)
    check(ran >= 3, "hardly anything failed", ran)
    return f"{ran} faults of {len(chosen)} tries (seed {seed})"
