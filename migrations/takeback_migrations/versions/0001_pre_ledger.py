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

CLOCK = """
CREATE FUNCTION takeback.now() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL UNSAFE
AS $$ SELECT clock_timestamp() $$;
COMMENT ON FUNCTION takeback.now() IS
    'The only clock that decides anything. Simulations replace this one function.';

CREATE FUNCTION takeback.micros(at timestamptz) RETURNS bigint LANGUAGE sql STABLE STRICT
AS $$ SELECT (extract(epoch FROM at) * 1000000)::bigint $$;
COMMENT ON FUNCTION takeback.micros(timestamptz) IS
    'Microseconds since 1970: how instants travel, whatever DateStyle or TimeZone a session has.';

CREATE FUNCTION takeback.instant(micros bigint) RETURNS timestamptz LANGUAGE sql STABLE STRICT
AS $$ SELECT timestamptz '1970-01-01 00:00:00+00' + micros * interval '1 microsecond' $$;
COMMENT ON FUNCTION takeback.instant(bigint) IS 'The instant behind takeback.micros.';

CREATE FUNCTION takeback.new_id(at timestamptz) RETURNS uuid LANGUAGE sql VOLATILE
AS $$
    SELECT encode(
        overlay(
            overlay(uuid_send(gen_random_uuid())
                    PLACING substring(int8send(t.us / 1000) FROM 3) FROM 1 FOR 6)
            PLACING substring(int4send(28672 + (t.us % 1000 * 4096 / 1000)::int) FROM 3)
            FROM 7 FOR 2),
        'hex')::uuid
    FROM (SELECT takeback.micros(at) AS us) AS t
$$;
COMMENT ON FUNCTION takeback.new_id(timestamptz) IS
    'A UUID of version 7 for that instant, to the microsecond (RFC 9562, 6.2, method 3): ids grow '
    'with time, so indexes stay dense and the newest comes last.';
"""

TABLES = """
CREATE SEQUENCE takeback.events_position AS bigint;

CREATE TABLE takeback.intents (
    tenant text NOT NULL,
    id uuid NOT NULL,
    ref text NOT NULL,
    tool text NOT NULL,
    tool_version integer NOT NULL,
    effect text NOT NULL,
    key text NOT NULL,
    generation integer NOT NULL,
    run text,
    principal text NOT NULL,
    state text NOT NULL,
    version integer NOT NULL,
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
    repeat_of text,
    restored_via text,
    taken_back_by text,
    settled_at timestamptz,
    last_word text,
    contradicted boolean NOT NULL DEFAULT false,
    head_hash bytea NOT NULL,
    CONSTRAINT intents_pkey PRIMARY KEY (tenant, id),
    CONSTRAINT intents_ref_is_unique UNIQUE (tenant, ref),
    CONSTRAINT intents_key_is_recorded_once UNIQUE (tenant, key, generation),
    CONSTRAINT intents_state_is_known CHECK (state IN (
        'recorded', 'awaiting_approval', 'waiting', 'held', 'due', 'claimed', 'executing',
        'in_doubt', 'parked', 'succeeded', 'failed', 'cancelled', 'denied', 'expired',
        'restoring', 'restored', 'restore_failed', 'purged')),
    CONSTRAINT intents_due_is_set_when_claimable CHECK (
        (state NOT IN ('held', 'due')) OR due_at IS NOT NULL),
    CONSTRAINT intents_lease_is_set_when_owned CHECK (
        (state NOT IN ('claimed', 'executing')) OR lease_until IS NOT NULL),
    CONSTRAINT intents_head_hash_is_sha256 CHECK (octet_length(head_hash) = 32)
);
COMMENT ON TABLE takeback.intents IS
    'One row an intent: the projection of its events that queries and the queue read.';

CREATE INDEX intents_due ON takeback.intents (due_at, tenant, id)
    WHERE state IN ('held', 'due');
CREATE INDEX intents_lease ON takeback.intents (lease_until, tenant, id)
    WHERE state IN ('claimed', 'executing');
CREATE INDEX intents_stopped ON takeback.intents (state, tool, tool_version)
    WHERE state IN ('awaiting_approval', 'waiting', 'in_doubt', 'parked', 'restoring');
CREATE INDEX intents_run ON takeback.intents (tenant, run, id) WHERE run IS NOT NULL;
CREATE INDEX intents_restores ON takeback.intents (tenant, restores) WHERE restores IS NOT NULL;

CREATE TABLE takeback.events (
    tenant text NOT NULL,
    intent_id uuid NOT NULL,
    version integer NOT NULL,
    position bigint NOT NULL,
    kind text NOT NULL,
    schema integer NOT NULL,
    recorded_at timestamptz NOT NULL,
    payload text NOT NULL,
    hash bytea NOT NULL,
    CONSTRAINT events_pkey PRIMARY KEY (tenant, intent_id, version),
    CONSTRAINT events_version_counts_from_one CHECK (version >= 1),
    CONSTRAINT events_hash_is_sha256 CHECK (octet_length(hash) = 32)
);
COMMENT ON TABLE takeback.events IS
    'The log: facts, appended and never changed. payload is stored and hashed byte by byte.';
CREATE INDEX events_position_order ON takeback.events (position);
ALTER SEQUENCE takeback.events_position OWNED BY takeback.events.position;

CREATE TABLE takeback.bodies (
    tenant text NOT NULL,
    intent_id uuid NOT NULL,
    version integer NOT NULL,
    name text NOT NULL,
    salt bytea NOT NULL,
    body text NOT NULL,
    CONSTRAINT bodies_pkey PRIMARY KEY (tenant, intent_id, version, name),
    CONSTRAINT bodies_salt_is_32_bytes CHECK (octet_length(salt) = 32)
);
COMMENT ON TABLE takeback.bodies IS
    'What must be forgettable: the event of that version holds SHA-256(salt || body).';

CREATE TABLE takeback.tombstones (
    tenant text NOT NULL,
    intent_id uuid NOT NULL,
    number bigint GENERATED ALWAYS AS IDENTITY,
    target text NOT NULL,
    image jsonb NOT NULL,
    CONSTRAINT tombstones_pkey PRIMARY KEY (tenant, intent_id, number)
);
COMMENT ON TABLE takeback.tombstones IS
    'Images of rows that an intent deleted or overwrote; target is the qualified table name.';
"""

CHAIN = """
CREATE FUNCTION takeback.chain_hash(
    previous bytea, tenant text, intent_id uuid, version integer, position_ bigint, kind text,
    schema_ integer, at timestamptz, payload text
) RETURNS bytea LANGUAGE sql STABLE
AS $$
    SELECT sha256(
        '\\x74616b656261636b2e6576656e742e3100'::bytea
        || previous
        || int4send(octet_length(convert_to(tenant, 'UTF8'))) || convert_to(tenant, 'UTF8')
        || uuid_send(intent_id) || int4send(version) || int8send(position_)
        || int4send(octet_length(convert_to(kind, 'UTF8'))) || convert_to(kind, 'UTF8')
        || int4send(schema_) || int8send(takeback.micros(at)) || convert_to(payload, 'UTF8'))
$$;
COMMENT ON FUNCTION takeback.chain_hash IS
    'Links an event to the one before: domain-separated, length-prefixed, over the stored bytes.';
"""

GUARDS = """
CREATE FUNCTION takeback.refuse_change() RETURNS trigger LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION 'the log is append-only: % on takeback.events is refused', TG_OP
        USING ERRCODE = 'restrict_violation',
              HINT = 'What must be forgettable lies in takeback.bodies.';
END
$$;
CREATE TRIGGER events_are_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON takeback.events
    FOR EACH STATEMENT EXECUTE FUNCTION takeback.refuse_change();
ALTER TABLE takeback.events ENABLE ALWAYS TRIGGER events_are_append_only;
REVOKE UPDATE, DELETE, TRUNCATE ON takeback.events FROM PUBLIC, CURRENT_USER;

CREATE FUNCTION takeback.move_window() RETURNS trigger LANGUAGE plpgsql
AS $$
DECLARE
    committed_at timestamptz := takeback.now();
    intent takeback.intents;
    until timestamptz;
    place bigint;
    payload text;
    link bytea;
BEGIN
    -- A tenth of the window, at most a second: less is not worth an event.
    IF committed_at - NEW.recorded_at
       <= least(interval '1 second', NEW.window_us * interval '1 microsecond' / 10) THEN
        RETURN NULL;
    END IF;
    SELECT * INTO intent FROM takeback.intents AS i
        WHERE i.tenant = NEW.tenant AND i.id = NEW.id FOR UPDATE;
    IF NOT FOUND OR intent.state <> 'held' OR intent.version <> 1 OR intent.window_us = 0 THEN
        RETURN NULL;
    END IF;
    until := greatest(committed_at + intent.window_us * interval '1 microsecond',
                      intent.not_before);
    IF until <= intent.due_at THEN
        RETURN NULL;
    END IF;
    -- Retaken here: a rollback to a savepoint may have freed the one of the recording.
    PERFORM pg_advisory_xact_lock_shared(31418, 1);
    place := nextval('takeback.events_position');
    payload := '{"until_us":' || takeback.micros(until) || '}';
    link := takeback.chain_hash(intent.head_hash, intent.tenant, intent.id, 2, place,
                                'intent.window_moved', 1, committed_at, payload);
    INSERT INTO takeback.events
        (tenant, intent_id, version, position, kind, schema, recorded_at, payload, hash)
        VALUES (intent.tenant, intent.id, 2, place, 'intent.window_moved', 1, committed_at,
                payload, link);
    UPDATE takeback.intents AS i SET version = 2, due_at = until, head_hash = link
        WHERE i.tenant = intent.tenant AND i.id = intent.id;
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
    for part in (CLOCK, TABLES, CHAIN, GUARDS):
        op.execute(part)


def downgrade() -> None:
    """Refused: dropping the log would forget what was done."""
    raise RuntimeError("the ledger is not dropped by a migration; drop the schema by hand")
