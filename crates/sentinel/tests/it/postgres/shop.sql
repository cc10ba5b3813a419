-- Two tenants whose rows the database keeps apart, and functions as teams write them.
-- Markers that no caller may ever see begin with "leak-".
CREATE ROLE gateway LOGIN NOSUPERUSER NOBYPASSRLS;
CREATE SCHEMA data;
CREATE SCHEMA api;
REVOKE ALL ON SCHEMA public FROM PUBLIC;

CREATE TABLE data.orders (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text NOT NULL DEFAULT NULLIF(current_setting('auth.tenant_id', true), ''),
    placed_by text NOT NULL DEFAULT NULLIF(current_setting('auth.user_id', true), ''),
    item text NOT NULL,
    amount numeric NOT NULL CONSTRAINT leak_constraint CHECK (amount > 0),
    code text CONSTRAINT leak_unique UNIQUE
);
ALTER TABLE data.orders ENABLE ROW LEVEL SECURITY;
CREATE POLICY by_tenant ON data.orders USING (tenant = current_setting('auth.tenant_id', true));
CREATE TABLE data.accounts (id int PRIMARY KEY, balance numeric NOT NULL);
INSERT INTO data.accounts VALUES (1, 100), (2, 100);
INSERT INTO data.orders (tenant, placed_by, item, amount)
    SELECT tenant, 'seed', tenant || ' item ' || n, n
    FROM unnest(ARRAY['acme', 'globex']) tenant, generate_series(1, 3) n;

CREATE TYPE api.placed AS (id int, tenant text, placed_by text, item text, amount numeric);

CREATE FUNCTION api.list_orders(min_amount numeric DEFAULT 0) RETURNS SETOF api.placed
LANGUAGE sql STABLE AS
    'SELECT id, tenant, placed_by, item, amount FROM data.orders WHERE amount >= min_amount ORDER BY id';
COMMENT ON FUNCTION api.list_orders IS $$The orders of your tenant.
@tool
@route GET /shop/orders
@param min_amount Only orders of at least this amount.$$;

CREATE FUNCTION api.get_order(id int) RETURNS api.placed LANGUAGE plpgsql STABLE AS $$
DECLARE placed api.placed;
BEGIN
    SELECT o.id, o.tenant, o.placed_by, o.item, o.amount INTO placed FROM data.orders o WHERE o.id = get_order.id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no such order' USING ERRCODE = 'PT404';
    END IF;
    RETURN placed;
END $$;
COMMENT ON FUNCTION api.get_order IS $$One order.
@tool
@route GET /shop/orders/{id}$$;

CREATE FUNCTION api.order_text(id int) RETURNS text LANGUAGE sql STABLE AS
    $$SELECT item || ' for ' || amount FROM data.orders o WHERE o.id = order_text.id$$;
COMMENT ON FUNCTION api.order_text IS $$An order as text.
@resource shop://orders/{id}
@mime text/plain$$;

CREATE FUNCTION api.advise(topic text) RETURNS text LANGUAGE sql STABLE AS
    $$SELECT 'Give advice on ' || topic || ' to ' || current_setting('auth.user_id', true)$$;
COMMENT ON FUNCTION api.advise IS $$Asks for advice.
@prompt$$;

CREATE FUNCTION api.place_order(item text, amount numeric, code text DEFAULT NULL) RETURNS api.placed
LANGUAGE sql VOLATILE AS
    $$INSERT INTO data.orders (item, amount, code) VALUES (item, amount, code)
      RETURNING id, tenant, placed_by, item, amount$$;
COMMENT ON FUNCTION api.place_order IS $$Places an order.
@tool
@route POST /shop/orders$$;

CREATE FUNCTION api.whoami(OUT user_id text, OUT tenant_id text, OUT email text, OUT role text, OUT token text,
    OUT login text, OUT path text, OUT pid int)
LANGUAGE sql STABLE AS
    $$SELECT current_setting('auth.user_id', true), current_setting('auth.tenant_id', true),
        current_setting('auth.user_email', true), current_setting('auth.role', true),
        current_setting('auth.token', true), current_user::text, current_setting('search_path'), pg_backend_pid()$$;
COMMENT ON FUNCTION api.whoami IS '@tool
@route GET /shop/me';

CREATE FUNCTION api.members_only(owner text) RETURNS text LANGUAGE sql STABLE AS $$SELECT owner$$;
COMMENT ON FUNCTION api.members_only IS $$For known callers.
@tool
@auth
@bind owner auth.user_id
@route GET /shop/members$$;

-- Leaves what it can behind for the next user of the connection.
CREATE FUNCTION api.litter(left_behind text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM set_config('auth.user_id', left_behind, false), set_config('auth.tenant_id', left_behind, false),
        set_config('search_path', 'data', false), set_config('statement_timeout', '1ms', false);
END $$;
COMMENT ON FUNCTION api.litter IS '@tool';

CREATE FUNCTION api.leak(how text) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RAISE NOTICE 'leak-notice';
    IF how = 'raise' THEN
        RAISE EXCEPTION 'leak-message' USING DETAIL = 'leak-detail', HINT = 'leak-hint';
    ELSIF how = 'cast' THEN
        RETURN 'leak-cast'::int;
    ELSIF how = 'denied' THEN
        EXECUTE 'SELECT * FROM pg_catalog.pg_authid';
    ELSIF how = 'public' THEN
        RAISE EXCEPTION 'the shop is closed' USING ERRCODE = 'PT409', DETAIL = 'leak-detail';
    END IF;
    RETURN 'fine';
END $$;

CREATE FUNCTION api.fail(how text) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RAISE NOTICE 'leak-notice';
    IF how = 'check' THEN
        INSERT INTO data.orders (item, amount) VALUES ('leak-row', -1);
    ELSIF how = 'unique' THEN
        INSERT INTO data.orders (item, amount, code) VALUES ('a', 1, 'leak-code'), ('b', 1, 'leak-code');
    ELSIF how = 'null' THEN
        INSERT INTO data.orders (item, amount) VALUES (NULL, 1);
    ELSIF how = 'table' THEN
        EXECUTE 'SELECT * FROM data.leak_table';
    END IF;
    RETURN api.leak(how);
END $$;
COMMENT ON FUNCTION api.fail IS '@tool
@route POST /shop/fail';

-- Some good rows, and then a failure.
CREATE FUNCTION api.fail_rows(how text, good int) RETURNS SETOF text LANGUAGE sql STABLE AS
    $$SELECT CASE WHEN n > good THEN api.leak(how) ELSE 'row ' || n END FROM generate_series(1, good + 1) n$$;
COMMENT ON FUNCTION api.fail_rows IS '@tool
@route POST /shop/fail_rows';

CREATE FUNCTION api.sleep(seconds numeric) RETURNS text LANGUAGE sql VOLATILE AS
    $$SELECT 'slept' FROM pg_sleep(seconds)$$;
COMMENT ON FUNCTION api.sleep IS '@tool
@timeout 120s';

CREATE FUNCTION api.numbers(count int, width int DEFAULT 1) RETURNS SETOF text LANGUAGE sql STABLE ROWS 1000 AS
    $$SELECT repeat('x', width) || n FROM generate_series(1, count) n$$;
COMMENT ON FUNCTION api.numbers IS '@tool
@timeout 120s';

-- Reads both accounts and takes from one: two at a time may take more than there is, unless they are serializable.
CREATE FUNCTION api.withdraw(account int, amount numeric) RETURNS numeric LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF (SELECT sum(balance) FROM data.accounts) < amount THEN
        RAISE EXCEPTION 'not enough' USING ERRCODE = 'PT422';
    END IF;
    PERFORM pg_sleep(0.2);
    UPDATE data.accounts SET balance = balance - amount WHERE id = account;
    RETURN (SELECT sum(balance) FROM data.accounts);
END $$;
COMMENT ON FUNCTION api.withdraw IS '@tool
@isolation serializable';

-- Two at a time in different order wait for each other.
CREATE SEQUENCE data.attempts;
CREATE FUNCTION api.raise_both(first int, second int) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM nextval('data.attempts');
    UPDATE data.accounts SET balance = balance + 1 WHERE id = first;
    PERFORM pg_advisory_xact_lock_shared(7);
    UPDATE data.accounts SET balance = balance + 1 WHERE id = second;
    RETURN second;
END $$;
COMMENT ON FUNCTION api.raise_both IS '@tool';

CREATE FUNCTION api.lose() RETURNS int LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM nextval('data.attempts');
    RAISE EXCEPTION 'leak-message' USING ERRCODE = '40001';
END $$;
COMMENT ON FUNCTION api.lose IS '@tool';

CREATE FUNCTION api.touch(account int) RETURNS numeric LANGUAGE sql VOLATILE AS
    'UPDATE data.accounts SET balance = balance WHERE id = account RETURNING balance';
COMMENT ON FUNCTION api.touch IS '@tool';

CREATE FUNCTION api.port() RETURNS int LANGUAGE sql STABLE AS 'SELECT inet_server_port()';
COMMENT ON FUNCTION api.port IS '@tool';

CREATE FUNCTION api.port_for_writing() RETURNS int LANGUAGE sql VOLATILE AS 'SELECT inet_server_port()';
COMMENT ON FUNCTION api.port_for_writing IS '@tool';

CREATE FUNCTION api.port_serializable() RETURNS int LANGUAGE sql STABLE AS 'SELECT inet_server_port()';
COMMENT ON FUNCTION api.port_serializable IS '@tool
@isolation serializable';

GRANT USAGE ON SCHEMA api, data TO gateway;
GRANT SELECT, INSERT ON data.orders TO gateway;
GRANT SELECT, UPDATE ON data.accounts TO gateway;
GRANT USAGE ON SEQUENCE data.attempts TO gateway;
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA api FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA api TO gateway;
