"""An interrupt ends what it interrupts, whatever fails while it does."""

import psycopg
import pytest

from takeback.ledger.sqlstate import translated
from takeback.model.errors import DatabaseUnavailable


def lose_the_connection_while_handling(problem: BaseException) -> None:
    try:
        raise problem
    finally:
        raise psycopg.OperationalError("the connection is lost")


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_interrupt_is_not_taken_for_a_database_that_went_away(interrupt):
    with pytest.raises(interrupt), translated():
        lose_the_connection_while_handling(interrupt())


def test_an_error_of_the_driver_behind_another_is_still_translated():
    with pytest.raises(DatabaseUnavailable), translated():
        lose_the_connection_while_handling(ValueError())
