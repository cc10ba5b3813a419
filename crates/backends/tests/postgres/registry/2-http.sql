-- The gateway functions of REST and RPC.

CREATE FUNCTION internal.json(status int, content jsonb, media_type text = 'application/json; charset=utf-8')
RETURNS api.http_response LANGUAGE sql IMMUTABLE AS $$
    SELECT (status, extensions.hstore('content-type', media_type), convert_to(content::text, 'UTF8'))::api.http_response
$$;

CREATE FUNCTION internal.problem(status int, title text, detail text, code text = NULL)
RETURNS api.http_response LANGUAGE sql IMMUTABLE AS $$
    SELECT internal.json(status, jsonb_strip_nulls(jsonb_build_object('type', 'about:blank', 'title', title,
        'status', status, 'detail', detail, 'code', code)), 'application/problem+json')
$$;

CREATE FUNCTION internal.rpc_error(status int, code int, message text, id jsonb, token text = NULL)
RETURNS api.http_response LANGUAGE sql IMMUTABLE AS $$
    SELECT internal.json(status, jsonb_build_object('jsonrpc', '2.0', 'id', id, 'error',
        jsonb_strip_nulls(jsonb_build_object('code', code, 'message', message,
            'data', CASE WHEN token IS NOT NULL THEN jsonb_build_object('code', token) END))))
$$;

-- What every answer carries.
CREATE FUNCTION internal.finished(response api.http_response, began timestamptz, extra extensions.hstore)
RETURNS api.http_response LANGUAGE sql VOLATILE SET search_path = extensions, pg_catalog, pg_temp AS $$
    SELECT (response.status_code,
        coalesce(response.headers, '') || hstore(ARRAY[
            'content-length', coalesce(octet_length(response.content), 0)::text,
            'x-execution-time-ms', (extract(epoch FROM clock_timestamp() - began) * 1000)::text,
            'x-pgmi-catalog-version', api.catalog_version(),
            'vary', 'accept, x-api-version, accept-version, x-user-id']) || extra,
        response.content)::api.http_response
$$;

CREATE FUNCTION internal.level(name text) RETURNS int LANGUAGE sql IMMUTABLE AS $$
    SELECT array_position('{read uncommitted,read committed,repeatable read,serializable}', name)
$$;

-- What is wrong with the transaction for this handler: a code and a text.
CREATE FUNCTION internal.shortfall(handler api.handler) RETURNS text[] LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN internal.level(handler.min_transaction_isolation) > internal.level(current_setting('transaction_isolation'))
        THEN ARRAY['pgmi.transaction_isolation_too_weak', 'a stronger isolation is required']
        WHEN handler.read_only AND current_setting('transaction_read_only') = 'off'
        THEN ARRAY['pgmi.transaction_read_only_required', 'a READ ONLY transaction is required']
    END
$$;

CREATE FUNCTION internal.accepts(accepted text, offered text[]) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT accepted IS NULL OR EXISTS (
        SELECT FROM unnest(string_to_array(accepted, ',')) a, unnest(offered) o
        WHERE btrim(split_part(a, ';', 1)) IN ('*/*', split_part(o, '/', 1) || '/*', o) OR o = '*/*')
$$;

-- Status, code of JSON-RPC and text of a failure. Some deployments tell the text of the error.
CREATE FUNCTION internal.failure(state text, message text, handler api.handler,
    OUT status int, OUT title text, OUT code int, OUT detail text)
LANGUAGE sql STABLE AS $$
    SELECT s, CASE s WHEN 409 THEN 'Conflict' WHEN 422 THEN 'Unprocessable Entity' WHEN 400 THEN 'Bad Request'
            WHEN 428 THEN 'Precondition Required' ELSE 'Internal Server Error' END,
        CASE s WHEN 500 THEN -32603 WHEN 428 THEN -32600 ELSE -32602 END,
        CASE WHEN current_setting('registry.tells_errors', true) = 'on' THEN message
            WHEN s = 500 THEN 'Internal error' ELSE 'The request cannot be carried out' END
    FROM (SELECT CASE WHEN state = '23505' THEN 409 WHEN state IN ('23514', '22001', '22003', '22008') THEN 422
        WHEN state IN ('23502', '23503', '22P02', '22023', '22007') THEN 400
        WHEN state = '25006' AND NOT handler.read_only THEN 428 ELSE 500 END) x (s)
$$;

CREATE FUNCTION api.url_path(url text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT split_part(url, '?', 1) $$;

CREATE FUNCTION api.rest_invoke(p_method text, p_url text, p_headers extensions.hstore = '', p_content bytea = NULL)
RETURNS api.http_response
LANGUAGE plpgsql SECURITY DEFINER SET search_path = extensions, pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    began timestamptz := clock_timestamp();
    verb text := CASE upper(p_method) WHEN 'HEAD' THEN 'GET' ELSE upper(p_method) END;
    path text := api.url_path(p_url);
    version text := coalesce(p_headers -> 'x-api-version', p_headers -> 'accept-version', '');
    handler api.handler;
    response api.http_response;
    extra hstore := '';
    allowed text;
    lacks text[];
    failed record;
BEGIN
    IF length(p_url) > 8192 THEN
        RETURN internal.finished(internal.problem(414, 'URI Too Long', 'more than 8192 characters'), began, '');
    END IF;
    SELECT h.* INTO handler FROM api.rest_route r JOIN api.handler h ON h.object_id = r.handler_object_id
    WHERE h.deleted_at IS NULL AND path ~ address_regexp AND verb ~ method_regexp AND version ~ version_regexp
    ORDER BY sequence_number DESC, route_name LIMIT 1;
    IF handler.object_id IS NULL THEN
        SELECT string_agg(DISTINCT m, ', ') INTO allowed
        FROM api.rest_route r JOIN api.handler h ON h.object_id = r.handler_object_id
        CROSS JOIN unnest('{GET,POST,PUT,PATCH,DELETE}'::text[]) m
        WHERE h.deleted_at IS NULL AND path ~ address_regexp AND m ~ method_regexp;
        IF allowed IS NOT NULL THEN
            RETURN internal.finished(internal.problem(405, 'Method Not Allowed', 'see Allow'), began,
                hstore('allow', allowed));
        END IF;
        RETURN internal.finished(internal.problem(404, 'Not Found', 'no route'), began, '');
    END IF;
    PERFORM api.set_auth_context(p_headers);
    IF handler.requires_auth THEN
        extra := hstore('cache-control', 'private, no-store');
        IF api.current_user_id() IS NULL THEN
            RETURN internal.finished(internal.problem(401, 'Unauthorized', 'Authentication required'), began,
                extra || hstore('www-authenticate', coalesce(current_setting('api.www_authenticate', true), 'X-User-Id')));
        END IF;
    END IF;
    lacks := internal.shortfall(handler);
    IF lacks IS NOT NULL THEN
        RETURN internal.finished(internal.problem(428, 'Precondition Required', lacks[2], lacks[1]), began, extra);
    END IF;
    IF NOT internal.accepts(split_part(p_headers -> 'content-type', ';', 1), handler.accepts) THEN
        RETURN internal.finished(internal.problem(415, 'Unsupported Media Type', 'see accepts'), began, extra);
    END IF;
    IF NOT internal.accepts(p_headers -> 'accept', handler.produces) THEN
        RETURN internal.finished(internal.problem(406, 'Not Acceptable', 'see produces'), began, extra);
    END IF;
    BEGIN
        EXECUTE format('SELECT * FROM api.%I($1)', handler.handler_function_name) INTO response
        USING (p_method, p_url, p_headers, p_content)::api.rest_request;
        response := internal.finished(response, began, extra || hstore('x-route-id', handler.object_id::text));
        IF current_setting('transaction_read_only') = 'off' THEN
            INSERT INTO api.exchange (handler_object_id, protocol, request, status)
            VALUES (handler.object_id, 'rest', p_method || ' ' || p_url, response.status_code);
        END IF;
        IF p_method = 'HEAD' THEN
            response.content := NULL;
        END IF;
        RETURN response;
    EXCEPTION
        WHEN serialization_failure OR deadlock_detected THEN RAISE;
        WHEN OTHERS THEN
            failed := internal.failure(SQLSTATE, SQLERRM, handler);
            IF failed.status = 428 THEN
                extra := extra || hstore('x-pgmi-transaction-required', 'read-write');
            END IF;
            RETURN internal.finished(internal.problem(failed.status, failed.title, failed.detail), began,
                extra || hstore('x-error-sqlstate', SQLSTATE));
    END;
END $$;

CREATE FUNCTION api.rest_invoke(p_method text, p_url text, p_headers extensions.hstore, p_content jsonb)
RETURNS api.http_response LANGUAGE sql AS $$
    SELECT api.rest_invoke(p_method, p_url, p_headers, convert_to(p_content::text, 'UTF8'))
$$;
CREATE FUNCTION api.rest_invoke(p_method text, p_url text, p_headers extensions.hstore, p_content xml)
RETURNS api.http_response LANGUAGE sql AS $$
    SELECT api.rest_invoke(p_method, p_url, p_headers, convert_to(p_content::text, 'UTF8'))
$$;

CREATE FUNCTION api.rpc_resolve(p_method_name text) RETURNS uuid
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT handler_object_id::uuid FROM api.rpc_route WHERE method_name = p_method_name
$$;

CREATE FUNCTION api.rpc_invoke(p_route_id uuid, p_headers extensions.hstore = '', p_content bytea = NULL)
RETURNS api.http_response
LANGUAGE plpgsql SECURITY DEFINER SET search_path = extensions, pg_catalog, pg_temp AS $$
DECLARE
    began timestamptz := clock_timestamp();
    handler api.handler;
    response api.http_response;
    method text;
    id jsonb;
    lacks text[];
    failed record;
BEGIN
    BEGIN
        id := convert_from(p_content, 'UTF8')::jsonb -> 'id';
    EXCEPTION WHEN OTHERS THEN
        RETURN internal.finished(internal.rpc_error(400, -32700, 'Parse error', NULL), began, '');
    END;
    SELECT h.* INTO handler FROM api.handler h JOIN api.rpc_route r ON r.handler_object_id = h.object_id
    WHERE h.object_id = p_route_id AND h.deleted_at IS NULL;
    IF handler.object_id IS NULL THEN
        RETURN internal.finished(internal.rpc_error(404, -32601, 'Method not found', id), began, '');
    END IF;
    PERFORM api.set_auth_context(p_headers);
    IF handler.requires_auth AND api.current_user_id() IS NULL THEN
        RETURN internal.finished(internal.rpc_error(401, -32001, 'Authentication required', id), began,
            hstore('www-authenticate', 'X-User-Id'));
    END IF;
    lacks := internal.shortfall(handler);
    IF lacks IS NOT NULL THEN
        RETURN internal.finished(internal.rpc_error(428, -32600, lacks[2], id, lacks[1]), began, '');
    END IF;
    BEGIN
        EXECUTE format('SELECT * FROM api.%I($1)', handler.handler_function_name) INTO response
        USING (p_route_id, p_headers, p_content)::api.rpc_request;
        SELECT method_name INTO method FROM api.rpc_route WHERE handler_object_id = p_route_id;
        RETURN internal.finished(response, began, hstore('x-rpc-method', method));
    EXCEPTION
        WHEN serialization_failure OR deadlock_detected THEN RAISE;
        WHEN OTHERS THEN
            failed := internal.failure(SQLSTATE, SQLERRM, handler);
            RETURN internal.finished(internal.rpc_error(failed.status, failed.code, failed.detail, id), began, '');
    END;
END $$;
