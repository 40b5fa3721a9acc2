"""The ledger: intents, the append-only log, the bodies beside it, and the functions they need.

Revision ID: 0001
Revises: None
"""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# Bodies of SQL functions are written as RETURN, and without a backslash anywhere: they are read
# once, here, so that no setting of a later session gives them another meaning.
CLOCK = """
CREATE FUNCTION takeback.now() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL UNSAFE
RETURN clock_timestamp();
COMMENT ON FUNCTION takeback.now() IS
    'The only clock that decides anything. Simulations replace this one function.';

CREATE FUNCTION takeback.micros(at timestamptz) RETURNS bigint LANGUAGE sql STABLE STRICT
RETURN (extract(epoch FROM at) * 1000000)::bigint;
COMMENT ON FUNCTION takeback.micros(timestamptz) IS
    'Microseconds since 1970: how instants travel, whatever DateStyle or TimeZone a session has.';

-- Hours and the rest apart: an interval is multiplied as a double, which is exact to 2^53 only.
CREATE FUNCTION takeback.instant(micros bigint) RETURNS timestamptz LANGUAGE sql STABLE STRICT
RETURN timestamptz '1970-01-01 00:00:00+00' + micros / 3600000000 * interval '1 hour'
       + micros % 3600000000 * interval '1 microsecond';
COMMENT ON FUNCTION takeback.instant(bigint) IS 'The instant behind takeback.micros.';

-- 48 bits of milliseconds, the version 7, the microseconds within; then the variant, and 62 bits
-- that follow from the seed and tell nothing of it. Nobody rolls dice here: one seed replays a run.
CREATE FUNCTION takeback.new_id(at_us bigint, seed bytea) RETURNS uuid LANGUAGE sql IMMUTABLE
RETURN encode(int8send(((at_us / 1000) << 16) | 28672 | ((at_us % 1000) << 2))
              || set_bit(set_bit(substring(sha256(seed) FROM 1 FOR 8), 7, 1), 6, 0), 'hex')::uuid;
COMMENT ON FUNCTION takeback.new_id(bigint, bytea) IS
    'A UUID of version 7 for that instant: ids grow with time, so indexes stay dense.';
"""

# What is checked of one column stands in its domain: that is compiled once a session, a table's own
# check with every statement, which is a tenth of what recording costs.
#
# Identifiers are compared byte by byte: the same under every locale, and after its next version.
#
# The two unique indexes are partial, although no row is left out: the planner then offers them only
# to queries that name that column. They all begin with the tenant, and while a table is young the
# planner can't know that the tenant tells nothing apart.
TABLES = """
CREATE DOMAIN takeback.state AS text COLLATE "C" CONSTRAINT state_is_known CHECK (VALUE IN (
    'recorded', 'awaiting_approval', 'waiting', 'held', 'due', 'claimed', 'executing', 'in_doubt',
    'parked', 'succeeded', 'failed', 'cancelled', 'denied', 'expired', 'restoring', 'restored',
    'restore_failed', 'purged'));
COMMENT ON DOMAIN takeback.state IS 'Where an intent stands.';
CREATE DOMAIN takeback.version AS integer CONSTRAINT version_counts_from_one CHECK (VALUE >= 1);
COMMENT ON DOMAIN takeback.version IS 'The number of an event of an intent.';
CREATE DOMAIN takeback.bytes32 AS bytea CONSTRAINT is_32_bytes CHECK (octet_length(VALUE) = 32);
COMMENT ON DOMAIN takeback.bytes32 IS 'A SHA-256, or the salt of one.';

CREATE SEQUENCE takeback.events_position AS bigint;

CREATE TABLE takeback.intents (
    tenant text COLLATE "C" NOT NULL,
    id uuid NOT NULL,
    ref text COLLATE "C" NOT NULL,
    tool text COLLATE "C" NOT NULL,
    tool_version integer NOT NULL,
    effect text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    generation integer NOT NULL,
    run text COLLATE "C",
    principal text COLLATE "C" NOT NULL,
    state takeback.state NOT NULL,
    version takeback.version NOT NULL,
    recorded_at timestamptz NOT NULL,
    window_us bigint NOT NULL,
    not_before timestamptz,
    after text[] NOT NULL DEFAULT '{}',
    due_at timestamptz,
    attempt integer NOT NULL DEFAULT 0,
    epoch integer NOT NULL DEFAULT 0,
    attempts_unknown integer[] NOT NULL DEFAULT '{}',
    begin_before timestamptz,
    lease_until timestamptz,
    affected_count bigint NOT NULL DEFAULT 0,
    restores uuid,
    repeat_of text COLLATE "C",
    restored_via text COLLATE "C",
    taken_back_by text COLLATE "C",
    settled_at timestamptz,
    last_word takeback.state,
    contradicted boolean NOT NULL DEFAULT false,
    head_hash takeback.bytes32 NOT NULL,
    CONSTRAINT intents_pkey PRIMARY KEY (tenant, id),
    CONSTRAINT intents_due_is_set_when_claimable CHECK (
        state NOT IN ('held', 'due') OR due_at IS NOT NULL),
    CONSTRAINT intents_lease_is_set_when_owned CHECK (
        state NOT IN ('claimed', 'executing') OR lease_until IS NOT NULL)
);
COMMENT ON TABLE takeback.intents IS
    'One row an intent: the projection of its events that queries and the queue read.';

CREATE UNIQUE INDEX intents_ref_is_unique ON takeback.intents (tenant, ref)
    WHERE ref IS NOT NULL;
CREATE UNIQUE INDEX intents_key_is_recorded_once ON takeback.intents (tenant, key, generation)
    WHERE key IS NOT NULL;
CREATE INDEX intents_due ON takeback.intents (due_at) WHERE state IN ('held', 'due');
CREATE INDEX intents_lease ON takeback.intents (lease_until)
    WHERE state IN ('claimed', 'executing');
CREATE INDEX intents_stopped ON takeback.intents (state, tool, tool_version)
    WHERE state IN ('awaiting_approval', 'waiting', 'in_doubt', 'parked', 'restoring');
CREATE INDEX intents_run ON takeback.intents (tenant, run, id) WHERE run IS NOT NULL;

CREATE TABLE takeback.events (
    tenant text COLLATE "C" NOT NULL,
    intent_id uuid NOT NULL,
    version takeback.version NOT NULL,
    position bigint NOT NULL,
    kind text COLLATE "C" NOT NULL,
    schema integer NOT NULL,
    recorded_at timestamptz NOT NULL,
    payload text COLLATE "C" NOT NULL,
    hash takeback.bytes32 NOT NULL,
    CONSTRAINT events_pkey PRIMARY KEY (tenant, intent_id, version)
);
COMMENT ON TABLE takeback.events IS
    'The log: facts, appended and never changed. payload is stored and hashed byte by byte.';
CREATE INDEX events_position_order ON takeback.events (position);
ALTER SEQUENCE takeback.events_position OWNED BY takeback.events.position;

CREATE TABLE takeback.bodies (
    tenant text COLLATE "C" NOT NULL,
    intent_id uuid NOT NULL,
    version takeback.version NOT NULL,
    name text COLLATE "C" NOT NULL,
    salt takeback.bytes32 NOT NULL,
    body text COLLATE "C" NOT NULL,
    CONSTRAINT bodies_pkey PRIMARY KEY (tenant, intent_id, version, name)
);
COMMENT ON TABLE takeback.bodies IS
    'What must be forgettable: the event of that version holds SHA-256(salt || body).';

CREATE TABLE takeback.tombstones (
    tenant text COLLATE "C" NOT NULL,
    intent_id uuid NOT NULL,
    number bigint GENERATED ALWAYS AS IDENTITY,
    target text NOT NULL,
    image jsonb NOT NULL,
    CONSTRAINT tombstones_pkey PRIMARY KEY (tenant, intent_id, number)
);
COMMENT ON TABLE takeback.tombstones IS
    'Images of rows that an intent deleted or overwrote; target is the qualified table name.';
"""

# The first constant is b"takeback.event.1\\0": see model/chain.py.
CHAIN = """
CREATE FUNCTION takeback.chain_hash(
    previous bytea, tenant text, intent_id uuid, version integer, "position" bigint, kind text,
    schema integer, at_us bigint, payload text
) RETURNS bytea LANGUAGE sql STABLE
RETURN sha256(
    decode('74616b656261636b2e6576656e742e3100', 'hex')
    || previous
    || int4send(octet_length(convert_to(tenant, 'UTF8'))) || convert_to(tenant, 'UTF8')
    || uuid_send(intent_id) || int4send(version) || int8send("position")
    || int4send(octet_length(convert_to(kind, 'UTF8'))) || convert_to(kind, 'UTF8')
    || int4send(schema) || int8send(at_us) || convert_to(payload, 'UTF8'));
COMMENT ON FUNCTION takeback.chain_hash IS
    'Links an event to the one before: domain-separated, length-prefixed, over the stored bytes.';
"""

# Why a function, where every other statement is sent as text: it is planned once a session instead
# of at every call: a third of the cost where no statements are prepared, as behind a pooler.
# A release that needs other arguments adds a function of the same name: the one before stays for
# the library of the release before.
RECORD = """
CREATE FUNCTION takeback.record(
    tenant text, key text, generation integer, key_lock bigint, ref text, tool text,
    tool_version integer, effect text, run text, principal text, state text, window_us bigint,
    not_before_us bigint, after text[], restores uuid, repeat_of text, payload text,
    salt bytea, arguments text
) RETURNS text LANGUAGE plpgsql
AS $$
DECLARE
    twin uuid;
    barrier text;
    at timestamptz;
    at_us bigint;
    id uuid;
    place bigint;
    not_before timestamptz;
    link bytea;
BEGIN
    SELECT i.id INTO twin FROM takeback.intents AS i
        WHERE i.tenant = record.tenant AND i.key = record.key
          AND i.generation >= record.generation
        ORDER BY i.generation DESC LIMIT 1;
    IF FOUND THEN
        RETURN concat('found ', twin);
    END IF;
    IF NOT pg_try_advisory_xact_lock(key_lock) THEN
        RETURN 'busy';
    END IF;
    -- Before a position is drawn: see takeback.ledger.barrier.
    barrier := pg_advisory_xact_lock_shared(31418, 1)::text;
    place := nextval('takeback.events_position');
    at := takeback.now();
    at_us := takeback.micros(at);
    id := takeback.new_id(at_us, salt);
    not_before := takeback.instant(not_before_us);
    link := takeback.chain_hash(decode(repeat('00', 32), 'hex'), tenant, id, 1, place,
                                'intent.recorded', 1, at_us, payload);
    INSERT INTO takeback.intents
        (tenant, id, ref, tool, tool_version, effect, key, generation, run, principal, state,
         version, recorded_at, window_us, not_before, after, due_at, restores, repeat_of,
         head_hash)
    VALUES
        (tenant, id, ref, tool, tool_version, effect, key, generation, run, principal, state,
         1, at, window_us, not_before, coalesce(after, '{}'),
         CASE WHEN state IN ('held', 'due') THEN
             greatest(at + window_us * interval '1 microsecond', not_before) END,
         restores, repeat_of, link)
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN 'shadowed';
    END IF;
    INSERT INTO takeback.events
        (tenant, intent_id, version, position, kind, schema, recorded_at, payload, hash)
    VALUES (tenant, id, 1, place, 'intent.recorded', 1, at, payload, link);
    INSERT INTO takeback.bodies (tenant, intent_id, version, name, salt, body)
    VALUES (tenant, id, 1, 'arguments', salt, arguments);
    RETURN concat('recorded ', id, ' ', at_us, ' ', encode(link, 'hex'));
END
$$;
COMMENT ON FUNCTION takeback.record IS
    'Inserts an intent, its first event and its arguments, or finds the twin of its key.';
"""

# Whoever may alter the table can take its guard down; `takeback verify` names what was changed.
#
# The window is moved where deferred constraints are checked: at the commit, or earlier where the
# caller says SET CONSTRAINTS ALL IMMEDIATE or PREPARE TRANSACTION; it counts from there then.
GUARDS = """
CREATE FUNCTION takeback.refuse_change() RETURNS trigger LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION 'the log is append-only: % on takeback.events is refused', TG_OP
        USING ERRCODE = 'restrict_violation',
              HINT = 'What must be forgettable lies in takeback.bodies.';
END
$$;
COMMENT ON FUNCTION takeback.refuse_change() IS 'Refuses whatever would change the log.';
CREATE TRIGGER events_are_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON takeback.events
    FOR EACH STATEMENT EXECUTE FUNCTION takeback.refuse_change();
ALTER TABLE takeback.events ENABLE ALWAYS TRIGGER events_are_append_only;
REVOKE UPDATE, DELETE, TRUNCATE ON takeback.events FROM PUBLIC, CURRENT_USER;

CREATE FUNCTION takeback.move_window() RETURNS trigger LANGUAGE plpgsql
AS $$
DECLARE
    committed_at timestamptz := takeback.now();
    due timestamptz;
    head bytea;
    moved timestamptz;
    place bigint;
    payload text;
    link bytea;
BEGIN
    -- A tenth of the window, at most a second: less is not worth an event.
    IF committed_at <= NEW.recorded_at
       + least(NEW.window_us / 10, 1000000) * interval '1 microsecond' THEN
        RETURN NULL;
    END IF;
    SELECT i.due_at, i.head_hash INTO due, head FROM takeback.intents AS i
        WHERE i.tenant = NEW.tenant AND i.id = NEW.id AND i.state = 'held' AND i.version = 1
        FOR UPDATE;
    moved := committed_at + NEW.window_us * interval '1 microsecond';
    IF NOT FOUND OR NEW.window_us = 0 OR moved <= due THEN
        RETURN NULL;
    END IF;
    -- Retaken here: a rollback to a savepoint may have freed the one of the recording.
    PERFORM pg_advisory_xact_lock_shared(31418, 1);
    place := nextval('takeback.events_position');
    payload := concat('{"until_us":', takeback.micros(moved), '}');
    link := takeback.chain_hash(head, NEW.tenant, NEW.id, 2, place, 'intent.window_moved', 1,
                                takeback.micros(committed_at), payload);
    INSERT INTO takeback.events
        (tenant, intent_id, version, position, kind, schema, recorded_at, payload, hash)
        VALUES (NEW.tenant, NEW.id, 2, place, 'intent.window_moved', 1, committed_at, payload,
                link);
    UPDATE takeback.intents AS i SET version = 2, due_at = moved, head_hash = link
        WHERE i.tenant = NEW.tenant AND i.id = NEW.id;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION takeback.move_window() IS
    'An undo window counts from the commit: moves it when the commit comes late.';
CREATE CONSTRAINT TRIGGER intents_window_counts_from_commit
    AFTER INSERT ON takeback.intents
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.state = 'held')
    EXECUTE FUNCTION takeback.move_window();
"""


def upgrade() -> None:
    """Creates everything in the schema ``takeback``, which the environment has made."""
    for part in (CLOCK, TABLES, CHAIN, RECORD, GUARDS):
        op.execute(part)


def downgrade() -> None:
    """Refused: dropping the log would forget what was done."""
    raise RuntimeError("the ledger is not dropped by a migration; drop the schema by hand")
