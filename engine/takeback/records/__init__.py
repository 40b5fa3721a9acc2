"""Rows that an intent deletes or overwrites, kept so that they can be put back as they were.

For handlers of Local tools. Everything works on the caller's session, inside the caller's
transaction, on behalf of the intent that the transaction names while a handler runs
(``takeback.tenant``, ``takeback.intent``), and keeps whole rows: columns that the caller's own
table objects don't know of, too.

    tombstone   rows change or leave, and their images stay: archive_rows, mark_deleted, update_rows
    revival     the same rows again, equal in every column: restore_rows
    drift       what somebody else has changed since: find_drift
    collision   why a row can't come back: both sides named
    layout      the columns of a table as the database has them now

``restore_rows`` and ``find_drift`` are faces: bind them to a handler as they are, or call them in
one of its own.

    delete = Handler(perform=..., restore=records.restore_rows, drift=records.find_drift)
"""

from takeback.records.drift import find_drift
from takeback.records.revival import restore_rows
from takeback.records.tombstone import Row, archive_rows, mark_deleted, update_rows

__all__ = ["Row", "archive_rows", "find_drift", "mark_deleted", "restore_rows", "update_rows"]
