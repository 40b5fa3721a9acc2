"""The ledger's tables as they are declared: what the migrations must add up to.

A test holds the two against each other, in every column, constraint and index. Statements are
written as text all the same: this is for whoever reads the ledger through SQLAlchemy, and for
those who write the next migration.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Sequence,
    SmallInteger,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, DOMAIN, JSONB, TIMESTAMP, UUID

from takeback.model.intent import State

METADATA = MetaData(schema="takeback")

EVENTS_POSITION = Sequence("events_position", metadata=METADATA, data_type=BigInteger())
"""Places in the log; see ``takeback.ledger.barrier`` for why reading by them is not simple."""

_WORD = Text(collation="C")
_INSTANT = TIMESTAMP(timezone=True)
_STATES = ", ".join(f"'{state.value}'" for state in State)

STATE = DOMAIN(
    "state",
    Text(),
    schema="takeback",
    collation="C",
    constraint_name="state_is_known",
    check=text(f"VALUE IN ({_STATES})"),
)
VERSION = DOMAIN(
    "version",
    Integer(),
    schema="takeback",
    constraint_name="version_counts_from_one",
    check=text("VALUE >= 1"),
)
BYTES32 = DOMAIN(
    "bytes32",
    LargeBinary(),
    schema="takeback",
    constraint_name="is_32_bytes",
    check=text("octet_length(VALUE) = 32"),
)

INTENTS = Table(
    "intents",
    METADATA,
    Column("tenant", _WORD, nullable=False),
    Column("id", UUID(), nullable=False),
    Column("ref", _WORD, nullable=False),
    Column("tool", _WORD, nullable=False),
    Column("tool_version", Integer, nullable=False),
    Column("effect", _WORD, nullable=False),
    Column("key", _WORD, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("run", _WORD),
    Column("principal", _WORD, nullable=False),
    Column("state", STATE, nullable=False),
    Column("version", VERSION, nullable=False),
    Column("recorded_at", _INSTANT, nullable=False),
    Column("window_us", BigInteger, nullable=False),
    Column("not_before", _INSTANT),
    Column("after", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    Column("due_at", _INSTANT),
    Column("attempt", Integer, nullable=False, server_default=text("0")),
    Column("epoch", Integer, nullable=False, server_default=text("0")),
    Column("attempts_unknown", ARRAY(Integer), nullable=False, server_default=text("'{}'")),
    Column("begin_before", _INSTANT),
    Column("lease_until", _INSTANT),
    Column("affected_count", BigInteger, nullable=False, server_default=text("0")),
    Column("restores", UUID()),
    Column("repeat_of", _WORD),
    Column("restored_via", _WORD),
    Column("taken_back_by", _WORD),
    Column("settled_at", _INSTANT),
    Column("last_word", STATE),
    Column("contradicted", Boolean, nullable=False, server_default=text("false")),
    Column("head_hash", BYTES32, nullable=False),
    Column("on_behalf_of", _WORD),
    Column("expires_at", _INSTANT),
    Column("approved_by", _WORD),
    Column("ask_at", _INSTANT),
    Column("lane", _WORD, nullable=False, server_default=text("''")),
    Column("priority", SmallInteger, nullable=False, server_default=text("0")),
    Column("ordering", _WORD),
    Column("look_at", _INSTANT, nullable=False, server_default=text("'-infinity'")),
    PrimaryKeyConstraint("tenant", "id", name="intents_pkey"),
    CheckConstraint(
        "state NOT IN ('held', 'due') OR due_at IS NOT NULL",
        name="intents_due_is_set_when_claimable",
    ),
    CheckConstraint(
        "state NOT IN ('claimed', 'executing') OR lease_until IS NOT NULL",
        name="intents_lease_is_set_when_owned",
    ),
    Index(
        "intents_ref_is_unique",
        "tenant",
        "ref",
        unique=True,
        postgresql_where=text("ref IS NOT NULL"),
    ),
    Index(
        "intents_key_is_recorded_once",
        "tenant",
        "key",
        "generation",
        unique=True,
        postgresql_where=text("key IS NOT NULL"),
    ),
    Index("intents_due", "due_at", postgresql_where=text("state IN ('held', 'due')")),
    Index(
        "intents_lane",
        "lane",
        "tenant",
        "priority",
        text("due_at NULLS FIRST"),
        postgresql_where=text("state IN ('held', 'due')"),
    ),
    Index(
        "intents_priority",
        "priority",
        "lane",
        text("due_at NULLS FIRST"),
        postgresql_where=text("state IN ('held', 'due') AND version > 0"),
    ),
    Index(
        "intents_ordering",
        "tenant",
        "ordering",
        "id",
        postgresql_where=text(
            "ordering IS NOT NULL AND state IN ('held', 'due', 'claimed', 'executing', 'in_doubt')"
        ),
    ),
    Index(
        "intents_lease", "lease_until", postgresql_where=text("state IN ('claimed', 'executing')")
    ),
    Index(
        "intents_stopped",
        "state",
        "tool",
        "tool_version",
        postgresql_where=text(
            "state IN ('awaiting_approval', 'waiting', 'in_doubt', 'parked', 'restoring')"
        ),
    ),
    Index("intents_run", "tenant", "run", "id", postgresql_where=text("run IS NOT NULL")),
    Index(
        "intents_approval",
        "expires_at",
        postgresql_where=text("state = 'awaiting_approval' AND expires_at IS NOT NULL"),
    ),
    Index(
        "intents_in_doubt",
        text("ask_at NULLS FIRST"),
        postgresql_where=text("state = 'in_doubt' AND restored_via IS NULL"),
    ),
    Index("intents_waiting", "look_at", postgresql_where=text("state = 'waiting'")),
    comment="One row an intent: the projection of its events that queries and the queue read.",
)

EVENTS = Table(
    "events",
    METADATA,
    Column("tenant", _WORD, nullable=False),
    Column("intent_id", UUID(), nullable=False),
    Column("version", VERSION, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("kind", _WORD, nullable=False),
    Column("schema", Integer, nullable=False),
    Column("recorded_at", _INSTANT, nullable=False),
    Column("payload", _WORD, nullable=False),
    Column("hash", BYTES32, nullable=False),
    PrimaryKeyConstraint("tenant", "intent_id", "version", name="events_pkey"),
    Index("events_position_order", "position"),
    comment=(
        "The log: facts, appended and never changed. payload is stored and hashed byte by byte."
    ),
)

BODIES = Table(
    "bodies",
    METADATA,
    Column("tenant", _WORD, nullable=False),
    Column("intent_id", UUID(), nullable=False),
    Column("version", VERSION, nullable=False),
    Column("name", _WORD, nullable=False),
    Column("salt", BYTES32, nullable=False),
    Column("body", _WORD, nullable=False),
    PrimaryKeyConstraint("tenant", "intent_id", "version", "name", name="bodies_pkey"),
    comment="What must be forgettable: the event of that version holds SHA-256(salt || body).",
)

TOMBSTONES = Table(
    "tombstones",
    METADATA,
    Column("tenant", _WORD, nullable=False),
    Column("intent_id", UUID(), nullable=False),
    Column("number", BigInteger, Identity(always=True), nullable=False),
    Column("target", Text, nullable=False),
    Column("image", JSONB, nullable=False),
    PrimaryKeyConstraint("tenant", "intent_id", "number", name="tombstones_pkey"),
    comment=(
        "Images of rows that an intent deleted or overwrote; target is the qualified table name."
    ),
)

FORMER_KEYS = Table(
    "former_keys",
    METADATA,
    Column("tenant", _WORD, nullable=False),
    Column("key", _WORD, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("intent_id", UUID(), nullable=False),
    PrimaryKeyConstraint("tenant", "key", "generation", name="former_keys_pkey"),
    comment="The keys that earlier recipes of its row would have given an intent.",
)

PREVIEWS = Table(
    "previews",
    METADATA,
    Column("tenant", _WORD, nullable=False),
    Column("token", _WORD, nullable=False),
    Column("tool", _WORD, nullable=False),
    Column("at", _INSTANT, nullable=False),
    Column("arguments", _WORD, nullable=False),
    Column("affected", _WORD, nullable=False),
    Column("affected_count", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant", "token", name="previews_pkey"),
    Index("previews_age", "at"),
    comment="What was foreseen, so that a call that expects it can be told what has changed.",
)

LIMIT_ENTRIES = Table(
    "limit_entries",
    METADATA,
    Column("tenant", _WORD, nullable=False),
    Column("scope", _WORD, nullable=False),
    Column("intent_id", UUID(), nullable=False),
    Column("at", _INSTANT, nullable=False),
    Column("released", Boolean, nullable=False, server_default=text("false")),
    Column("money", BigInteger, nullable=False, server_default=text("0")),
    Column("currency", _WORD, nullable=False, server_default=text("''")),
    Column("rows", BigInteger, nullable=False, server_default=text("0")),
    PrimaryKeyConstraint("tenant", "intent_id", "scope", name="limit_entries_pkey"),
    Index("limit_entries_time", "tenant", "scope", "at"),
    comment="What counts towards the limits of the catalog's rows.",
)

FREEZES = Table(
    "freezes",
    METADATA,
    Column("number", BigInteger, Identity(always=True), nullable=False),
    Column("tenant", _WORD),
    Column("tool", _WORD),
    Column("run", _WORD),
    Column("reason", Text, nullable=False),
    Column("frozen_by", _WORD, nullable=False),
    Column("frozen_at", _INSTANT, nullable=False),
    Column("thawed_by", _WORD),
    Column("thawed_at", _INSTANT),
    Column("thaw_reason", Text),
    PrimaryKeyConstraint("number", name="freezes_pkey"),
    Index("freezes_in_force", "tenant", "tool", "run", postgresql_where=text("thawed_at IS NULL")),
    comment="Who stopped what, and who let it go on; a null tenant, tool or run means every one.",
)

CONNECTORS = Table(
    "connectors",
    METADATA,
    Column("name", _WORD, nullable=False),
    Column("tokens", Double, nullable=False),
    Column("refilled_at", _INSTANT, nullable=False),
    Column("failures", Integer, nullable=False, server_default=text("0")),
    Column("opened_at", _INSTANT),
    Column("paused_until", _INSTANT),
    Column("pause_us", BigInteger, nullable=False, server_default=text("0")),
    Column("probe_until", _INSTANT),
    PrimaryKeyConstraint("name", name="connectors_pkey"),
    CheckConstraint(
        "(opened_at IS NULL) = (paused_until IS NULL)", name="connectors_open_is_paused"
    ),
    comment=(
        "What all workers share of each connector: its token bucket, and whether an outage pauses "
        "it."
    ),
)

FAULTS = Table(
    "faults",
    METADATA,
    Column("tenant", _WORD, nullable=False),
    Column("trace_id", _WORD, nullable=False),
    Column("at", _INSTANT, nullable=False),
    Column("tool", _WORD),
    Column("run", _WORD),
    Column("principal", _WORD),
    Column("effect", _WORD, nullable=False),
    Column("kind", _WORD, nullable=False),
    Column("details", Text, nullable=False),
    PrimaryKeyConstraint("tenant", "trace_id", name="faults_pkey"),
    Index("faults_age", "at"),
    comment="What an internal_error was, for the operator who is told its trace id.",
)
