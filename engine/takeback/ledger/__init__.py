"""The ledger: the only SQL on Takeback's tables.

Every function takes ``tx`` first, says one statement and never commits: who opened a transaction
ends it. What happens to an intent is decided in ``takeback.model``; here it is only stored.

Lock order, for everybody: the key's advisory lock (tried, never waited for), the barrier (shared,
never waited for), then intents by (tenant, id) ascending. Readers of the log take no lock at all.
"""
