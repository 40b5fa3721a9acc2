"""A missing service skips the test with its reason, and fails it where it was promised."""

import socket

import pytest
from _pytest.outcomes import Failed, Skipped

from tests.services import Missing, program, require, required, server


def missing() -> str:
    raise Missing("nobody is there")


def test_a_service_that_is_there_gives_its_address():
    assert require("redis", environment={}, probes={"redis": lambda: "here"}) == "here"


def test_a_missing_service_skips_the_test_and_says_why():
    with pytest.raises(Skipped, match="wants redis: nobody is there"):
        require("redis", environment={}, probes={"redis": missing})


def test_a_missing_service_that_was_promised_fails_the_test():
    environment = {"TAKEBACK_REQUIRE": "node, redis"}
    with pytest.raises(Failed, match="TAKEBACK_REQUIRE names redis, but nobody is there"):
        require("redis", environment=environment, probes={"redis": missing})


def test_a_promise_for_another_service_does_not_count():
    with pytest.raises(Skipped):
        require("redis", environment={"TAKEBACK_REQUIRE": "node"}, probes={"redis": missing})


def test_a_promise_for_an_unknown_service_is_refused():
    with pytest.raises(ValueError, match="rabbit'"):
        required({"TAKEBACK_REQUIRE": "rabbit"})


def test_a_server_is_there_when_its_port_answers():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert server(port) == f"127.0.0.1:{port}"
    with pytest.raises(Missing, match=str(port)):
        server(port)


def test_a_program_is_there_when_the_path_has_it():
    assert program("sh").endswith("/sh")
    with pytest.raises(Missing, match="'no-such-program'"):
        program("no-such-program")
