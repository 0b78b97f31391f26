# What ten thousand notifications leave behind, and how a session fares that
# lives on while the tables grow: no dead tuple in notify_claim, and no
# sequential scan, although the plans were made when the tables were empty and
# had been vacuumed, analyzed or both.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use NotifyClaim;
use Test::More;

my $node = start_node('growth', "autovacuum = off\n");

create_orders($node);
$node->safe_psql('postgres', 'ALTER TABLE biz_order DISABLE TRIGGER record_move');

# Counters of the tables, as of now.
sub counters
{
	my ($session, $columns, @tables) = @_;
	my $tables = join(', ', map { "'$_'" } @tables);

	$session->query('SELECT pg_stat_force_next_flush()');
	return $session->query(qq{
		SELECT relname, $columns FROM pg_stat_user_tables WHERE relname IN ($tables) ORDER BY 1});
}

# Ten thousand new notifications in one session, one transaction each, of which
# some are repeats, conflicts and refusals, which do not write at all.

$node->safe_psql('postgres', q{
	INSERT INTO biz_order SELECT n::text, 'PENDING_PAY' FROM generate_series(1, 5000) AS n;
	CREATE PROCEDURE deliver() LANGUAGE plpgsql AS $$
	BEGIN
		FOR n IN 1 .. 5000 LOOP
			PERFORM handle_notify('T' || n, 'PAY', n::text, '\x00'::bytea);
			COMMIT;
			PERFORM handle_notify('P' || n, 'push', n::text, '\x00'::bytea);
			COMMIT;
			IF n % 10 = 0 THEN
				PERFORM handle_notify('T' || n, 'PAY', n::text, '\x00'::bytea);
				PERFORM handle_notify('T' || n, 'PAY', n::text, '\xff'::bytea);
				PERFORM handle_notify('N' || n, 'PAY', 'none', '\x00'::bytea);
				PERFORM handle_notify('N' || n, 'none', n::text, '\x00'::bytea);
				COMMIT;
			END IF;
		END LOOP;
	END $$});
my $session = NotifyClaim::Session->new($node);
is($session->query('CALL deliver()'), '', 'ten thousand new notifications');
is( counters($session, 'n_tup_ins, n_tup_upd, n_tup_del, n_live_tup, n_dead_tup',
		'notify_claim', 'notify_outbox'),
	"notify_claim|10000|0|0|10000|0\nnotify_outbox|10500|0|0|10500|0",
	'claims, messages and alarms are inserted, and nothing else');
foreach my $table ('notify_claim', 'notify_outbox')
{
	my $rows = $table eq 'notify_claim' ? 10000 : 10500;
	my ($out, $err);

	$node->psql('postgres', "VACUUM (VERBOSE) $table", stdout => \$out, stderr => \$err);
	like($err, qr/tuples: 0 removed, $rows remain, 0 are dead but not yet removable/,
		"VACUUM finds no dead tuple in $table");
}
is( $session->query(q{SELECT count(*), count(DISTINCT xmin::text) FROM notify_claim}),
	'10000|10000', 'one transaction each: no claim was written in a subtransaction of its own');
$session->quit;

# Sessions that make their plans over empty tables.  A machine's definitions are
# read as a whole, when a session learns of them; otherwise no scan is sequential.

my @growing = ('notify_claim', 'notify_outbox', 'biz_order');
my @tables = (@growing, 'notify_machine', 'notify_event', 'notify_transition');
my %sessions;

sub prepare_session
{
	my ($name, $sql) = @_;

	$node->safe_psql('postgres', 'TRUNCATE notify_claim, notify_outbox, biz_order');
	foreach my $table (@tables)
	{
		$node->safe_psql('postgres', sprintf($sql, $table)) if $sql;
	}
	$sessions{$name} = NotifyClaim::Session->new($node);
	# Each kind of call once, for its plan.
	is($sessions{$name}->notify('T0', 'PAY', '0'), 'NO_ORDER', "$name: no order yet");
	is($sessions{$name}->notify("T-$name", 'push', '0'), 'APPLIED', "$name: a claim and a message");
	$node->safe_psql('postgres', qq{INSERT INTO biz_order VALUES ('$name', 'PENDING_PAY')});
	is($sessions{$name}->notify("T-$name", 'PAY', $name), 'APPLIED', "$name: a transition");
	return;
}

# Delivers the order's notices, every kind of answer among them.
sub deliver
{
	my ($name, $order) = @_;
	my $session = $sessions{$name};

	return join(', ',
		$session->notify("S$order", 'SHIP', $order),
		$session->notify("T$order", 'PAY', $order),
		$session->notify("T$order", 'PAY', $order),
		$session->notify("T$order", 'PAY', $order, 'ff'),
		$session->notify("U$order", 'PAY', $order),
		$session->notify("S$order", 'SHIP', $order),
		$session->notify("P$order", 'push', $order),
		$session->notify("N$order", 'PAY', "none-$order"),
		$session->notify("N$order", 'none', $order));
}

my $answers = 'EARLY, APPLIED, APPLIED replayed, CONFLICT, SKIPPED, APPLIED, APPLIED, NO_ORDER, NO_RULE';

# Delivers for the orders, and looks at what the tables counted meanwhile: the
# first order's calls may read the definitions again.
sub no_sequential_scan
{
	my ($name, $when, @orders) = @_;

	# What others have counted they report as they end, which may be after their psql.
	$node->poll_query_until('postgres',
		q{SELECT count(*) = 2 FROM pg_stat_activity WHERE backend_type = 'client backend'})
	  or die 'other sessions are there';
	my $growing = counters($sessions{$name}, 'seq_scan', @growing);
	my $indexes = counters($sessions{$name}, 'idx_scan', 'notify_claim', 'biz_order');
	my $all;

	foreach my $order (@orders)
	{
		is(deliver($name, $order), $answers, "$name, $when: answers");
		$all //= counters($sessions{$name}, 'seq_scan', @tables);
	}
	is(counters($sessions{$name}, 'seq_scan', @tables), $all, "$name, $when: no sequential scan");
	is(counters($sessions{$name}, 'seq_scan', @growing), $growing,
		"$name, $when: none of what grows, not even at first");
	isnt(counters($sessions{$name}, 'idx_scan', 'notify_claim', 'biz_order'), $indexes,
		"$name, $when: the counters do count");
	return;
}

my %ways = (
	'never touched' => '',
	'analyzed' => 'ANALYZE %s',
	'vacuumed' => 'VACUUM %s',
	'vacuumed and analyzed' => 'VACUUM (ANALYZE) %s');
foreach my $name (sort keys %ways)
{
	prepare_session($name, $ways{$name});
	no_sequential_scan($name, 'tables still empty', map { $node->safe_psql('postgres',
		"INSERT INTO biz_order VALUES ('$name $_', 'PENDING_PAY') RETURNING order_no") } 1 .. 2);

	# The tables grow, and nobody has told the session.
	$node->safe_psql('postgres', qq{
		INSERT INTO biz_order SELECT n::text, 'PENDING_PAY' FROM generate_series(1, 100000) AS n;
		INSERT INTO notify_claim (channel, biz_key, order_no, payload_hash, digest_mode,
				claim_state, outcome, result_json, created_at)
			SELECT 'default', 'G' || n || ':PAY', n::text, encode(sha256(n::text::bytea), 'hex'), 'raw',
				'DONE', 'SKIPPED', '{}', now()
			FROM generate_series(1, 100000) AS n;
		INSERT INTO notify_outbox (id, aggregatetype, aggregateid, type, payload, created_at)
			SELECT gen_random_uuid(), 'x', n::text, 'x', '{}', now()
			FROM generate_series(1, 100000) AS n});
	no_sequential_scan($name, '100,000 rows', 1, 50_000, 100_000);

	# Now it is told, and makes its plans anew; then what it is told is that
	# everything is empty, while the order table has rows again soon after.
	$node->safe_psql('postgres', 'VACUUM ANALYZE');
	no_sequential_scan($name, '100,000 rows, analyzed', 2, 3);
	$node->safe_psql('postgres', 'TRUNCATE notify_claim, notify_outbox, biz_order');
	$node->safe_psql('postgres', 'VACUUM ANALYZE');
	$node->safe_psql('postgres', q{
		INSERT INTO biz_order SELECT n::text, 'PENDING_PAY' FROM generate_series(1, 1000) AS n});
	no_sequential_scan($name, 'emptied, analyzed and filled', 4, 5);
	$sessions{$name}->quit;
}

$node->stop;
done_testing();
