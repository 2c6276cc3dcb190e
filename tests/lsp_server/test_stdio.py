"""The process hears its client and leaves, whatever the client does with what it is sent."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.lsp_server.session import ROOT

EARS_SHUT = 2_000  # answers that no pipe holds


def message(method, message_id=None, params=None):
    body = {"jsonrpc": "2.0", "method": method, "params": params}
    data = json.dumps(body if message_id is None else {**body, "id": message_id}).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(data), data)


@pytest.fixture
def server(tmp_path):
    script = {"answers": {}, "delay": 0, "load": "ok", "log": str(tmp_path / "generations")}
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DRAFTLINE_HOME": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.lsp_server.scripted_server", json.dumps(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    process.stdin.write(message("initialize", 0, {"processId": None, "rootUri": None, "capabilities": {}}))
    process.stdin.flush()
    yield process
    process.kill()
    process.communicate()


def test_a_client_that_reads_nothing_is_still_heard(server):
    for number in range(EARS_SHUT):
        server.stdin.write(message("draftline/status", number))
    server.stdin.write(message("shutdown", "last") + message("exit"))
    server.stdin.flush()
    assert server.wait(60) == 0


def test_a_client_that_reads_late_gets_every_answer(server):
    for number in range(EARS_SHUT):
        server.stdin.write(message("draftline/status", number))
    server.stdin.flush()
    for number in range(EARS_SHUT + 1):  # with that to initialize
        length = int(server.stdout.readline().split(b":")[1])
        while server.stdout.readline().strip():
            pass
        assert json.loads(server.stdout.read(length))["id"] == max(0, number - 1)


def test_a_client_that_cannot_hear_any_more_is_left(server):
    server.stdout.close()
    server.stdin.write(message("draftline/status", 1))
    server.stdin.flush()
    assert server.wait(60) == 1


def test_the_last_answer_is_written_before_leaving(server):
    server.stdin.write(message("shutdown", "last") + message("exit"))
    server.stdin.flush()
    assert b'"last"' in server.stdout.read()
    assert server.wait(60) == 0
