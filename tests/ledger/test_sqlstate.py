"""Each error of the database means one thing to us, and what is a fault of ours stays as it is."""

import psycopg
import pytest
from psycopg import errors as driver
from sqlalchemy.exc import OperationalError, ProgrammingError

from takeback.ledger.sqlstate import translate, translated
from takeback.model.errors import (
    DatabaseUnavailable,
    LedgerClosed,
    NoTransaction,
    RetryTransaction,
    TakebackError,
)
from tests.ledger.conftest import Connect
from tests.ledger.scribe import Scribe, record

MEANS = [
    (driver.SerializationFailure, RetryTransaction),
    (driver.DeadlockDetected, RetryTransaction),
    (driver.LockNotAvailable, RetryTransaction),
    (driver.QueryCanceled, RetryTransaction),
    (driver.AdminShutdown, DatabaseUnavailable),
    (driver.CrashShutdown, DatabaseUnavailable),
    (driver.CannotConnectNow, DatabaseUnavailable),
    (driver.TooManyConnections, DatabaseUnavailable),
    (driver.IdleInTransactionSessionTimeout, DatabaseUnavailable),
    (driver.TransactionTimeout, DatabaseUnavailable),
    (driver.IdleSessionTimeout, DatabaseUnavailable),
    (driver.ConnectionFailure, DatabaseUnavailable),
    (driver.DiskFull, DatabaseUnavailable),
    (driver.UndefinedTable, LedgerClosed),
    (driver.InvalidSchemaName, LedgerClosed),
    (driver.UndefinedFunction, LedgerClosed),
    (driver.InsufficientPrivilege, LedgerClosed),
    (driver.InFailedSqlTransaction, NoTransaction),
    (driver.ReadOnlySqlTransaction, NoTransaction),
    (psycopg.OperationalError, DatabaseUnavailable),
]
OURS = [
    driver.SyntaxError,
    driver.UniqueViolation,
    driver.NotNullViolation,
    driver.RestrictViolation,
    driver.DataException,
    psycopg.ProgrammingError,
    ValueError,
]


@pytest.mark.parametrize(("raised", "means"), MEANS, ids=lambda kind: kind.__name__)
def test_an_error_of_the_database_means(raised: type[psycopg.Error], means: type[TakebackError]):
    assert type(translate(raised("secret detail"))) is means
    wrapped = OperationalError("SELECT 1", {}, raised("secret detail"))
    known = translate(wrapped)
    assert type(known) is means
    assert "secret" not in str(known) and "SELECT" not in str(known)


@pytest.mark.parametrize("raised", OURS, ids=lambda kind: kind.__name__)
def test_a_fault_of_ours_is_not_dressed_up(raised: type[Exception]):
    assert translate(raised("told as it is")) is None
    with pytest.raises(raised, match="told as it is"), translated():
        raise raised("told as it is")


def test_the_driver_s_error_stays_the_cause():
    problem = ProgrammingError("SELECT 1", {}, driver.UndefinedTable("no such table"))
    with pytest.raises(LedgerClosed) as caught, translated():
        raise problem
    assert caught.value.__cause__ is problem


def test_a_failed_transaction_is_refused_before_anything_is_said(connect: Connect, scribe: Scribe):
    tx = connect()
    with pytest.raises(driver.DivisionByZero):
        tx.execute("SELECT 1 / 0")
    with pytest.raises(NoTransaction, match="already failed"):
        record(tx, scribe.entry())


def test_a_database_without_a_ledger_is_told_to_migrate(
    empty_database_url: str, connect: Connect, scribe: Scribe
):
    tx = connect(url=empty_database_url)
    with pytest.raises(LedgerClosed, match="takeback migrate"):
        record(tx, scribe.entry())
