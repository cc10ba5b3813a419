
-- Every change of a definition tells the gateway, which reads its catalog again at once. Without this it does so by its
-- interval (`refresh`). To create an event trigger one must be a superuser, or what the provider has in place of one.
-- It is about the whole database. To remove it: DROP EVENT TRIGGER sentinel_catalog;

BEGIN;
SET LOCAL client_min_messages = warning;

CREATE OR REPLACE FUNCTION shop.tell_gateway() RETURNS event_trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$ BEGIN PERFORM pg_notify('sentinel_catalog', ''); END $$;

DROP EVENT TRIGGER IF EXISTS sentinel_catalog;
CREATE EVENT TRIGGER sentinel_catalog ON ddl_command_end EXECUTE FUNCTION shop.tell_gateway();

COMMIT;
