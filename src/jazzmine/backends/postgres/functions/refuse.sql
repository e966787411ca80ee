-- Refuses all that a statement was to write; without a reason it does nothing.

CREATE OR REPLACE FUNCTION $schema.jazzmine_refuse(reason text) RETURNS text
    LANGUAGE plpgsql STRICT AS $body$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'JZ002', MESSAGE = reason;
END
$body$;
