-- An example of PostgreSQL functions behind Sentinel Gateway: a shop that two organisations, acme and globex, order from.
-- Each sees its own orders only, because the database says so (row-level security); the gateway only says who calls.
--
-- It may be run again: what exists is replaced or left as it is. It makes the roles shop_owner and shop_gateway and the
-- schemas shop and shop_api, and touches nothing else. To remove it:
--   DROP SCHEMA shop_api, shop CASCADE; DROP OWNED BY shop_gateway, shop_owner; DROP ROLE shop_gateway, shop_owner;

BEGIN;
SET LOCAL client_min_messages = warning;

-- Roles -------------------------------------------------------------------------------------------------------------------

-- shop_owner owns everything here and cannot log in. The gateway logs in as shop_gateway, which may run the functions of
-- shop_api and nothing else: it reads no table, creates nothing, and cannot bypass row-level security.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'shop_owner') THEN
        CREATE ROLE shop_owner NOLOGIN NOINHERIT;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'shop_gateway') THEN
        CREATE ROLE shop_gateway LOGIN NOINHERIT CONNECTION LIMIT 100;
    END IF;
    -- Schemas of the same names that belong to somebody else are left alone.
    IF EXISTS (SELECT FROM pg_catalog.pg_namespace
               WHERE nspname IN ('shop', 'shop_api') AND nspowner <> 'shop_owner'::pg_catalog.regrole) THEN
        RAISE EXCEPTION 'there is a schema shop or shop_api that is not of this example';
    END IF;
    -- To create what belongs to shop_owner, one must be a member of it. Superusers need not.
    IF pg_catalog.current_setting('is_superuser') = 'off' THEN
        GRANT shop_owner TO CURRENT_USER;
    END IF;
END
$$;

CREATE SCHEMA IF NOT EXISTS shop AUTHORIZATION shop_owner;
CREATE SCHEMA IF NOT EXISTS shop_api AUTHORIZATION shop_owner;

SET LOCAL ROLE shop_owner;
SET LOCAL search_path = shop, pg_temp;

-- Functions are executable by everybody unless one says otherwise.
ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;

-- Data --------------------------------------------------------------------------------------------------------------------

CREATE TABLE IF NOT EXISTS shop.product (
    id int PRIMARY KEY,
    name text NOT NULL UNIQUE,
    price numeric(10, 2) NOT NULL CHECK (price >= 0),
    stock int NOT NULL CHECK (stock >= 0)
);

CREATE TABLE IF NOT EXISTS shop.purchase (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id text NOT NULL,
    placed_by text NOT NULL,
    placed_at timestamptz NOT NULL DEFAULT now(),
    product_id int NOT NULL REFERENCES shop.product,
    quantity int NOT NULL CHECK (quantity > 0),
    note text
);
CREATE INDEX IF NOT EXISTS purchase_by_tenant ON shop.purchase (tenant_id, id);

-- The organisation of the caller. The gateway sets auth.tenant_id for one transaction; without a caller it is empty.
CREATE OR REPLACE FUNCTION shop.tenant() RETURNS text
LANGUAGE sql STABLE
AS $$ SELECT nullif(pg_catalog.current_setting('auth.tenant_id', true), '') $$;

-- FORCE: the policies hold for the owner of the tables, too, and the functions below run as the owner.
ALTER TABLE shop.product ENABLE ROW LEVEL SECURITY;
ALTER TABLE shop.product FORCE ROW LEVEL SECURITY;
ALTER TABLE shop.purchase ENABLE ROW LEVEL SECURITY;
ALTER TABLE shop.purchase FORCE ROW LEVEL SECURITY;

DROP POLICY IF EXISTS products_are_public ON shop.product;
CREATE POLICY products_are_public ON shop.product USING (true);

DROP POLICY IF EXISTS own_purchases ON shop.purchase;
CREATE POLICY own_purchases ON shop.purchase USING (tenant_id = shop.tenant());

INSERT INTO shop.product (id, name, price, stock) VALUES
    (1, 'Anvil', 129.00, 12),
    (2, 'Rocket skates', 349.50, 3),
    (3, 'Giant magnet', 89.99, 40)
ON CONFLICT DO NOTHING;

-- Without the setting, the policy would refuse these rows.
SELECT pg_catalog.set_config('auth.tenant_id', 'acme', true);
INSERT INTO shop.purchase (tenant_id, placed_by, product_id, quantity, note)
SELECT 'acme', 'alice', product_id, quantity, note
FROM (VALUES (1, 2, 'for the cliff'), (2, 1, NULL)) AS sample (product_id, quantity, note)
WHERE NOT EXISTS (SELECT FROM shop.purchase);
SELECT pg_catalog.set_config('auth.tenant_id', 'globex', true);
INSERT INTO shop.purchase (tenant_id, placed_by, product_id, quantity, note)
SELECT 'globex', 'hank', 3, 5, 'for the moon'
WHERE NOT EXISTS (SELECT FROM shop.purchase);
SELECT pg_catalog.set_config('auth.tenant_id', '', true);

-- Functions ---------------------------------------------------------------------------------------------------------------

-- The comment of a function says how it is offered: the lines with @ are for the gateway, the rest is its description.
-- Every function runs as its owner (SECURITY DEFINER), so that the gateway's role needs no right on tables, and with a
-- search_path of its own, so that nobody can slip other tables or functions under its names.

DO $$
BEGIN
    CREATE DOMAIN shop_api.quantity AS int CHECK (VALUE BETWEEN 1 AND 100);
EXCEPTION WHEN duplicate_object THEN NULL;
END
$$;

CREATE OR REPLACE FUNCTION shop_api.search_products(query text DEFAULT '', max_price numeric DEFAULT NULL)
RETURNS TABLE (id int, name text, price numeric, stock int)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = shop, pg_temp
AS $$
    SELECT p.id, p.name, p.price, p.stock
    FROM product p
    WHERE p.name ILIKE '%' || search_products.query || '%'
      AND (search_products.max_price IS NULL OR p.price <= search_products.max_price)
    ORDER BY p.name
$$;
COMMENT ON FUNCTION shop_api.search_products(text, numeric) IS $$
The products of the shop, by name.
@tool
@route GET /shop/products
@tags shop
@param query A part of the name; empty: all products.
@param max_price The highest price.
$$;

-- Functions about orders return a whole order, so that nobody has to ask again.
DO $$
BEGIN
    CREATE TYPE shop_api.placed_order AS (
        id bigint, product text, quantity int, placed_by text, placed_at timestamptz, note text);
EXCEPTION WHEN duplicate_object THEN NULL;
END
$$;

CREATE OR REPLACE FUNCTION shop_api.list_orders(since timestamptz DEFAULT NULL)
RETURNS SETOF shop_api.placed_order
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = shop, pg_temp
AS $$
    SELECT o.id, p.name, o.quantity, o.placed_by, o.placed_at, o.note
    FROM purchase o JOIN product p ON p.id = o.product_id
    WHERE list_orders.since IS NULL OR o.placed_at >= list_orders.since
    ORDER BY o.id DESC
$$;
COMMENT ON FUNCTION shop_api.list_orders(timestamptz) IS $$
The orders of the caller's organisation, newest first.
@tool
@route GET /shop/orders
@auth
@tags shop
@param since Only orders placed at this moment or later.
$$;

CREATE OR REPLACE FUNCTION shop_api.get_order(id bigint)
RETURNS shop_api.placed_order
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = shop, pg_temp
AS $$
DECLARE
    found_order shop_api.placed_order;
BEGIN
    SELECT o.id, p.name, o.quantity, o.placed_by, o.placed_at, o.note INTO found_order
    FROM purchase o JOIN product p ON p.id = o.product_id
    WHERE o.id = get_order.id;
    IF NOT FOUND THEN
        -- Errors of the class PT are for the caller: its status, and its message as it stands here.
        RAISE EXCEPTION 'your organisation has no order %', get_order.id USING ERRCODE = 'PT404';
    END IF;
    RETURN found_order;
END
$$;
COMMENT ON FUNCTION shop_api.get_order(bigint) IS $$
One order of the caller's organisation.
@tool
@route GET /shop/orders/{id}
@auth
@tags shop
$$;

CREATE OR REPLACE FUNCTION shop_api.place_order(
    product_id int, quantity shop_api.quantity, placed_by text, note text DEFAULT NULL)
RETURNS shop_api.placed_order
LANGUAGE plpgsql SECURITY DEFINER SET search_path = shop, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    placed bigint;
BEGIN
    UPDATE product SET stock = stock - place_order.quantity
    WHERE id = place_order.product_id AND stock >= place_order.quantity;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there are not as many of product %', place_order.product_id USING ERRCODE = 'PT422';
    END IF;
    INSERT INTO purchase (tenant_id, placed_by, product_id, quantity, note)
    VALUES (tenant(), place_order.placed_by, place_order.product_id, place_order.quantity, place_order.note)
    RETURNING id INTO placed;
    RETURN shop_api.get_order(placed);
END
$$;
-- The caller does not say who it is: placed_by comes from its credential and is no argument of the tool.
COMMENT ON FUNCTION shop_api.place_order(int, shop_api.quantity, text, text) IS $$
Orders a product for the caller's organisation.
@tool
@route POST /shop/orders
@auth
@tags shop
@bind placed_by auth.user_id
@param product_id See search_products.
@isolation repeatable read
$$;

CREATE OR REPLACE FUNCTION shop_api.stock_report()
RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = shop, pg_temp
AS $$ SELECT jsonb_object_agg(name, stock) FROM product $$;
COMMENT ON FUNCTION shop_api.stock_report() IS $$
How many of each product are in stock.
@resource shop://stock stock
@mime application/json
$$;

CREATE OR REPLACE FUNCTION shop_api.restock(product text)
RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = shop, pg_temp
AS $$
    SELECT format('We have %s of %L. Look at the orders with list_orders and say how many to buy, and why.', p.stock, p.name)
    FROM product p WHERE p.name = restock.product
$$;
COMMENT ON FUNCTION shop_api.restock(text) IS $$
Asks a model how many of a product to buy.
@prompt
@param product The name of the product.
$$;

-- Rights ------------------------------------------------------------------------------------------------------------------

REVOKE ALL ON FUNCTION shop.tenant() FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA shop_api FROM PUBLIC;
GRANT USAGE ON SCHEMA shop_api TO shop_gateway;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA shop_api TO shop_gateway;

RESET ROLE;

COMMIT;
