-- Every member of the extension: privileges, comments, what a dump carries.
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;
CREATE VIEW member AS
SELECT d.classid, d.objid, pg_describe_object(d.classid, d.objid, 0) AS description
FROM pg_depend d WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
	AND d.classid IN ('pg_class'::regclass, 'pg_proc'::regclass)
	AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'notify_claim');
-- sequences of identity columns, indexes, triggers and constraints belong to members
CREATE VIEW part AS
SELECT classid, objid, description FROM member
UNION
SELECT d.classid, d.objid, pg_describe_object(d.classid, d.objid, 0)
FROM member m JOIN pg_depend d ON d.refclassid = m.classid AND d.refobjid = m.objid AND d.deptype IN ('i', 'a')
WHERE d.classid IN ('pg_class'::regclass, 'pg_trigger'::regclass) AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.oid = d.objid AND t.tgisinternal);
SELECT count(*) FROM part;
SELECT description FROM member ORDER BY description COLLATE "C";

-- nobody but the owner has any privilege
SELECT description, a.grantee::regrole, a.privilege_type
FROM part JOIN (SELECT 'pg_proc'::regclass AS classid, oid, proowner AS owner, coalesce(proacl, acldefault('f', proowner)) AS acl FROM pg_proc
      UNION ALL SELECT 'pg_class'::regclass, oid, relowner, coalesce(relacl, acldefault((CASE relkind WHEN 'S' THEN 's' ELSE 'r' END)::"char", relowner)) FROM pg_class WHERE relkind <> 'i') AS o
	ON o.classid = part.classid AND o.oid = part.objid, LATERAL aclexplode(o.acl) AS a
WHERE a.grantee <> o.owner
ORDER BY 1, 2, 3;
-- and none of the functions is a definer whose body is not parsed yet, or claims more than it keeps
SELECT count(*) AS functions, count(*) FILTER (WHERE prosecdef AND prosqlbody IS NULL OR proleakproof OR proisstrict) AS privileged,
       count(*) FILTER (WHERE proparallel = 'u') AS parallel_unsafe, count(*) FILTER (WHERE provolatile = 'v') AS volatile
FROM pg_proc JOIN member ON classid = 'pg_proc'::regclass AND objid = pg_proc.oid;

-- everything has a comment
SELECT description FROM part
WHERE obj_description(objid, classid::regclass::name) IS NULL
	AND NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conindid = part.objid AND part.classid = 'pg_class'::regclass)
	AND NOT EXISTS (SELECT FROM pg_class t WHERE t.oid = part.objid AND part.classid = 'pg_class'::regclass AND t.relkind = 't') ORDER BY 1;
SELECT c.oid::regclass, a.attname FROM pg_class c JOIN member m ON m.classid = 'pg_class'::regclass AND m.objid = c.oid AND c.relkind = 'r'
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped WHERE col_description(c.oid, a.attnum) IS NULL;

-- every table and every sequence is dumped with its content
SELECT c.oid::regclass AS not_dumped
FROM part JOIN pg_class c ON part.classid = 'pg_class'::regclass AND c.oid = part.objid AND c.relkind IN ('r', 'p', 'S')
WHERE NOT c.oid = ANY (SELECT unnest(extconfig) FROM pg_extension WHERE extname = 'notify_claim');
SELECT oid::regclass AS dumped FROM pg_class WHERE oid = ANY (SELECT unnest(extconfig) FROM pg_extension WHERE extname = 'notify_claim') ORDER BY relname;
SELECT extcondition FROM pg_extension WHERE extname = 'notify_claim';
-- and comes empty
SELECT (SELECT count(*) FROM notify_machine) + (SELECT count(*) FROM notify_event) + (SELECT count(*) FROM notify_transition)
     + (SELECT count(*) FROM notify_claim) + (SELECT count(*) FROM notify_outbox) AS seeded;

-- keys are compared bytewise
SELECT a.attrelid::regclass, a.attname FROM pg_attribute a JOIN member m ON m.classid = 'pg_class'::regclass AND m.objid = a.attrelid
WHERE a.attnum > 0 AND a.attcollation NOT IN (0, 'pg_catalog."C"'::regcollation);
-- the claims and messages survive a crash; sequences draw one by one
SELECT relname, relpersistence FROM pg_class JOIN member ON classid = 'pg_class'::regclass AND objid = pg_class.oid AND relkind = 'r' AND relpersistence <> 'p';
SELECT seqrelid::regclass, seqcache FROM pg_sequence JOIN part ON classid = 'pg_class'::regclass AND objid = seqrelid ORDER BY 1;

DROP VIEW part, member;
DROP EXTENSION notify_claim CASCADE;

-- in a schema of its own, with a name that needs quoting; created twice in one session
CREATE SCHEMA "My Claims";
CREATE EXTENSION notify_claim SCHEMA "My Claims";
SELECT "My Claims".notify_event_add('push', message_type => 'PUSHED');
SELECT outcome FROM "My Claims".handle_notify('T', 'push', '1', 'b');
-- its schema may be renamed, its tables may change hands
ALTER SCHEMA "My Claims" RENAME TO claims;
SELECT outcome, replayed FROM claims.handle_notify('T', 'push', '1', 'b');
SELECT outcome, replayed FROM claims.handle_notify('T2', 'push', '1', 'b');
CREATE ROLE regress_notify_owner;
ALTER TABLE claims.notify_claim OWNER TO regress_notify_owner;
\set VERBOSITY sqlstate
SELECT outcome, replayed FROM claims.handle_notify('T2', 'push', '1', 'b');
GRANT USAGE ON SCHEMA claims TO regress_notify_owner;
SELECT outcome, replayed FROM claims.handle_notify('T2', 'push', '1', 'b');
DROP EXTENSION notify_claim CASCADE;
SELECT outcome FROM claims.handle_notify('T', 'push', '1', 'b');
\set VERBOSITY default
CREATE EXTENSION notify_claim SCHEMA claims;
SELECT claims.notify_event_add('push', message_type => 'PUSHED');
SELECT outcome, replayed FROM claims.handle_notify('T', 'push', '1', 'b');
DROP EXTENSION notify_claim CASCADE;
DROP SCHEMA claims;
DROP ROLE regress_notify_owner;
