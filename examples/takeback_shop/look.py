"""Finding rows by a person's words, and ids that look like a mistaken one."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import Any

from sqlalchemy import Column, select, text
from sqlalchemy.orm import Session

from takeback import Found

BEST = 8
WORDS_MAX = 12
WORD_LENGTH_MIN = 3
IDS_COMPARED_MAX = 1000
NEAREST = 5

# What a thing says of itself counts more than what it says of its owner, the start of a word more
# than its middle, and its id more than anything.
_SEARCH = text("""
WITH word AS (
    SELECT DISTINCT shop.folded(said) AS word FROM unnest(CAST(:words AS text[])) AS said
), thing AS (
    SELECT 'customer' AS kind, c.id, c.name AS label, c.name || ' ' || c.email AS own, '' AS of,
           c.updated_at, jsonb_build_object('email', c.email) AS more
    FROM shop.customers AS c
    WHERE c.deleted_by IS NULL
    UNION ALL
    SELECT 'order', o.id, items.label, items.label || ' ' || o.charge_id || ' ' || o.status,
           c.id || ' ' || c.name || ' ' || c.email, o.updated_at,
           jsonb_build_object('customer', c.id || ' ' || c.name, 'status', o.status,
                              'total', o.total || ' ' || o.currency, 'charge_id', o.charge_id)
    FROM shop.orders AS o
    JOIN shop.customers AS c ON c.id = o.customer_id
    CROSS JOIN LATERAL (
        SELECT string_agg((i ->> 'quantity') || ' × ' || (i ->> 'name'), ', ') AS label
        FROM jsonb_array_elements(o.items) AS i) AS items
    UNION ALL
    SELECT 'ticket', t.id, t.subject,
           t.subject || ' ' || coalesce(t.note, '') || ' ' || t.status || ' '
           || array_to_string(t.tags, ' '),
           CASE WHEN c.deleted_by IS NULL THEN c.id || ' ' || c.name || ' ' || c.email
                ELSE c.id END,
           t.updated_at,
           jsonb_build_object(
               'customer', c.id || ' ' || CASE WHEN c.deleted_by IS NULL THEN c.name
                                               ELSE '(deleted)' END,
               'status', t.status)
    FROM shop.tickets AS t
    JOIN shop.customers AS c ON c.id = t.customer_id
), scored AS (
    SELECT thing.kind, thing.id, thing.label, thing.more, thing.updated_at, sum(
        CASE WHEN lower(thing.id) = word THEN 9
             WHEN strpos(' ' || shop.folded(thing.own), ' ' || word) > 0 THEN 4
             WHEN strpos(' ' || shop.folded(thing.of), ' ' || word) > 0 THEN 3
             WHEN strpos(shop.folded(thing.own), word) > 0 THEN 2
             WHEN strpos(shop.folded(thing.of), word) > 0 THEN 1
             ELSE 0 END) AS score
    FROM thing CROSS JOIN word
    WHERE CAST(:kind AS text) IS NULL OR thing.kind = :kind
    GROUP BY thing.kind, thing.id, thing.label, thing.more, thing.updated_at
)
SELECT kind, id, label, more FROM scored
WHERE score > 0
ORDER BY score DESC, array_position(ARRAY['order', 'customer', 'ticket'], kind), updated_at DESC, id
LIMIT :limit
""")

_KINDS = {"orders": "order", "customers": "customer", "tickets": "ticket"}


def search(session: Session, query: str, area: str | None) -> Found:
    """The best matches for a person's words, those with most of the words first."""
    found = session.execute(
        _SEARCH,
        {
            "words": words_of(query),
            "kind": _KINDS[area] if area else None,
            "limit": BEST + 1,
        },
    ).all()
    matches = [
        {"ref": row.id, "kind": row.kind, "label": row.label, **row.more} for row in found[:BEST]
    ]
    return Found(matches=matches, more_matches_exist=len(found) > BEST)


def words_of(query: str) -> list[str]:
    """The words that tell something: no possessive, and no small ones beside larger ones.

    >>> words_of("Where is Dana's order O-1?")
    ['Where', 'Dana', 'order', 'O-1']
    """
    said = [
        re.sub(r"['’]s?$", "", word).strip(".-_'’") for word in re.findall(r"[\w@.+'’-]+", query)
    ]
    words = [word for word in said if word]
    telling = [
        word
        for word in words
        if len(word) >= WORD_LENGTH_MIN or not word.isascii() or not word.isalpha()
    ]
    return (telling or words)[:WORDS_MAX]


def nearest_ids(session: Session, column: Column[Any], wanted: str) -> list[str]:
    """Ids that there are, those that look most like ``wanted`` first."""
    ids = session.scalars(select(column).order_by(column).limit(IDS_COMPARED_MAX)).all()
    return sorted(ids, key=lambda known: -_likeness(wanted, known))[:NEAREST]


def _likeness(one: str, other: str) -> float:
    """1 for what differs in case and signs only.

    >>> _likeness("t7", "T-7"), _likeness("T-9", "O-1") < _likeness("T-9", "T-1")
    (1.0, True)
    """
    bare, other_bare = (re.sub(r"\W", "", word).lower() for word in (one, other))
    return SequenceMatcher(a=bare, b=other_bare).ratio()
