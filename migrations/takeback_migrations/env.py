"""Alembic's environment: online only, on the connection that ``upgrade`` hands over."""

from __future__ import annotations

from alembic import context
from sqlalchemy import text

SCHEMA = "takeback"

connection = context.config.attributes.get("connection")
if connection is None:
    raise RuntimeError("run `takeback migrate`: these revisions need its lock and its connection")

# IF NOT EXISTS wants CREATE on the database even where somebody else has made the schema for us.
# Outside of a transaction the schema is there already, and Alembic begins those that it wants.
is_whole = connection.in_transaction()
if is_whole and connection.scalar(text("SELECT to_regnamespace('takeback')")) is None:
    connection.execute(text("CREATE SCHEMA takeback"))
context.configure(
    connection=connection,
    version_table="alembic_version",
    version_table_schema=SCHEMA,
    include_schemas=True,
    transaction_per_migration=True,
)
with context.begin_transaction():
    context.run_migrations()
