"""How long things take: measured in the page, printed as figures."""

import contextlib
import http.client
import http.server
import json
import threading
import time

import harness
import populated
import pytest
from conftest import has_console, in_node

# Calls of one batch of JSON-RPC: each is a record, and together they cost one request.
BATCH = 50
RATE = 1_100
MARKER = "burst"


class Load(threading.Thread):
    """Records at a steady rate: batches of calls to a tool that answers at once."""

    def __init__(self, world):
        super().__init__(daemon=True)
        self.world, self.over, self.made, self.n = world, threading.Event(), 0, 0
        self.began = time.monotonic()
        self.start()

    def run(self):
        connection = http.client.HTTPConnection(self.world.gateway.host, self.world.gateway.port, timeout=20)
        due = time.monotonic()
        while not self.over.is_set():
            # An unknown name is refused at once: the record costs what any does, and no backend takes part.
            self.n += 1
            calls = [{"jsonrpc": "2.0", "id": n, "method": f"{MARKER}_{self.n}", "params": {}} for n in range(BATCH)]
            connection.request("POST", "/rpc", json.dumps(calls), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            assert answer.status == 200, answer.status
            answer.read()
            self.made += BATCH
            due += BATCH / RATE
            self.over.wait(max(0, due - time.monotonic()))
        connection.close()

    def end(self):
        self.over.set()
        self.join()
        return {"rate": self.made / (time.monotonic() - self.began), "last": f"{MARKER}_{self.n}"}


@contextlib.contextmanager
def load_on_demand(world):
    """A door for the script in node: /begin and /end of the load."""
    running = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path == "/begin":
                running.append(Load(world))
            body = json.dumps(running.pop().end() if self.path == "/end" else {}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            for one in running:
                one.end()


@pytest.mark.timeout(300)
def test_figures_of_the_page(unguarded, checks, folder):
    has_console(unguarded)
    many = populated.stdio("many", harness.PYTHON, harness.FIXTURES / "schemas_server.py", "--many", "5000")
    with harness.scratch() as other, harness.gateway(other, [many], extra="[review]\nenabled = true") as big, load_on_demand(unguarded) as load:
        harness.wait(lambda: b"many_4999" in big.get("/llms.txt")[1], "all tools", big.child, 60)
        told = {"url": unguarded.url, "manyUrl": f"http://{big.host}:{big.port}", "load": load, "marker": f"{MARKER}_"}
        in_node(checks, folder, "measures.test.mjs", 280, **told)
