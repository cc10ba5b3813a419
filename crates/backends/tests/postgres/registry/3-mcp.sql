-- The gateway functions of MCP, registration, and rights.

CREATE FUNCTION internal.mcp_result(result jsonb, id jsonb) RETURNS api.mcp_response LANGUAGE sql IMMUTABLE AS $$
    SELECT ROW(jsonb_build_object('jsonrpc', '2.0', 'id', id, 'result', result))::api.mcp_response
$$;

CREATE FUNCTION internal.mcp_text(text text, id jsonb, is_error boolean = false) RETURNS api.mcp_response
LANGUAGE sql IMMUTABLE AS $$
    SELECT internal.mcp_result(jsonb_build_object('content', jsonb_build_array(
        jsonb_build_object('type', 'text', 'text', text)), 'isError', is_error), id)
$$;

CREATE FUNCTION internal.mcp_error(code int, message text, id jsonb, token text = NULL) RETURNS api.mcp_response
LANGUAGE sql IMMUTABLE AS $$
    SELECT ROW(jsonb_build_object('jsonrpc', '2.0', 'id', id, 'error', jsonb_strip_nulls(jsonb_build_object(
        'code', code, 'message', message,
        'data', CASE WHEN token IS NOT NULL THEN jsonb_build_object('code', token) END))))::api.mcp_response
$$;

CREATE FUNCTION internal.mcp_invoke(kind text, name text, arguments jsonb, context jsonb, id jsonb)
RETURNS api.mcp_response LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    handler api.handler;
    response api.mcp_response;
    lacks text[];
BEGIN
    SELECT h.* INTO handler FROM api.mcp_route r JOIN api.handler h ON h.object_id = r.handler_object_id
    WHERE h.deleted_at IS NULL AND mcp_type = kind
        AND CASE kind WHEN 'resource' THEN name ~ uri_regexp ELSE mcp_name = name END
    ORDER BY length(uri_template) DESC, mcp_name LIMIT 1;
    IF handler.object_id IS NULL THEN
        RETURN internal.mcp_error(-32602, initcap(kind) || ' not found', id);
    END IF;
    PERFORM internal.become(context ->> 'user_id', context ->> 'user_email', context ->> 'tenant_id', NULL);
    IF handler.requires_auth AND api.current_user_id() IS NULL THEN
        RETURN internal.mcp_error(-32001, 'Authentication required: no user resolved from context', id);
    END IF;
    lacks := internal.shortfall(handler);
    IF lacks IS NOT NULL THEN
        RETURN internal.mcp_error(-32600, lacks[2], id, lacks[1]);
    END IF;
    BEGIN
        EXECUTE format('SELECT * FROM api.%I($1)', handler.handler_function_name) INTO response
        USING (arguments, CASE kind WHEN 'resource' THEN name END, context, id)::api.mcp_request;
        RETURN response;
    EXCEPTION
        WHEN serialization_failure OR deadlock_detected THEN RAISE;
        WHEN OTHERS THEN
            IF current_setting('registry.tells_errors', true) = 'on' THEN
                RETURN internal.mcp_error(-32603, SQLERRM, id);
            ELSIF kind = 'tool' THEN
                RETURN internal.mcp_text('Tool execution failed', id, true);
            END IF;
            RETURN internal.mcp_error(-32603, 'Internal error', id);
    END;
END $$;

CREATE FUNCTION api.mcp_call_tool(p_name text, p_arguments jsonb, p_context jsonb = NULL, p_request_id jsonb = NULL)
RETURNS api.mcp_response LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM internal.mcp_invoke('tool', p_name, p_arguments, p_context, p_request_id)
$$;
CREATE FUNCTION api.mcp_read_resource(p_uri text, p_context jsonb = NULL, p_request_id jsonb = NULL)
RETURNS api.mcp_response LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM internal.mcp_invoke('resource', p_uri, NULL, p_context, p_request_id)
$$;
CREATE FUNCTION api.mcp_get_prompt(p_name text, p_arguments jsonb, p_context jsonb = NULL, p_request_id jsonb = NULL)
RETURNS api.mcp_response LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM internal.mcp_invoke('prompt', p_name, p_arguments, p_context, p_request_id)
$$;

-- Registration. The body is PL/pgSQL with the variable `request`.
CREATE FUNCTION internal.register(kind api.handler_type, request_type text, response_type text, m jsonb, body text)
RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
    id uuid := coalesce(m ->> 'id', gen_random_uuid()::text);
    name text := coalesce(m ->> 'name', m ->> 'methodName');
    list text[];
BEGIN
    IF kind::text LIKE 'mcp%' THEN
        name := kind || '_' || name;
    END IF;
    EXECUTE format('CREATE OR REPLACE FUNCTION api.%I(request api.%I) RETURNS api.%I LANGUAGE plpgsql AS %L',
        name, request_type, response_type, body);
    INSERT INTO api.handler (object_id, handler_type, handler_func, handler_function_name, requires_auth,
        min_transaction_isolation, read_only, title, description, input_json_schema, output_json_schema, accepts, produces)
    VALUES (id, kind, format('api.%I(api.%I)', name, request_type)::regprocedure, name,
        coalesce((m ->> 'requiresAuth')::boolean, true), m ->> 'minTransactionIsolation',
        coalesce((m ->> 'readOnly')::boolean, false), m ->> 'title', m ->> 'description',
        m -> 'inputSchema', m -> 'outputSchema',
        coalesce(ARRAY(SELECT jsonb_array_elements_text(nullif(m -> 'accepts', 'null'))), '{}'),
        coalesce(ARRAY(SELECT jsonb_array_elements_text(nullif(m -> 'produces', 'null'))), '{}'));
    UPDATE api.handler SET accepts = '{*/*}' WHERE object_id = id AND accepts = '{}';
    UPDATE api.handler SET produces = '{application/json}' WHERE object_id = id AND produces = '{}';
    RETURN id;
END $$;

CREATE FUNCTION api.create_or_replace_rest_handler(p_metadata jsonb, p_handler_body text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO api.rest_route (handler_object_id, address_regexp, method_regexp, version_regexp, route_name, canonical_path)
    SELECT internal.register('rest', 'rest_request', 'http_response', p_metadata, p_handler_body),
        coalesce(p_metadata ->> 'path', p_metadata ->> 'uri'),
        coalesce(p_metadata ->> 'httpMethod', '^(GET|POST|PUT|DELETE|PATCH)$'),
        coalesce(p_metadata ->> 'version', '.*'), p_metadata ->> 'name', p_metadata ->> 'example'
$$;
CREATE FUNCTION api.create_or_replace_rpc_handler(p_metadata jsonb, p_handler_body text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO api.rpc_route (handler_object_id, method_name)
    SELECT internal.register('rpc', 'rpc_request', 'http_response', p_metadata, p_handler_body),
        p_metadata ->> 'methodName'
$$;
CREATE FUNCTION api.create_or_replace_mcp_handler(p_metadata jsonb, p_handler_body text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO api.mcp_route (handler_object_id, mcp_type, mcp_name, input_schema, uri_template, uri_regexp, mime_type,
        arguments, tags)
    SELECT internal.register(('mcp_' || (p_metadata ->> 'type'))::api.handler_type, 'mcp_request', 'mcp_response',
            p_metadata, p_handler_body),
        p_metadata ->> 'type', p_metadata ->> 'name', coalesce(p_metadata -> 'inputSchema', '{"type":"object"}'),
        p_metadata ->> 'uriTemplate',
        '^' || regexp_replace(replace(p_metadata ->> 'uriTemplate', '.', '\.'), '\{[^}]+\}', '([^/]+)', 'g') || '$',
        coalesce(p_metadata ->> 'mimeType', 'application/json'), p_metadata -> 'arguments',
        coalesce(ARRAY(SELECT jsonb_array_elements_text(p_metadata -> 'tags')), '{}')
$$;

GRANT USAGE ON SCHEMA api TO registry_api;
GRANT SELECT ON api.handler, api.rest_route, api.rpc_route, api.mcp_route TO registry_api;
GRANT EXECUTE ON ALL ROUTINES IN SCHEMA api TO registry_api;
