
-- Every change of a definition tells the gateway, which reads its catalog again at once. Without this it does so by its
-- interval (`refresh`). To create an event trigger one must be a superuser, or what the provider has in place of one.
-- It is about the whole database. To remove it: DROP EVENT TRIGGER sentinel_catalog;

BEGIN;
SET LOCAL client_min_messages = warning;

-- An earlier one may belong to another role, whose code would run with the rights of each role that changes definitions.
DROP EVENT TRIGGER IF EXISTS sentinel_catalog;
DROP FUNCTION IF EXISTS shop.tell_gateway();
CREATE FUNCTION shop.tell_gateway() RETURNS event_trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- Not for temporary tables, which functions may make at each call. What is dropped is no longer listed.
    IF tg_tag LIKE 'DROP %' OR EXISTS (
        SELECT FROM pg_event_trigger_ddl_commands() AS c WHERE c.schema_name IS DISTINCT FROM 'pg_temp')
    THEN
        PERFORM pg_notify('sentinel_catalog', '');
    END IF;
END
$$;

CREATE EVENT TRIGGER sentinel_catalog ON ddl_command_end EXECUTE FUNCTION shop.tell_gateway();

COMMIT;
