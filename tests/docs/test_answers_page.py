"""docs/answers.md tells every status word, every door and every bound as the code has it."""

import re

from takeback.model import envelope, finding, selection
from takeback.model.door import OPENINGS, Door
from takeback.model.status import OF_READS, Status
from tests.docs.page import read, unquoted

PAGE = read("docs/answers.md")


def test_each_word_asks_for_another_next_step():
    """S0.8: every value changes the next action, and the page says to which."""
    table = PAGE.table("`status`", "of", "what to do next")
    told = {unquoted(row[0]): row for row in table.rows}
    assert list(told) == [word.value for word in Status]
    assert len({row[2] for row in told.values()}) == len(told)
    for word, row in told.items():
        assert (row[1] == "reads") == (Status(word) in OF_READS)


def test_each_door_is_told_with_its_reader():
    table = PAGE.table("door", "who reads there", "what they have")
    told = {unquoted(row[0]): (row[1], "full" in row[2]) for row in table.rows}
    assert told == {door.value: (OPENINGS[door].reader.value, OPENINGS[door].full) for door in Door}


def test_each_bound_is_told_as_it_is():
    bounds = {
        "things affected": envelope.AFFECTED_SHOWN_MAX,
        "matches somebody has chosen": selection.CHOSEN_MAX,
        "matches out of many": selection.SAMPLES,
        "bytes of chosen matches": finding.CHOSEN_BYTES_MAX,
        "bytes with aggregates": finding.AGGREGATED_BYTES_MAX,
        "bytes out of many": finding.SAMPLED_BYTES_MAX,
    }
    table = PAGE.table("at most", "how many")
    assert {row[0]: int(re.sub(r"\D", "", row[1])) for row in table.rows} == bounds
