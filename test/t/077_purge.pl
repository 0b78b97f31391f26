# A purge that is cut off, and goes on; whose extension is renamed, changes hands
# and goes away under it; and two of them beside live calls: each repeat is
# answered from its claim or is the first, nothing is lost and nothing done twice.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use NotifyClaim;
use Test::More;

my $node = start_node('purge', "autovacuum = off\n");
my $holder = NotifyClaim::Session->new($node);

# Old claims, of which the one numbered 2050 stops whoever deletes it while the
# holder has the lock: then, or when that is committed.
sub create_old
{
	my ($schema, $when) = @_;

	$node->safe_psql('postgres', qq{
		SET client_min_messages = warning;
		CREATE SCHEMA IF NOT EXISTS $schema;
		CREATE EXTENSION notify_claim SCHEMA $schema;
		SET search_path = $schema;
		SELECT notify_event_add('push', 'PUSHED');
		INSERT INTO notify_claim (channel, biz_key, order_no, payload_hash, digest_mode, claim_state, outcome, created_at)
			SELECT 'default', 'T' || n || ':push', 'x', repeat('0', 64), 'raw', 'DONE', 'APPLIED', now() - interval '36 days'
			FROM generate_series(1, 5000) AS n;
		CREATE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS \$\$
		BEGIN
			IF old.id = 2050 THEN
				PERFORM pg_advisory_xact_lock_shared(1);
			END IF;
			RETURN NULL;
		END \$\$;
		CREATE CONSTRAINT TRIGGER stop AFTER DELETE ON notify_claim DEFERRABLE INITIALLY $when
			FOR EACH ROW EXECUTE FUNCTION stop()});
	return;
}

# A session in which a purge has stopped there.
sub stopped
{
	my ($schema) = @_;
	my $victim = NotifyClaim::Session->new($node);

	$holder->query('SELECT pg_advisory_lock(1)');
	$victim->send("CALL $schema.notify_purge(batch => 100)");
	$holder->wait_for_lock($victim);
	return $victim;
}

# How many claims are left, and the first of them.
sub left
{
	my ($schema) = @_;
	return $node->safe_psql('postgres', "SELECT count(*), min(id) FROM $schema.notify_claim");
}

create_old('shop', 'IMMEDIATE');
my $victim = stopped('shop');
is(left('shop'), '3000|2001', 'each batch before the one that it is at is committed');
$holder->query('SELECT pg_cancel_backend(' . $victim->pid . ')');
is($victim->receive, 'ERROR 57014', 'cancelled');
is(left('shop'), '3000|2001', 'one that is cancelled loses the batch that it was at');
$holder->query('SELECT pg_advisory_unlock(1)');
is( $victim->query(q{SELECT current_user = session_user, current_setting('transaction_isolation'),
		count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'}),
	't|read committed|0', 'and leaves the session as it was');
$victim->quit;

$victim = stopped('shop');
$holder->query('SELECT pg_terminate_backend(' . $victim->pid . ')');
like($victim->lost, qr/^FATAL 57P01$/m, 'terminated');
$holder->query('SELECT pg_advisory_unlock(1)');
is(left('shop'), '3000|2001', 'one that is terminated too');
is($node->safe_psql('postgres', q{SET statement_timeout = '60s'; CALL shop.notify_purge(batch => 1000)}),
	'3000|0', 'the next one goes on');

# Renamed and given to another between two batches
$node->safe_psql('postgres', 'DROP EXTENSION notify_claim CASCADE; DROP SCHEMA shop CASCADE');
create_old('shop', 'DEFERRED');
$node->safe_psql('postgres', q{
	CREATE ROLE other;
	GRANT USAGE ON SCHEMA shop TO other});
$victim = stopped('shop');
my $other = NotifyClaim::Session->new($node);
$other->query('ALTER SCHEMA shop RENAME TO "The Shop"');
# The next batch begins with the marks.
$other->query('BEGIN');
$other->send(q{
	LOCK TABLE "The Shop".notify_purge_mark;
	ALTER TABLE "The Shop".notify_purge_mark OWNER TO other;
	ALTER TABLE "The Shop".notify_purge_kept OWNER TO other;
	ALTER TABLE "The Shop".notify_claim OWNER TO other;
	ALTER TABLE "The Shop".notify_body OWNER TO other;
	ALTER TABLE "The Shop".notify_review OWNER TO other;
	ALTER TABLE "The Shop".notify_review_variant OWNER TO other;
	ALTER TABLE "The Shop".notify_decision OWNER TO other;
	ALTER TABLE "The Shop".notify_channel OWNER TO other;
	COMMIT});
$holder->wait_for_lock($other);
$holder->query('SELECT pg_advisory_unlock(1)');
is($other->receive, '', 'its tables change hands');
is($victim->receive, '5000|0', 'a purge goes on in the schema and as the owner of the day');
is(left('"The Shop"'), '0|', 'to its end');
$victim->quit;

# Dropped between two batches, or within one
foreach my $when ('DEFERRED', 'IMMEDIATE')
{
	$node->safe_psql('postgres', q{
		DROP EXTENSION IF EXISTS notify_claim CASCADE;
		DROP SCHEMA IF EXISTS "The Shop" CASCADE;
		DROP SCHEMA IF EXISTS shop CASCADE});
	create_old('shop', $when);
	$victim = stopped('shop');
	$other->query('SET client_min_messages = warning; BEGIN');
	$other->send('LOCK TABLE shop.notify_purge_mark; DROP EXTENSION notify_claim CASCADE; COMMIT');
	$holder->wait_for_lock($other);
	$holder->query('SELECT pg_advisory_unlock(1)');
	is($other->receive, '', "$when: its extension is dropped");
	like($victim->receive, qr/^ERROR (42P01|42704)$/, "$when: a purge ends with an error");
	is($victim->query('SELECT current_user = session_user'), 't', "$when: and the session is there");
	$victim->quit;
}
$other->quit;
$holder->quit;

#
# Two purges beside live calls.  Nothing is too young for them; every tenth delivery
# brings other content.
#

$node->safe_psql('postgres', q{
	CREATE EXTENSION notify_claim;
	SELECT notify_event_add('push', 'PUSHED');
	CREATE TABLE answered (worker int, key int, outcome text, replayed boolean);
	CREATE PROCEDURE deliver(worker int, n int) LANGUAGE plpgsql AS $$
	DECLARE
		k int;
	BEGIN
		FOR i IN 1 .. n LOOP
			k := random() * 50;
			INSERT INTO answered SELECT worker, k, outcome, replayed
				FROM handle_notify('T' || k, 'push', 'x', CASE WHEN i % 10 = 0 THEN '\xff' ELSE '\x00' END::bytea);
			COMMIT;
		END LOOP;
		INSERT INTO finished DEFAULT VALUES;
	END $$;
	CREATE TABLE finished ();
	CREATE TABLE purged (claims bigint);
	CREATE PROCEDURE purge() LANGUAGE plpgsql AS $$
	DECLARE
		c bigint;
		m bigint;
	BEGIN
		SET client_min_messages = warning;
		WHILE (SELECT count(*) FROM finished) < 2 LOOP
			CALL notify_purge('1 microsecond', batch => 5, force => true, claims => c, messages => m);
			INSERT INTO purged VALUES (c);
			-- What is under review is decided, and the decision is old at once.
			BEGIN
				PERFORM notify_review_resolve(id, 'DISMISS', 'test') FROM notify_review_open;
			EXCEPTION WHEN OTHERS THEN
				NULL;	-- somebody else was at it
			END;
			COMMIT;
		END LOOP;
	END $$});
my @sessions = map { NotifyClaim::Session->new($node) } 1 .. 3;
# Waits for what is not decided are bounded, not short.
$_->query(q{SET notify_claim.busy_timeout = '60s'}) foreach @sessions;
$sessions[$_]->send("CALL deliver($_, 2000)") foreach 0, 1;
$sessions[2]->send('CALL purge()');
foreach my $n (0 .. 2)
{
	is($sessions[$n]->receive, '', ($n < 2 ? 'deliveries' : 'purges') . ' have no error');
	$sessions[$n]->quit;
}
is( $node->safe_psql('postgres', q{
		SELECT DISTINCT outcome, replayed FROM answered WHERE outcome NOT IN ('APPLIED', 'CONFLICT') OR replayed IS NULL}),
	'', 'each repeat replays, conflicts or is the first');
is( $node->safe_psql('postgres', q{
		SELECT count(*) FILTER (WHERE replayed) > 0, count(*) FILTER (WHERE NOT replayed AND outcome = 'APPLIED') > 52,
			count(*) FILTER (WHERE outcome = 'CONFLICT') > 0 FROM answered}),
	't|t|t', 'and all of that has happened');
is( $node->safe_psql('postgres', q{
		SELECT (SELECT count(*) FROM answered WHERE outcome = 'APPLIED' AND NOT replayed)
			- (SELECT count(*) FROM notify_outbox WHERE aggregatetype = 'event'),
			(SELECT count(*) FROM answered WHERE outcome = 'APPLIED' AND NOT replayed)
			- (SELECT count(*) FROM notify_claim) - (SELECT sum(claims) FROM purged)}),
	'0|0', 'each first one has one message, and is there or was counted as purged');
is( $node->safe_psql('postgres', q{
		SELECT count(*) FROM notify_review AS r WHERE state = 'OPEN'
			AND NOT EXISTS (SELECT FROM notify_claim AS c WHERE c.id = r.claim)}),
	'0', 'no open review has lost its claim');
is( $node->safe_psql('postgres', q{
		SELECT count(*) FROM notify_review_variant AS v WHERE NOT EXISTS (SELECT FROM notify_review AS r WHERE r.id = v.review)}),
	'0', 'and no content its review');
is($node->safe_psql('postgres', q{
		UPDATE notify_review SET state = 'DISMISSED', resolved_at = now() WHERE state = 'OPEN';
		CALL notify_purge('1 microsecond', force => true)}) =~ s/\d+\|0/counts/r, 'counts', 'what is left goes');
is($node->safe_psql('postgres', q{SELECT count(*) FROM notify_claim}), '0', 'all of it');

$node->stop;
done_testing();
