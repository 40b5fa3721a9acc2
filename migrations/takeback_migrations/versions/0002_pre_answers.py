"""What the answers of a call need: approvals, former keys, previews, limits, freezes, faults.

The functions and columns of the revision before stay as they were for the library that uses them.

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

INTENTS = """
ALTER TABLE takeback.intents
    ADD COLUMN on_behalf_of text COLLATE "C",
    ADD COLUMN expires_at timestamptz,
    ADD COLUMN approved_by text COLLATE "C";
CREATE INDEX intents_approval ON takeback.intents (expires_at)
    WHERE state = 'awaiting_approval' AND expires_at IS NOT NULL;
"""

# A retry may arrive through a process whose catalog is older than the one that recorded: it knows
# only the former key, and finds the intent by it here.
#
# What is claimed and what is recorded both stand under the gate of their key, so under READ
# COMMITTED whoever holds the gate sees it. A snapshot hides what has committed since: there a row
# is put in the way of a hidden one, which the database refuses as a serialization failure, and is
# taken back. Reading instead would make two recordings under SERIALIZABLE refuse each other.
FORMER_KEYS = """
CREATE TABLE takeback.former_keys (
    tenant text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    generation integer NOT NULL,
    intent_id uuid NOT NULL,
    CONSTRAINT former_keys_pkey PRIMARY KEY (tenant, key, generation)
);
COMMENT ON TABLE takeback.former_keys IS
    'The keys that earlier recipes of its row would have given an intent.';

CREATE FUNCTION takeback.claimed(tenant text, key text, generation integer)
RETURNS uuid LANGUAGE plpgsql
AS $$
DECLARE
    twin uuid;
BEGIN
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        BEGIN
            INSERT INTO takeback.former_keys (tenant, key, generation, intent_id)
            VALUES (tenant, key, generation, '00000000-0000-0000-0000-000000000000')
            ON CONFLICT DO NOTHING;
            IF FOUND THEN
                RAISE EXCEPTION USING ERRCODE = 'TB000';
            END IF;
        EXCEPTION WHEN SQLSTATE 'TB000' THEN
            RETURN NULL;
        END;
    END IF;
    SELECT f.intent_id INTO twin FROM takeback.former_keys AS f
        WHERE f.tenant = claimed.tenant AND f.key = claimed.key
          AND f.generation >= claimed.generation
        ORDER BY f.generation DESC LIMIT 1;
    RETURN twin;
END
$$;
COMMENT ON FUNCTION takeback.claimed(text, text, integer) IS
    'The intent that has claimed a key as a former one of its own; asked under the key''s gate.';

CREATE FUNCTION takeback.require_no_hidden(tenant text, keys text[], generation integer)
RETURNS void LANGUAGE plpgsql
AS $$
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('repeatable read', 'serializable') THEN
        RETURN;
    END IF;
    INSERT INTO takeback.intents
        (tenant, id, ref, tool, tool_version, effect, key, generation, principal, state, version,
         recorded_at, window_us, head_hash)
    SELECT require_no_hidden.tenant, takeback.new_id(0, convert_to(f.key, 'UTF8')), f.key, '', 0,
           '', f.key, require_no_hidden.generation, '', 'recorded', 1, takeback.now(), 0, sha256('')
    FROM unnest(keys) AS f (key)
    ON CONFLICT DO NOTHING;
    RAISE EXCEPTION USING ERRCODE = 'TB000';
EXCEPTION WHEN SQLSTATE 'TB000' THEN
    RETURN;
END
$$;
COMMENT ON FUNCTION takeback.require_no_hidden(text, text[], integer) IS
    'Fails to serialize where an intent of these keys stands behind the snapshot.';
"""

PREVIEWS = """
CREATE TABLE takeback.previews (
    tenant text COLLATE "C" NOT NULL,
    token text COLLATE "C" NOT NULL,
    tool text COLLATE "C" NOT NULL,
    at timestamptz NOT NULL,
    arguments text COLLATE "C" NOT NULL,
    affected text COLLATE "C" NOT NULL,
    affected_count bigint NOT NULL,
    CONSTRAINT previews_pkey PRIMARY KEY (tenant, token)
);
COMMENT ON TABLE takeback.previews IS
    'What was foreseen, so that a call that expects it can be told what has changed.';
CREATE INDEX previews_age ON takeback.previews (at);
"""

# A row for each intent and each scope that counts it, written only where a row of the catalog, or
# the app, has limits. at is when it happens, as far as is known. released says that it may.
LIMITS = """
CREATE TABLE takeback.limit_entries (
    tenant text COLLATE "C" NOT NULL,
    scope text COLLATE "C" NOT NULL,
    intent_id uuid NOT NULL,
    at timestamptz NOT NULL,
    released boolean NOT NULL DEFAULT false,
    money bigint NOT NULL DEFAULT 0,
    currency text COLLATE "C" NOT NULL DEFAULT '',
    rows bigint NOT NULL DEFAULT 0,
    CONSTRAINT limit_entries_pkey PRIMARY KEY (tenant, intent_id, scope)
);
COMMENT ON TABLE takeback.limit_entries IS 'What counts towards the limits of the catalog''s rows.';
CREATE INDEX limit_entries_time ON takeback.limit_entries (tenant, scope, at);
"""

FREEZES = """
CREATE TABLE takeback.freezes (
    number bigint GENERATED ALWAYS AS IDENTITY,
    tenant text COLLATE "C",
    tool text COLLATE "C",
    run text COLLATE "C",
    reason text NOT NULL,
    frozen_by text COLLATE "C" NOT NULL,
    frozen_at timestamptz NOT NULL,
    thawed_by text COLLATE "C",
    thawed_at timestamptz,
    thaw_reason text,
    CONSTRAINT freezes_pkey PRIMARY KEY (number)
);
COMMENT ON TABLE takeback.freezes IS
    'Who stopped what, and who let it go on; a null tenant, tool or run means every one.';
CREATE INDEX freezes_in_force ON takeback.freezes (tenant, tool, run) WHERE thawed_at IS NULL;
"""

# Volatile, so that under READ COMMITTED it has a snapshot of its own: a statement that has taken
# the barrier sees here what was frozen while it waited for its turn.
FROZEN = """
CREATE FUNCTION takeback.frozen(tenant text, tool text, run text) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM takeback.freezes AS f
        WHERE f.thawed_at IS NULL
          AND (f.tenant IS NULL OR f.tenant = frozen.tenant)
          AND (f.tool IS NULL OR f.tool = frozen.tool)
          AND (f.run IS NULL OR f.run = frozen.run));
END
$$;
COMMENT ON FUNCTION takeback.frozen(text, text, text) IS
    'Whether a person has stopped the tool, the run or the tenant, by a snapshot of its own.';
"""

FAULTS = """
CREATE TABLE takeback.faults (
    tenant text COLLATE "C" NOT NULL,
    trace_id text COLLATE "C" NOT NULL,
    at timestamptz NOT NULL,
    tool text COLLATE "C",
    run text COLLATE "C",
    principal text COLLATE "C",
    effect text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    details text NOT NULL,
    CONSTRAINT faults_pkey PRIMARY KEY (tenant, trace_id)
);
COMMENT ON TABLE takeback.faults IS
    'What an internal_error was, for the operator who is told its trace id.';
CREATE INDEX faults_age ON takeback.faults (at);
"""

# See RECORD of the revision before. former_keys are those of the row's earlier recipes: tried like
# the key itself, all or none, in one order, so that no two callers refuse each other; and claimed
# with it. A twin that is committed is told even where somebody else holds a gate.
RECORD = """
CREATE FUNCTION takeback.record(
    tenant text, key text, generation integer, key_lock bigint, ref text, tool text,
    tool_version integer, effect text, run text, principal text, state text, window_us bigint,
    not_before_us bigint, after text[], restores uuid, repeat_of text, payload text,
    salt bytea, arguments text, on_behalf_of text, approval_us bigint, affected_salt bytea,
    affected text, former_keys text[], former_locks bigint[], schema integer
) RETURNS text LANGUAGE plpgsql
AS $$
DECLARE
    twin uuid;
    gate bigint;
    opened boolean := false;
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
    IF former_keys IS NULL THEN
        opened := pg_try_advisory_xact_lock(key_lock);
    ELSE
        BEGIN
            FOREACH gate IN ARRAY
                ARRAY(SELECT l FROM unnest(former_locks || key_lock) AS l ORDER BY l)
            LOOP
                IF NOT pg_try_advisory_xact_lock(gate) THEN
                    RAISE EXCEPTION USING ERRCODE = 'TB000';
                END IF;
            END LOOP;
            opened := true;
        EXCEPTION WHEN SQLSTATE 'TB000' THEN
            NULL;
        END;
        SELECT i.id INTO twin
            FROM unnest(former_keys) WITH ORDINALITY AS f (key, place)
            JOIN takeback.intents AS i ON i.tenant = record.tenant AND i.key = f.key
                 AND i.generation >= record.generation
            ORDER BY f.place, i.generation DESC LIMIT 1;
        IF FOUND THEN
            RETURN concat('former ', twin);
        END IF;
        IF opened THEN
            PERFORM takeback.require_no_hidden(tenant, former_keys, generation);
        END IF;
    END IF;
    IF NOT opened THEN
        SELECT f.intent_id INTO twin FROM takeback.former_keys AS f
            WHERE f.tenant = record.tenant AND f.key = record.key
              AND f.generation >= record.generation
            ORDER BY f.generation DESC LIMIT 1;
        RETURN CASE WHEN FOUND THEN concat('found ', twin) ELSE 'busy' END;
    END IF;
    -- Where no recipe has ever changed there is nothing to look for, whatever a snapshot hides.
    IF pg_relation_size('takeback.former_keys') > 0 THEN
        twin := takeback.claimed(tenant, key, generation);
        IF twin IS NOT NULL THEN
            RETURN concat('found ', twin);
        END IF;
    END IF;
    -- Before a position is drawn: see takeback.ledger.barrier.
    barrier := pg_advisory_xact_lock_shared(31418, 1)::text;
    place := nextval('takeback.events_position');
    at := takeback.now();
    at_us := takeback.micros(at);
    id := takeback.new_id(at_us, salt);
    not_before := takeback.instant(not_before_us);
    link := takeback.chain_hash(decode(repeat('00', 32), 'hex'), tenant, id, 1, place,
                                'intent.recorded', schema, at_us, payload);
    INSERT INTO takeback.intents
        (tenant, id, ref, tool, tool_version, effect, key, generation, run, principal, state,
         version, recorded_at, window_us, not_before, after, due_at, restores, repeat_of,
         head_hash, on_behalf_of, expires_at)
    VALUES
        (tenant, id, ref, tool, tool_version, effect, key, generation, run, principal, state,
         1, at, window_us, not_before, coalesce(after, '{}'),
         CASE WHEN state IN ('held', 'due') THEN
             greatest(at + window_us * interval '1 microsecond', not_before) END,
         restores, repeat_of, link, on_behalf_of,
         CASE WHEN state = 'awaiting_approval' THEN
             at + approval_us * interval '1 microsecond' END)
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN 'shadowed';
    END IF;
    INSERT INTO takeback.events
        (tenant, intent_id, version, position, kind, schema, recorded_at, payload, hash)
    VALUES (tenant, id, 1, place, 'intent.recorded', schema, at, payload, link);
    INSERT INTO takeback.bodies (tenant, intent_id, version, name, salt, body)
    VALUES (tenant, id, 1, 'arguments', salt, arguments);
    IF affected IS NOT NULL THEN
        INSERT INTO takeback.bodies (tenant, intent_id, version, name, salt, body)
        VALUES (tenant, id, 1, 'affected', affected_salt, affected);
    END IF;
    IF former_keys IS NOT NULL THEN
        INSERT INTO takeback.former_keys (tenant, key, generation, intent_id)
        SELECT record.tenant, f.key, record.generation, id FROM unnest(former_keys) AS f (key)
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN concat('recorded ', id, ' ', at_us, ' ', encode(link, 'hex'));
END
$$;
COMMENT ON FUNCTION takeback.record(
    text, text, integer, bigint, text, text, integer, text, text, text, text, bigint, bigint,
    text[], uuid, text, text, bytea, text, text, bigint, bytea, text, text[], bigint[], integer) IS
    'Inserts an intent, its first event and its bodies, or finds the twin of its key.';
"""


def upgrade() -> None:
    """Adds what this release needs; nothing that the release before uses is changed."""
    for part in (INTENTS, FORMER_KEYS, PREVIEWS, LIMITS, FREEZES, FROZEN, FAULTS, RECORD):
        op.execute(part)


def downgrade() -> None:
    """Refused: dropping these would forget who decided what."""
    raise RuntimeError("the ledger is not taken back by a migration; drop the schema by hand")
