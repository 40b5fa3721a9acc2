"""Which server the tests use: an address first, then Docker, then the embedded one."""

import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tests.database import URL_VARIABLE, Source, choose, docker_answers

GIVEN = {URL_VARIABLE: "postgresql://127.0.0.1/postgres"}


@pytest.mark.parametrize(
    ("environment", "docker", "source"),
    [
        (GIVEN, True, Source.GIVEN),
        (GIVEN, False, Source.GIVEN),
        ({}, True, Source.CONTAINER),
        ({}, False, Source.EMBEDDED),
        ({URL_VARIABLE: ""}, False, Source.EMBEDDED),
    ],
)
def test_the_first_source_that_is_there_is_taken(environment, docker, source):
    assert choose(environment, lambda: docker) is source


def test_docker_is_not_asked_when_an_address_is_given():
    def refuse_to_be_asked() -> bool:
        pytest.fail("Docker was asked")

    assert choose(GIVEN, refuse_to_be_asked) is Source.GIVEN


def test_a_docker_client_without_an_engine_does_not_answer(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    assert not docker_answers()


def test_an_engine_that_stays_silent_does_not_answer(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{silent.getsockname()[1]}")
        assert not docker_answers()


def test_an_engine_that_replies_answers(monkeypatch):
    with HTTPServer(("127.0.0.1", 0), Engine) as engine:
        thread = threading.Thread(target=engine.serve_forever)
        thread.start()
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{engine.server_port}")
        assert docker_answers()
        engine.shutdown()
        thread.join()


class Engine(BaseHTTPRequestHandler):
    """As much of an engine as a ping needs."""

    def do_GET(self) -> None:
        body = b"OK" if self.path.endswith("/_ping") else b'{"ApiVersion": "1.50"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *values: object) -> None:
        """Say nothing: the test's output is the test's."""
