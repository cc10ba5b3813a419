"""The documents about the catalog, judged by programs that others wrote: a validator, YAML readers, generators, a browser."""

import json
import os
import subprocess

import harness
import jsonschema
import openapi_spec_validator
import pytest
import ruamel.yaml
import yaml

EXPLORER_LIMIT_S = 240


def stdio(name, program, *args):
    command, *first = program
    return {"name": name, "type": "stdio", "command": str(command), "args": [*map(str, first), *args]}


def fixture_program():
    path = harness.binary().parent / "sentinel-fixture"
    if not path.exists():
        subprocess.run(["cargo", "build", "--quiet", "-p", "sentinel-fixture"], cwd=harness.ROOT, check=True)
    return path


def schemas(*args):
    return stdio("odd", [harness.PYTHON, harness.FIXTURES / "schemas_server.py"], *args)


@pytest.fixture(scope="module")
def gateway():
    with harness.scratch() as folder:
        backends = [stdio("alpha", [fixture_program()], "stdio"), schemas()]
        with harness.gateway(folder, backends, extra='[review]\nenabled = true') as running:
            yield running


def read(gateway, path):
    status, body = gateway.get(path)
    assert status == 200, (path, status, body[:300])
    return body


def problems(document):
    found = openapi_spec_validator.OpenAPIV31SpecValidator(document).iter_errors()
    return [f"{list(getattr(one, 'absolute_path', []))}: {str(one)[:300]}" for one in found]


@pytest.mark.parametrize("path", ("/openapi.json", "/admin/openapi.json"))
def test_a_2_the_document_passes_a_validator(gateway, path):
    document = json.loads(read(gateway, path))
    assert document["openapi"].startswith("3.1.")
    assert problems(document) == []


def test_a_2_the_yaml_document_is_the_json_document(gateway):
    document, text = json.loads(read(gateway, "/openapi.json")), read(gateway, "/openapi.yaml").decode()
    assert yaml.safe_load(text) == document
    assert ruamel.yaml.YAML(typ="safe").load(text) == document


def test_a_2_a_document_of_5000_tools_passes_a_validator():
    with harness.scratch() as folder, harness.gateway(folder, [schemas("--many", "5000")]) as running:
        limit_s = 60
        harness.wait(lambda: b"many_4999" in running.get("/llms.txt")[1], "all tools", running.child, limit_s)
        connection = harness.http.client.HTTPConnection(running.host, running.port, timeout=limit_s)
        connection.request("GET", "/openapi.json")
        answer = connection.getresponse()
        document = json.loads(answer.read())
        # The bytes are ready now, and whoever has them is sent none.
        connection.request("GET", "/openapi.json", headers={"If-None-Match": answer.headers["ETag"]})
        again = connection.getresponse()
        assert (again.status, again.read()) == (304, b"")
        connection.close()
    assert len(document["paths"]) > 5000
    names = [op["operationId"] for item in document["paths"].values() for op in item.values()]
    assert len(names) == len(set(names))
    assert problems(document) == []


def test_a_2_generators_take_the_document_without_a_warning(gateway, tmp_path):
    document = tmp_path / "openapi.json"
    document.write_bytes(read(gateway, "/openapi.json"))
    typescript = harness.MODULES / "openapi-typescript/bin/cli.js"
    output, code = harness.bounded([harness.NODE, typescript, document, "-o", tmp_path / "schema.d.ts"], 120)
    assert code == 0 and "rror" not in output, output
    checker = harness.MODULES / "typescript/bin/tsc"
    output, code = harness.bounded([harness.NODE, checker, "--noEmit", "--strict", tmp_path / "schema.d.ts"], 120)
    assert code == 0, output
    config = tmp_path / "generator.yaml"
    config.write_text("post_hooks: []\n")
    program = harness.BUILD / "venv/bin/openapi-python-client"
    made = tmp_path / "client"
    command = [program, "generate", "--path", document, "--output-path", made, "--meta", "none", "--config", config]
    output, code = harness.bounded([*command, "--fail-on-warning"], 240)
    assert code == 0 and "arning" not in output, output
    output, code = harness.bounded([harness.PYTHON, "-m", "compileall", "-q", made], 240)
    assert code == 0, output
    modules = {path.stem for path in (made / "api").rglob("*.py")}
    assert {"list_files", "prompt_greet", "read_resource", "continue_call"} <= modules


def test_a_3_the_explorer_signs_in_and_calls_a_tool(tmp_path):
    secret = {"SENTINEL_EXPLORER_SECRET": "a secret of tests that is long enough"}
    os.environ.update(secret)
    auth = '[auth]\njwt_secret_env = "SENTINEL_EXPLORER_SECRET"\napi_keys = true'
    with harness.scratch() as folder, harness.gateway(folder, [stdio("alpha", [fixture_program()], "stdio")], extra=auth) as running:
        command = [harness.binary(), "key", "create", "--config", folder / "sentinel.toml", "--role", "admin", "explorer"]
        made = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True)
        key = made.stdout.strip().splitlines()[-1]
        pictures = os.environ.get("SENTINEL_PICTURES", tmp_path)
        script = harness.TESTS / "suites/openapi/explorer.mjs"
        url = f"http://{running.host}:{running.port}"
        environment = {**os.environ, "MODULES": str(harness.MODULES)}
        output, code = harness.bounded([harness.NODE, script, url, key, pictures], EXPLORER_LIMIT_S, env=environment)
    assert code == 0, output
    seen = json.loads(output.strip().splitlines()[-1])
    assert "failed" not in seen, seen
    assert seen["foreign"] == [] and seen["console"] == [] and seen["violations"] == [], seen
    assert seen["before"] == 0 and seen["operations"] > 20 and seen["after"] == 0, seen
    assert seen["status"] == "200" and "from the explorer" in seen["answer"], seen
    assert seen["asked"].count("POST /api/echo") == 1, seen
    # On a narrow screen nothing stands out, and the token is nowhere when the page is left.
    assert seen["wider"] <= 0, seen
    assert key not in seen["stored"], seen


# What OpenRPC 1.3 says of the parts that the gateway writes.
DESCRIPTOR = {
    "type": "object",
    "required": ["name", "schema"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "description": {"type": "string"},
        "required": {"type": "boolean"},
        "schema": {"$ref": "https://json-schema.org/draft/2020-12/schema"},
    },
}
OPENRPC = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["openrpc", "info", "methods"],
    "additionalProperties": False,
    "properties": {
        "openrpc": {"enum": ["1.3.0", "1.3.1", "1.3.2"]},
        "info": {"type": "object", "required": ["title", "version"]},
        "methods": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "params"],
                "additionalProperties": False,
                "properties": {
                    "name": {"type": "string", "minLength": 1},
                    "summary": {"type": "string"},
                    "description": {"type": "string"},
                    "tags": {"type": "array", "items": {"type": "object", "required": ["name"]}},
                    "paramStructure": {"const": "by-name"},
                    "params": {"type": "array", "items": DESCRIPTOR},
                    "result": DESCRIPTOR,
                    "errors": {"type": "array", "items": {"type": "object", "required": ["$ref"], "maxProperties": 1}},
                },
            },
        },
        "components": {
            "type": "object",
            "properties": {
                "schemas": {"additionalProperties": {"$ref": "https://json-schema.org/draft/2020-12/schema"}},
                "errors": {
                    "additionalProperties": {
                        "type": "object",
                        "required": ["code", "message"],
                        "additionalProperties": False,
                        "properties": {"code": {"type": "integer"}, "message": {"type": "string"}, "data": {}},
                    }
                },
            },
        },
    },
}


def references(value):
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        value = list(value.values())
    for inner in value if isinstance(value, list) else ():
        yield from references(inner)


def test_a_2_rpc_discover_answers_an_openrpc_document(gateway):
    connection = harness.http.client.HTTPConnection(gateway.host, gateway.port, timeout=30)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "rpc.discover"})
    connection.request("POST", "/rpc", body, {"Content-Type": "application/json"})
    document = json.loads(connection.getresponse().read())["result"]
    connection.close()
    validator = jsonschema.validators.validator_for(OPENRPC)(OPENRPC)
    assert [error.message[:300] for error in validator.iter_errors(document)] == []
    names = [method["name"] for method in document["methods"]]
    assert len(names) == len(set(names)) and {"rpc.discover", "echo", "draft_7"} <= set(names)
    for method in document["methods"]:
        params = [param["name"] for param in method["params"]]
        assert len(params) == len(set(params)), method["name"]
    for reference in set(references(document)):
        at = document
        for part in reference.removeprefix("#/").split("/"):
            at = at[part]
