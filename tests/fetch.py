"""Fetches a process's metrics as Prometheus does, and reads them with its own parser."""

import socket
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

SECONDS_MAX = 20.0


class Fetched:
    """What one fetch has answered."""

    def __init__(self, text: str) -> None:
        self.families = {one.name: one for one in text_string_to_metric_families(text)}
        self._samples = [one for family in self.families.values() for one in family.samples]

    def value(self, name: str, **labels: str) -> float | None:
        """The number of one series; None where there is none."""
        found = [one.value for one in self._samples if (one.name, one.labels) == (name, labels)]
        assert len(found) <= 1
        return found[0] if found else None

    def labels(self, name: str) -> set[frozenset[str]]:
        """Which names of labels the series of a metric have."""
        return {frozenset(one.labels) for one in self._samples if one.name == name}

    def words(self) -> set[str]:
        """Every value of every label."""
        return {word for one in self._samples for word in one.labels.values()}


def fetch(port: int, host: str = "127.0.0.1") -> Fetched:
    """One fetch."""
    url = f"http://{host}:{port}/metrics"
    with urllib.request.urlopen(url, timeout=SECONDS_MAX) as answer:
        assert answer.status == 200
        return Fetched(answer.read().decode())


def free_ports(count: int) -> int:
    """The first of so many ports in a row at which nobody listens now."""
    for _ in range(100):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            first: int = listener.getsockname()[1]
        if first + count < 65_536 and all(_is_free(first + n) for n in range(count)):
            return first
    raise AssertionError(f"no {count} ports in a row are free")


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
