"""A person ends the pause of a connector, whatever claims and probes do at that moment."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from takeback.dispatch.outcome import Outcome
from takeback.model.errors import PersonRequired
from tests.dispatch.post import BREAKER, Post, lane, refs, settle
from tests.dispatch.shift import eventually

UNANSWERED = Outcome(kind="deferred")


@pytest.fixture
def office(post) -> Post:
    """A post office whose connector is paused, with five letters due."""
    office = post(breaker=BREAKER)
    office.post(3)
    settle(office, office.dispatcher().run_once(3).works, UNANSWERED)
    office.post(5, to="later")
    assert office.dispatcher().run_once(20).works == []
    return office


def somebody_waits(url: str) -> bool:
    """Whether a session waits for a lock."""
    with psycopg.connect(url) as observer:
        found = observer.execute(
            "SELECT FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return found.fetchone() is not None


def test_what_is_due_leaves_at_once(office, database_url):
    resumed = office.resume("post", principal="dana")
    assert (resumed.failures, resumed.paused_since is not None) == (3, True)
    assert len(office.dispatcher().run_once(20).works) == 5
    row = lane(database_url)
    assert (row["failures"], row["opened_at"], row["probe_until"]) == (0, None, None)


def test_no_agent_may_and_then_nothing_is_changed(office, database_url):
    with pytest.raises(PersonRequired):
        office.resume("post", principal="agent:a")
    assert lane(database_url)["opened_at"] is not None


def test_a_probe_that_fails_after_it_is_the_first_failure_of_a_new_row(office, database_url, clock):
    clock.advance(11)
    probe = office.dispatcher().run_once(20).works
    assert len(probe) == 1
    office.resume("post", principal="dana")
    settle(office, probe, UNANSWERED)
    row = lane(database_url)
    assert (row["failures"], row["opened_at"]) == (1, None)


def test_a_probe_that_is_answered_after_it_changes_nothing(office, database_url, clock):
    clock.advance(11)
    probe = office.dispatcher().run_once(20).works
    office.resume("post", principal="dana")
    rest = office.dispatcher().run_once(20).works
    assert not {*refs(probe)} & {*refs(rest)}
    settle(office, probe)
    row = lane(database_url)
    assert (row["failures"], row["opened_at"], row["probe_until"]) == (0, None, None)


def test_a_claim_of_a_probe_that_is_not_committed_is_waited_for_and_its_probe_forgotten(
    office, database_url, clock
):
    clock.advance(11)
    with psycopg.connect(database_url) as claim, ThreadPoolExecutor(1) as other:
        claim.execute("SELECT FROM takeback.connectors WHERE name = 'post' FOR UPDATE")
        resuming = other.submit(office.resume, "post", principal="dana")
        eventually(lambda: somebody_waits(database_url), "the person waits for the claim")
        assert not resuming.done()
        claim.execute(
            "UPDATE takeback.connectors SET probe_until = takeback.now() + interval '1 minute'"
        )
        claim.commit()
        assert resuming.result(5).failures == 3
    row = lane(database_url)
    assert (row["opened_at"], row["probe_until"]) == (None, None)


def test_while_the_pause_is_ended_a_claim_takes_nothing_of_the_connector_and_does_not_wait(
    office, database_url
):
    with psycopg.connect(database_url) as resuming:
        resuming.execute("SELECT FROM takeback.connectors WHERE name = 'post' FOR UPDATE")
        assert office.dispatcher().run_once(20).works == []
