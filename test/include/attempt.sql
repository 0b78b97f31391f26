-- Runs a statement and answers with its first value, or with SQLSTATE, message,
-- detail and hint.
CREATE FUNCTION attempt(stmt text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	state text; message text; detail text; hint text; answer text;
BEGIN
	EXECUTE stmt INTO answer;
	RETURN coalesce(nullif(answer, ''), 'ok');
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
		detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(E'\n', state || ': ' || message, nullif(detail, ''), nullif(hint, ''));
END $$;
