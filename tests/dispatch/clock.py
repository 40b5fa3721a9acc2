"""The database's clock, moved ahead by hand: no test waits for a lease or a window.

    clock = Clock(database_url)
    clock.advance(31)           # for everybody, at once, whatever transactions are open

Only the one function is replaced that decides anything. The offset lies in a sequence, since that
is seen at once by statements whose snapshot is older.
"""

import psycopg

INSTALL = """
CREATE SEQUENCE IF NOT EXISTS public.clock_ahead MINVALUE 0 START 0;
CREATE OR REPLACE FUNCTION takeback.now() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
    SELECT clock_timestamp()
           + (SELECT last_value FROM public.clock_ahead) * interval '1 microsecond'
$$;
"""


class Clock:
    """The clock of one database; ``ahead`` is by how many seconds it was moved."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._connection.execute(INSTALL)
        self.ahead = 0.0

    def advance(self, seconds: float) -> None:
        """Time passes for everybody."""
        self.ahead += max(seconds, 0.0)
        self._connection.execute(
            "SELECT setval('public.clock_ahead', %s)", [round(self.ahead * 1_000_000)]
        )

    def close(self) -> None:
        """Leaves the clock as it stands."""
        self._connection.close()
