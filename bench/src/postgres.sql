-- Functions that read memory only, so that a call costs what stands between caller and function.
CREATE ROLE bench LOGIN NOSUPERUSER NOBYPASSRLS;
CREATE SCHEMA api;
GRANT USAGE ON SCHEMA api TO bench;

CREATE FUNCTION api.minimal() RETURNS text LANGUAGE sql STABLE AS
    $$SELECT 'minimal'::text$$;
COMMENT ON FUNCTION api.minimal IS $$As little as a function can do.
@tool
@route GET /bench/minimal$$;

CREATE TYPE api.mood AS ENUM ('calm', 'glad', 'sad');
CREATE DOMAIN api.code AS text CHECK (VALUE ~ '^[A-Z]{3}$');
CREATE TYPE api.point_of_sale AS (city text, open boolean);

CREATE FUNCTION api.types(records int) RETURNS TABLE (
    a_bool boolean, a_int2 smallint, a_int4 int, a_int8 bigint, a_float4 real, a_float8 double precision,
    a_numeric numeric(20, 4), a_text text, a_varchar varchar(40), a_char char(4), a_uuid uuid, a_date date,
    a_time time, a_timestamp timestamp, a_timestamptz timestamptz, an_interval interval, a_json json, a_jsonb jsonb,
    a_mood api.mood, a_code api.code, a_composite api.point_of_sale, an_array int[], a_range int4range)
LANGUAGE sql STABLE AS $$
    SELECT true, 2::smallint, n, 9007199254740993, 1.5::real, 2.25::double precision,
        1234567890.1234::numeric(20, 4), 'text of record ' || n, 'varchar'::varchar(40), 'char'::char(4),
        '6f1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d'::uuid, date '2026-01-31' + n, time '12:34:56',
        timestamp '2026-01-31 12:34:56', timestamptz '2026-01-31 12:34:56+00', interval '1 day 2 hours',
        '{"a": 1}'::json, '{"b": [1, 2]}'::jsonb, 'glad'::api.mood, 'ABC'::api.code,
        ROW('Köln', true)::api.point_of_sale, ARRAY[1, 2, 3], int4range(1, 10)
    FROM generate_series(1, records) n
$$;
COMMENT ON FUNCTION api.types IS $$Records of 23 columns, each of another type.
@tool
@route GET /bench/types/{records}$$;

CREATE TYPE api.item AS (id int, name text, price numeric(12, 2), amount int, shipped boolean);

CREATE FUNCTION api.body(items api.item[]) RETURNS TABLE (id int, name text, total numeric)
LANGUAGE sql STABLE AS $$
    SELECT i.id, upper(i.name), i.price * i.amount FROM unnest(items) i WHERE NOT i.shipped
$$;
COMMENT ON FUNCTION api.body IS $$The totals of the items that are sent.
@tool
@route POST /bench/body$$;

-- Inlined by the planner, so the server does not gather the rows before it sends the first.
CREATE FUNCTION api.lines(rows int, width int) RETURNS SETOF text LANGUAGE sql STABLE AS
    $$SELECT repeat('x', width) FROM generate_series(1, rows)$$;
COMMENT ON FUNCTION api.lines IS $$Rows of so many bytes.
@tool$$;
