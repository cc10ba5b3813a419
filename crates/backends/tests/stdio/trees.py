"""Process trees that do not want to die. Each says `ready` once the whole tree stands."""

import os
import signal
import sys
import time

FOR = 120  # seconds, so that a failing test leaves nothing for ever


def deaf():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)


def stay():
    deaf()
    end = time.time() + FOR
    while time.time() < end:
        time.sleep(1)
    os._exit(0)


def ready():
    os.write(1, b"ready\n")


def fork(body):
    pid = os.fork()
    if pid == 0:
        body()
        os._exit(0)
    return pid


def daemon():
    """The double fork of the book: no parent, no session, no group in common."""

    def middle():
        os.setsid()
        fork(stay)
        os._exit(0)

    os.waitpid(fork(middle), 0)


def chain(depth):
    if depth == 0:
        ready()
    else:
        fork(lambda: (os.setsid(), chain(depth - 1)))
    stay()


def runner():
    """Never the same pid for longer than a moment."""
    end = time.time() + FOR
    while time.time() < end:
        time.sleep(0.002)
        if os.fork():
            os._exit(0)
        os.setsid()


def main(kind):
    if kind == "polite":
        ready()
        sys.stdin.buffer.read()
    elif kind == "obeys-term":
        ready()
        time.sleep(FOR)
    elif kind == "deaf":
        deaf()
        ready()
        stay()
    elif kind == "sessions":
        fork(lambda: (os.setsid(), stay()))
        ready()
        stay()
    elif kind == "daemon":
        daemon()
        ready()
        stay()
    elif kind == "daemon-left-behind":
        daemon()
        daemon()
        ready()
        os._exit(7)
    elif kind == "chain":
        chain(30)
    elif kind == "bush":
        for _ in range(40):
            fork(stay)
        ready()
        stay()
    elif kind == "runner":
        fork(runner)
        fork(runner)
        ready()
        stay()
    elif kind == "kills-its-group":
        daemon()
        fork(stay)
        ready()
        os.kill(0, signal.SIGKILL)
    elif kind == "closed-pipes":
        ready()
        os.close(0), os.close(1), os.close(2)
        stay()
    else:
        raise SystemExit(f"no such tree: {kind}")


main(sys.argv[1])
