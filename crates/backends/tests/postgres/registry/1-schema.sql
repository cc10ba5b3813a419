-- A registry of handlers, written from its contract: types, tables, identity. The gateway functions are in the other files.

CREATE SCHEMA extensions;
CREATE EXTENSION hstore SCHEMA extensions;
CREATE ROLE registry_owner NOLOGIN;
CREATE ROLE registry_api NOLOGIN;
CREATE ROLE registry_customer LOGIN IN ROLE registry_api;
GRANT USAGE ON SCHEMA extensions TO registry_owner, registry_api;
DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO registry_owner', current_database()); END $$;
SET ROLE registry_owner;

CREATE SCHEMA core;
CREATE SCHEMA internal;
CREATE SCHEMA membership;
CREATE SCHEMA api;

CREATE DOMAIN core.entity_id AS uuid;
CREATE TYPE api.handler_type AS ENUM ('rest', 'rpc', 'mcp_tool', 'mcp_resource', 'mcp_prompt');
CREATE TYPE api.rest_request AS (method text, url text, headers extensions.hstore, content bytea);
CREATE TYPE api.rpc_request AS (route_id uuid, headers extensions.hstore, content bytea);
CREATE TYPE api.mcp_request AS (arguments jsonb, uri text, context jsonb, request_id jsonb);
CREATE TYPE api.http_response AS (status_code integer, headers extensions.hstore, content bytea);
CREATE TYPE api.mcp_response AS (envelope jsonb);
CREATE DOMAIN api.json_schema AS jsonb CHECK (jsonb_typeof(VALUE) = 'object' AND VALUE <> '{}');

CREATE TABLE api.handler (
    object_id core.entity_id PRIMARY KEY,
    handler_type api.handler_type NOT NULL,
    handler_func regprocedure NOT NULL UNIQUE,
    handler_function_name text NOT NULL,
    accepts text[] NOT NULL DEFAULT '{*/*}',
    produces text[] NOT NULL DEFAULT '{application/json}',
    response_headers jsonb NOT NULL DEFAULT '{}',
    requires_auth boolean NOT NULL DEFAULT true,
    min_transaction_isolation text
        CHECK (min_transaction_isolation IN ('read committed', 'repeatable read', 'serializable')),
    read_only boolean NOT NULL DEFAULT false,
    title text,
    description text,
    input_json_schema api.json_schema,
    output_json_schema api.json_schema,
    created_at timestamptz NOT NULL DEFAULT now(),
    deleted_at timestamptz);

CREATE TABLE api.rest_route (
    handler_object_id core.entity_id PRIMARY KEY REFERENCES api.handler ON DELETE CASCADE,
    sequence_number bigint GENERATED ALWAYS AS IDENTITY,
    address_regexp text NOT NULL,
    method_regexp text NOT NULL DEFAULT '^(GET|POST|PUT|DELETE|PATCH)$',
    version_regexp text NOT NULL DEFAULT '.*',
    route_name text UNIQUE,
    auto_log boolean NOT NULL DEFAULT true,
    canonical_path text);

CREATE TABLE api.rpc_route (
    handler_object_id core.entity_id PRIMARY KEY REFERENCES api.handler ON DELETE CASCADE,
    method_name text NOT NULL UNIQUE,
    auto_log boolean NOT NULL DEFAULT true);

CREATE TABLE api.mcp_route (
    handler_object_id core.entity_id PRIMARY KEY REFERENCES api.handler ON DELETE CASCADE,
    mcp_type text NOT NULL CHECK (mcp_type IN ('tool', 'resource', 'prompt')),
    mcp_name text NOT NULL UNIQUE,
    input_schema jsonb,
    uri_template text CHECK (uri_template !~ '\{[+?#./;&]'),
    uri_regexp text,
    mime_type text NOT NULL DEFAULT 'application/json',
    arguments jsonb,
    tags text[] NOT NULL DEFAULT '{}');

CREATE TABLE api.exchange (
    sequence_number bigint GENERATED ALWAYS AS IDENTITY,
    handler_object_id uuid, protocol text, request text, status text, error text);

CREATE TABLE membership.user_identity (
    object_id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    provider text NOT NULL, subject text NOT NULL, email text NOT NULL,
    is_active boolean NOT NULL DEFAULT true, UNIQUE (provider, subject));

-- Who calls. Every setting is written, so that nothing of an earlier call stays.
CREATE FUNCTION internal.become(user_id text, email text, tenant text, token text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bar int := position('|' IN user_id);
    is_user boolean := bar > 1 AND bar < length(user_id) AND length(user_id) <= 4096;
BEGIN
    PERFORM set_config('auth.user_id', CASE WHEN is_user THEN user_id ELSE '' END, true),
        set_config('auth.idp_subject', CASE WHEN is_user THEN user_id ELSE '' END, true),
        set_config('auth.user_email', coalesce(email, ''), true),
        set_config('auth.tenant_id', coalesce(tenant, ''), true),
        set_config('auth.token', coalesce(token, ''), true);
    IF is_user AND email IS NOT NULL AND current_setting('transaction_read_only') = 'off' THEN
        INSERT INTO membership.user_identity (provider, subject, email)
        VALUES (left(user_id, bar - 1), substr(user_id, bar + 1), email) ON CONFLICT DO NOTHING;
    END IF;
END $$;

CREATE FUNCTION api.set_auth_context(headers extensions.hstore) RETURNS void
LANGUAGE sql AS $$
    SELECT internal.become(headers OPERATOR(extensions.->) 'x-user-id'::text,
        headers OPERATOR(extensions.->) 'x-user-email'::text,
        headers OPERATOR(extensions.->) 'x-tenant-id'::text,
        headers OPERATOR(extensions.->) 'authorization'::text)
$$;

CREATE FUNCTION api.current_user_id() RETURNS uuid
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT object_id FROM membership.user_identity
    WHERE provider || '|' || subject = current_setting('auth.user_id', true) AND is_active
$$;

CREATE FUNCTION api.catalog_version() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(encode(sha256(convert_to(string_agg(concat_ws(',', r.handler_object_id, r.sequence_number,
        r.address_regexp, r.method_regexp, r.version_regexp, h.read_only, h.min_transaction_isolation,
        h.deleted_at), ';' ORDER BY r.sequence_number), 'UTF8')), 'hex'), 'empty')
    FROM api.rest_route r JOIN api.handler h ON h.object_id = r.handler_object_id
$$;
