"""docs/workers.md names tests that are there, and its numbers are those of the code."""

import pytest

from takeback.declare import Priority
from takeback.dispatch.outcome import INTERRUPTED
from takeback.dispatch.settler import LATE
from takeback.dispatch.trouble import PAUSES
from takeback.ledger.backlog import COUNTED_MAX
from takeback.metrics.collector import LOOK_SECONDS, WAIT_SECONDS_MAX
from takeback.metrics.family import FAMILIES
from takeback.settings import Settings
from takeback_workers import broker, shift, ticker
from takeback_workers.wake_up import QUEUES, queue_of
from tests.docs.page import read, unquoted
from tests.docs.test_guarantees_page import names_of_tests

PAGE = read("docs/workers.md")
NAMED = sorted({span for span in PAGE.spans if span.startswith("test_")})


@pytest.mark.parametrize("name", NAMED)
def test_each_test_that_the_page_names_is_there(name: str):
    assert name in names_of_tests()


def test_the_page_shows_each_of_its_promises():
    assert len(NAMED) >= 10
    for table in PAGE.tables:
        if "shown by" in table.header:
            assert all("`test_" in cell for cell in table.column("shown by"))


@pytest.mark.parametrize("scheme", ["redis", "rediss", "amqp", "amqps"])
def test_each_kind_of_broker_that_the_page_names_is_taken(scheme: str):
    assert f"`{scheme}://`" in PAGE.text
    assert Settings(broker_url=f"{scheme}://h").broker_url == f"{scheme}://h"


def test_the_queues_are_called_as_the_page_says():
    assert queue_of("shop", Priority.HIGH) in PAGE.text
    assert all(f"`{one}`" in PAGE.text for one in QUEUES.values())


def test_the_numbers_of_the_page_are_those_of_the_code():
    assert f"at most {ticker.WINDOW:,} unclaimed" in PAGE.text
    assert f"after {PAUSES[0]} s and up to {PAUSES[-1]:g} s" in PAGE.text
    assert f"itself after {ticker.STAND_IN_SECONDS:g} s" in PAGE.text
    assert shift.STOP_SECONDS_MAX == 6.0 and "for six seconds" in PAGE.text
    assert 1000 / broker.POLL_MS_MAX == 5 and "five times a second" in PAGE.text
    assert f"{ticker.TURN} of each are published" in PAGE.text
    assert ticker.AGAIN_SECONDS == 2.0 and "two seconds where the queue" in PAGE.text
    assert ticker.AGAIN_SECONDS_BEHIND == 60.0 and "after a minute" in PAGE.text
    assert ticker.DOUBLINGS_MAX == 3 and "three times at most" in PAGE.text
    assert ticker.LOOK_SECONDS_MAX == 2.0 and "within about two seconds" in PAGE.text


def test_the_page_lists_each_metric_with_what_tells_its_series_apart():
    told = {unquoted(row[0]): row[1:] for row in PAGE.table("metric", "labels").rows}
    assert list(told) == [one.name for one in FAMILIES]
    for one in FAMILIES:
        labels, says = told[one.name]
        assert labels == ", ".join(f"`{label}`" for label in one.labels)
        assert one.says.removesuffix(", else 0").partition(":")[0] in says


def test_what_the_page_says_of_metrics_is_so():
    assert "TAKEBACK_METRICS=9464" in PAGE.text and Settings(metrics="9464").metrics == "9464"
    words = (LATE, INTERRUPTED.word, "succeeded", "failed", "deferred", "in_doubt")
    assert all(f"`{word}`" in PAGE.text for word in words)
    assert f"up to {COUNTED_MAX:,}" in PAGE.text
    assert LOOK_SECONDS == 5.0 and "at most once in five seconds" in PAGE.text
    assert WAIT_SECONDS_MAX == 2.0 and "within two seconds" in PAGE.text
