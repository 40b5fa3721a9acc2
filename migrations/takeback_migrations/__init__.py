"""Brings the schema ``takeback`` of a database to the release that is installed.

We are guests in somebody's database: everything lies in our own schema, with its own Alembic
version table, and DDL gives up after a few seconds rather than queue the application behind its
lock.
Several processes may migrate at once: one does the work, the others find it done.
"""

from takeback_migrations.upgrade import (
    ignore_takeback,
    installed_revision,
    latest_revision,
    upgrade,
)

__all__ = ["ignore_takeback", "installed_revision", "latest_revision", "upgrade"]
