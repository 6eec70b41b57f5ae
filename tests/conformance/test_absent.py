# SPDX-License-Identifier: Apache-2.0
"""What the conformance suites need is not on a server that nobody configured for them, and is never installed."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import mcp_http
from mcp_client import Server
from tap import main

RESOURCES = ("test://static-text", "test://static-binary", "test://watched-resource", "test://template/1/data")


def fixture_names():
    """Names of all tools and prompts that a server with the plugin has and one without it has not."""
    names = []
    with mcp_http.Server(config="plugins = ( %s );\n" % mcp_http.fixtures_entry()) as server, \
            mcp_http.Client(server.url) as client:
        for method, key in (("tools/list", "tools"), ("prompts/list", "prompts")):
            names.append({item["name"] for item in listed(client, method, key)})
    return names


def listed(client, method, key):
    items, cursor = [], None
    while True:
        result = client.result(method, {"cursor": cursor} if cursor else {})
        items += result[key]
        cursor = result.get("nextCursor")
        if cursor is None:
            return items


def test_a_normal_server_has_none_of_it():
    tools, prompts = fixture_names()
    assert {"greet", "slow_compute", "test_simple_text", "execute_python"} <= tools, tools
    with mcp_http.Server() as server, mcp_http.Client(server.url) as client:
        normal = {item["name"] for item in listed(client, "tools/list", "tools")}
        assert "execute_python" in normal
        assert not [name for name in normal if name.startswith("test_") or name in (
            "greet", "slow_compute", "failing_job", "protocol_error_job", "confirm_delete", "multi_input",
            "json_schema_2020_12_tool")], normal
        assert tools - normal >= {"greet", "test_simple_text"}
        normal = {item["name"] for item in listed(client, "prompts/list", "prompts")}
        assert not [name for name in normal if name.startswith("test_")], normal
        assert prompts - normal >= {"test_simple_prompt"}
        for method, key in (("resources/list", "resources"), ("resources/templates/list", "resourceTemplates")):
            assert "test://" not in json.dumps(listed(client, method, key))
        for uri in RESOURCES:
            error = client.request("resources/read", {"uri": uri})["error"]
            assert error["code"] == -32602 and error["data"]["uri"] == uri, error
        for tool in ("greet", "test_simple_text"):
            assert client.request("tools/call", {"name": tool, "arguments": {}})["error"]["code"] == -32602


def test_nor_over_standard_input():
    with Server([mcp_http.PROGRAM, "mcp-serve"]) as server:
        server.initialize()
        names = {tool["name"] for tool in server.ask("tools/list")["result"]["tools"]}
        assert "execute_python" in names and not [name for name in names if name.startswith("test_")], names
        assert server.ask("resources/read", {"uri": RESOURCES[0]})["error"]["code"] == -32002


def test_it_is_not_installed():
    done = subprocess.run(["meson", "introspect", "--installed", mcp_http.BUILD_ROOT], capture_output=True, text=True,
                          check=True)
    installed = json.loads(done.stdout)
    assert any(path.endswith("context-files.so") for path in installed), installed
    assert not [path for path in installed if "conformance" in path]
    listing = subprocess.run([mcp_http.PROGRAM, "plugins", "list"], capture_output=True, text=True, check=True).stdout
    assert "conformance" not in listing, listing


if __name__ == "__main__":
    main()
