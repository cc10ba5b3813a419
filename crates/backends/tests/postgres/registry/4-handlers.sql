-- What the tests call. SECRET-MARKER stands in every error that a handler raises.

CREATE TABLE internal.counter (name text PRIMARY KEY, n int NOT NULL);
INSERT INTO internal.counter VALUES ('bumps', 0), ('steps', 0);

CREATE FUNCTION internal.whoami() RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object('user', current_setting('auth.user_id', true), 'email', current_setting('auth.user_email', true),
        'tenant', current_setting('auth.tenant_id', true), 'token', current_setting('auth.token', true),
        'isolation', current_setting('transaction_isolation'), 'read_only', current_setting('transaction_read_only'),
        'deferrable', current_setting('transaction_deferrable'))
$$;

CREATE FUNCTION internal.bump() RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    before int;
BEGIN
    SELECT n INTO before FROM internal.counter WHERE name = 'bumps';
    PERFORM pg_sleep(0.3);
    UPDATE internal.counter SET n = before + 1 WHERE name = 'bumps';
    RETURN before + 1;
END $$;

DO $setup$
DECLARE
    open jsonb := '{"requiresAuth": false}';
    raise_marker text := $$ BEGIN RAISE EXCEPTION 'SECRET-MARKER' USING DETAIL = 'SECRET-MARKER', HINT = 'SECRET-MARKER'; END $$;
    always_lost text := $$ BEGIN RAISE EXCEPTION 'SECRET-MARKER' USING ERRCODE = '40001'; END $$;
    row record;
BEGIN
    FOR row IN SELECT * FROM (VALUES
        ('orders_get', '{"path": "^/orders/\\d+$", "httpMethod": "^GET$", "example": "/orders/{id}"}',
            $$ BEGIN RETURN internal.json(200, jsonb_build_object('url', request.url, 'method', request.method)); END $$),
        ('orders_delete', '{"path": "^/orders/\\d+$", "httpMethod": "^DELETE$"}',
            $$ BEGIN RETURN (204, '', NULL)::api.http_response; END $$),
        ('picture', '{"path": "^/picture$", "httpMethod": "^GET$", "produces": ["image/png"]}',
            $$ BEGIN RETURN (200, 'content-type=>image/png'::extensions.hstore, '\x00ff0d0a'::bytea)::api.http_response; END $$),
        ('moved', '{"path": "^/moved$", "httpMethod": "^GET$"}',
            $$ BEGIN RETURN (302, extensions.hstore(ARRAY['Location', '/orders/1', 'x-bad', E'a\r\nb: c']), NULL)::api.http_response; END $$),
        ('echo', '{"path": "^/echo$", "httpMethod": "^POST$", "accepts": ["application/json"]}',
            $$ BEGIN RETURN internal.json(201, jsonb_build_object('headers', extensions.hstore_to_jsonb(request.headers),
                'body', encode(request.content, 'escape'), 'url', request.url)); END $$),
        ('whoami', '{"path": "^/whoami$", "requiresAuth": true}', $$ BEGIN RETURN internal.json(200, internal.whoami()); END $$),
        ('anyone', '{"path": "^/anyone$"}', $$ BEGIN RETURN internal.json(200, internal.whoami()); END $$),
        ('report', '{"path": "^/report$", "readOnly": true, "minTransactionIsolation": "serializable"}',
            $$ BEGIN RETURN internal.json(200, internal.whoami()); END $$),
        ('writing', '{"path": "^/writing$", "readOnly": true}',
            $$ BEGIN UPDATE internal.counter SET n = 9; RETURN internal.json(200, '{}'); END $$),
        ('broken', '{"path": "^/broken$"}', raise_marker),
        ('taken', '{"path": "^/taken$"}',
            $$ BEGIN INSERT INTO internal.counter VALUES ('bumps', 1); RETURN internal.json(200, '{}'); END $$),
        ('lost', '{"path": "^/lost$"}', always_lost),
        ('bump', '{"path": "^/bump$", "minTransactionIsolation": "repeatable read"}',
            $$ BEGIN RETURN internal.json(200, to_jsonb(internal.bump())); END $$),
        ('versions', '{"path": "^/versions$"}', $$ BEGIN RETURN internal.json(200, '"any"'); END $$),
        ('versions_2', '{"path": "^/versions$", "version": "^2"}', $$ BEGIN RETURN internal.json(200, '"2"'); END $$),
        ('peculiar', '{"path": "^/peculiar$"}', $$ BEGIN RETURN internal.json(200, '"plain"'); END $$),
        -- No gateway reads this expression, and the database prefers it.
        ('lookahead', '{"path": "^/(?!x)peculiar$"}',
            $$ BEGIN UPDATE internal.counter SET n = n + 1 WHERE name = 'steps'; RETURN internal.json(200, '"other"'); END $$)
    ) v (name, metadata, body) LOOP
        PERFORM api.create_or_replace_rest_handler(
            open || row.metadata::jsonb || jsonb_build_object('name', row.name), row.body);
    END LOOP;
    FOR row IN SELECT * FROM (VALUES
        ('orders.list', '{}', $$ BEGIN RETURN internal.json(200, jsonb_build_object('jsonrpc', '2.0',
            'id', convert_from(request.content, 'UTF8')::jsonb -> 'id', 'result', internal.whoami())); END $$),
        ('orders.mine', '{"requiresAuth": true}', $$ BEGIN RETURN internal.json(200, jsonb_build_object('jsonrpc', '2.0',
            'id', convert_from(request.content, 'UTF8')::jsonb -> 'id', 'result', internal.whoami())); END $$),
        ('orders.broken', '{}', raise_marker),
        ('orders.lost', '{}', always_lost)
    ) v (name, metadata, body) LOOP
        PERFORM api.create_or_replace_rpc_handler(
            open || row.metadata::jsonb || jsonb_build_object('methodName', row.name), row.body);
    END LOOP;
    FOR row IN SELECT * FROM (VALUES
        ('tool', 'greet', '{"title": "Greet", "description": "Greets.", "tags": ["nice"], "readOnly": true,
            "inputSchema": {"type": "object", "properties": {"who": {"type": "string"}}}}',
            $$ BEGIN RETURN internal.mcp_text('Hello ' || (request.arguments ->> 'who') || ' ' || internal.whoami(), request.request_id); END $$),
        ('tool', 'mine', '{"requiresAuth": true}',
            $$ BEGIN RETURN internal.mcp_text(internal.whoami()::text, request.request_id); END $$),
        ('tool', 'broken', '{}', raise_marker),
        ('tool', 'lost', '{}', always_lost),
        ('tool', 'silent', '{}', $$ BEGIN RETURN NULL; END $$),
        ('resource', 'about', '{"uriTemplate": "shop://about", "mimeType": "text/plain"}',
            $$ BEGIN RETURN internal.mcp_result(jsonb_build_object('contents', jsonb_build_array(jsonb_build_object(
                'uri', request.uri, 'text', 'about'))), request.request_id); END $$),
        ('resource', 'order', '{"uriTemplate": "shop://orders/{id}"}',
            $$ BEGIN RETURN internal.mcp_result(jsonb_build_object('contents', jsonb_build_array(jsonb_build_object(
                'uri', request.uri, 'text', 'order'))), request.request_id); END $$),
        ('resource', 'secret', '{"uriTemplate": "shop://secret", "requiresAuth": true}', raise_marker),
        ('resource', 'bad', '{"uriTemplate": "shop://bad"}', raise_marker),
        ('prompt', 'hello', '{"arguments": [{"name": "who", "required": true}]}',
            $$ BEGIN RETURN internal.mcp_result(jsonb_build_object('messages', jsonb_build_array(jsonb_build_object('role', 'user',
                'content', jsonb_build_object('type', 'text', 'text', 'Hello ' || (request.arguments ->> 'who'))))), request.request_id); END $$),
        ('prompt', 'closed', '{"requiresAuth": true}', raise_marker),
        ('prompt', 'bad_prompt', '{}', raise_marker)
    ) v (kind, name, metadata, body) LOOP
        PERFORM api.create_or_replace_mcp_handler(
            open || row.metadata::jsonb || jsonb_build_object('name', row.name, 'type', row.kind), row.body);
    END LOOP;
END $setup$;
GRANT EXECUTE ON ALL ROUTINES IN SCHEMA api TO registry_api;
RESET ROLE;
