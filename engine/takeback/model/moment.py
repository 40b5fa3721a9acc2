"""Instants as answers tell them: in UTC, without fractions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def iso(at: datetime) -> str:
    """An instant as RFC 3339 in UTC, without a fraction.

    >>> iso(datetime(2026, 11, 29, 14, 5, 10, 999, tzinfo=UTC))
    '2026-11-29T14:05:10Z'
    """
    return f"{at.astimezone(UTC).replace(tzinfo=None, microsecond=0).isoformat()}Z"


def clock(at: datetime, seen_from: datetime) -> str:
    """The time of day within a day of ``seen_from``, else the date too.

    >>> noon = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)
    >>> clock(noon, noon), clock(noon + timedelta(days=2), noon)
    ('12:00:00Z', '2026-12-01T12:00:00Z')
    """
    if abs(at - seen_from) < timedelta(days=1):
        return iso(at)[11:]
    return iso(at)
