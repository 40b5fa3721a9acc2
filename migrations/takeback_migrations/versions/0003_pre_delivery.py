"""What delivery needs: lanes, priorities and orderings, and when to look at doubt and waiting.

The functions and columns of the revision before stay as they were for the library that uses them:
what that one records is in no lane. The indexes are built by the revision after this one.

Revision ID: 0003
Revises: 0002
"""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

# Not of the projection: no event says it, and whoever asks moves it on so that no other asks
# meanwhile. Null until somebody has looked at the doubt for the first time.
IN_DOUBT = """
ALTER TABLE takeback.intents ADD COLUMN ask_at timestamptz;
"""

LANES = """
ALTER TABLE takeback.intents
    ADD COLUMN lane text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN priority smallint NOT NULL DEFAULT 0,
    ADD COLUMN ordering text COLLATE "C";
"""

# Not of the projection: no event says it, and a worker that finds no row makes one.
CONNECTORS = """
CREATE TABLE takeback.connectors (
    name text COLLATE "C" NOT NULL,
    tokens double precision NOT NULL,
    refilled_at timestamptz NOT NULL,
    failures integer NOT NULL DEFAULT 0,
    opened_at timestamptz,
    paused_until timestamptz,
    pause_us bigint NOT NULL DEFAULT 0,
    probe_until timestamptz,
    CONSTRAINT connectors_pkey PRIMARY KEY (name),
    CONSTRAINT connectors_open_is_paused CHECK ((opened_at IS NULL) = (paused_until IS NULL))
);
COMMENT ON TABLE takeback.connectors IS
    'What all workers share of each connector: its token bucket, and whether an outage pauses it.';
"""

# As in the revision before, and the lane, the priority and the ordering beside it.
RECORD = """
CREATE FUNCTION takeback.record(
    tenant text, key text, generation integer, key_lock bigint, ref text, tool text,
    tool_version integer, effect text, run text, principal text, state text, window_us bigint,
    not_before_us bigint, after text[], restores uuid, repeat_of text, payload text,
    salt bytea, arguments text, on_behalf_of text, approval_us bigint, affected_salt bytea,
    affected text, former_keys text[], former_locks bigint[], schema integer,
    lane text, priority smallint, ordering text
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
         head_hash, on_behalf_of, expires_at, lane, priority, ordering)
    VALUES
        (tenant, id, ref, tool, tool_version, effect, key, generation, run, principal, state,
         1, at, window_us, not_before, coalesce(after, '{}'),
         CASE WHEN state IN ('held', 'due') THEN
             greatest(at + window_us * interval '1 microsecond', not_before) END,
         restores, repeat_of, link, on_behalf_of,
         CASE WHEN state = 'awaiting_approval' THEN
             at + approval_us * interval '1 microsecond' END,
         lane, priority, ordering)
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
    text[], uuid, text, text, bytea, text, text, bigint, bytea, text, text[], bigint[], integer,
    text, smallint, text) IS
    'Inserts an intent, its first event and its bodies, or finds the twin of its key.';
"""

# Not of the projection either: when somebody looks next at what an intent waits for. Always there,
# so that the looks that are due stand together at the beginning of the index.
WAITING = """
ALTER TABLE takeback.intents ADD COLUMN look_at timestamptz NOT NULL DEFAULT '-infinity';
"""

# Called at every recording and for every intent that is read: in a function the looks are planned
# once a session. What takes back is never frozen.
HINDERED = """
CREATE FUNCTION takeback.hindered(tenant text, tool text, run text, lane text, restores uuid)
RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
    hindrances integer := 0;
BEGIN
    IF restores IS NULL AND takeback.frozen(tenant, tool, run) THEN
        hindrances := 1;
    END IF;
    IF lane <> '' AND EXISTS (
        SELECT FROM takeback.connectors AS c
        WHERE c.name = hindered.lane AND c.opened_at IS NOT NULL) THEN
        hindrances := hindrances + 2;
    END IF;
    RETURN hindrances;
END
$$;
COMMENT ON FUNCTION takeback.hindered(text, text, text, text, uuid) IS
    'What keeps an intent from beginning now: 1 a freeze, 2 the pause of its connector, 3 both.';
"""


def upgrade() -> None:
    """Adds what this release needs; nothing that the release before uses is changed."""
    for part in (IN_DOUBT, LANES, CONNECTORS, RECORD, WAITING, HINDERED):
        op.execute(part)


def downgrade() -> None:
    """Refused: dropping these would forget what is to be carried out first."""
    raise RuntimeError("the ledger is not taken back by a migration; drop the schema by hand")
