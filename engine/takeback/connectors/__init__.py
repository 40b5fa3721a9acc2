"""The world outside the database: one module per kind of provider.

A connector performs one attempt and says what became of it: an answer, a proof that nothing
happened (``NotDispatched``, ``Rejected``), or ``OutcomeUnknown``. It owns the deadline of the
attempt and nothing else: it never repeats anything, since retries are the ledger's.
"""
