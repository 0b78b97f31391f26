# Eight sessions deliver the notices of some orders in no order at all, several
# times, while the application moves the orders too, one by one and in bulk, and
# cron releases by hand.  In the middle a backend is killed, or the server.  What
# is parked is then early, and nothing else; every answer that was acknowledged
# is true; and once everything has been delivered every order is at its end.
#
# Set NOTIFY_CLAIM_SEED to the seed that a failed run has printed.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use List::Util qw(shuffle);
use NotifyClaim;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{NOTIFY_CLAIM_SEED} // int(rand(2**31));
my $workers = 8;
my $orders = 50;
my @faults = (
	'backend killed', 'immediate stop', 'backend killed', 'postmaster killed', 'backend killed',
	'immediate stop', 'no fault');
my $dir = PostgreSQL::Test::Utils::tempdir;
my $node = start_node('parking_load', "restart_after_crash = on\ndeadlock_timeout = 50ms\n");

note("NOTIFY_CLAIM_SEED=$seed");
srand($seed);
create_orders($node);
create_parking($node);
$node->safe_psql('postgres', q{
	CREATE FUNCTION refuse(order_no text, event_type text, raw_body bytea) RETURNS text
	LANGUAGE sql AS $$ SELECT 'refused' WHERE raw_body = '\x66' $$;
	SELECT notify_event_set('CREDIT', check_function => 'public.refuse');
	CREATE TABLE delivery (round int, n int, txn text, event text, order_no text, body bytea,
		PRIMARY KEY (round, n));
	CREATE TABLE acked (round int, n int, status text, outcome text, replayed boolean, result text)});

sub maybe
{
	my ($probability) = @_;
	return rand() < $probability;
}

# One of the words.
sub one_of
{
	return $_[ rand(@_) ];
}

# Each notice of the round's orders once or several times, now and then with
# another body.  A seventh of the credits is refused.
sub make_deliveries
{
	my ($round) = @_;
	my @deliveries;

	foreach my $order (1 .. $orders)
	{
		foreach my $txn ('PAY', 'SHIP', 'SIGN', 'CREDIT', 'REFUND', 'REFUND-2')
		{
			my $event = $txn =~ s/-.*//r;
			my $body = $event eq 'CREDIT' && $order % 7 == 0 ? '66' : '01';
			push @deliveries,
			  map { [ "$txn-$round-$order", $event, "$round-$order", maybe(0.03) ? 'ff' : $body ] }
			  0 .. int(rand(5));
		}
	}
	return map { [ $_, @{ $deliveries[$_] } ] } 0 .. $#deliveries;
}

# What the application does with an order of the round, or with many of them.
sub application
{
	my ($round) = @_;
	my $one = "order_no = '$round-" . (1 + int(rand($orders))) . "'";
	my $many = "order_no LIKE '$round-%" . int(rand(10)) . "'";
	my %update = (
		'cancel' => "status = 'CANCELLED' WHERE status = 'PENDING_PAY' AND $one",
		'pay' => "status = 'PAID' WHERE status = 'PENDING_PAY' AND $one",
		'pay many' => "status = 'PAID' WHERE status = 'PENDING_PAY' AND $many",
		'return' => "status = 'RETURNED' WHERE status = 'SIGNED' AND $one",
		'return many' => "status = 'RETURNED' WHERE status = 'SIGNED' AND $many",
		'touch many' => "status = status WHERE $many");

	return 'UPDATE biz_order SET '
	  . $update{ one_of('cancel', 'pay', 'pay many', 'return', ('return many') x 3, 'touch many') } . ";\n";
}

# One transaction of a worker, which tells what was answered when its COMMIT has
# succeeded.  An answer that did not come leaves its variable unset.
sub transaction
{
	my ($round, @deliveries) = @_;
	my $script = 'BEGIN ISOLATION LEVEL '
	  . one_of(('READ COMMITTED') x 3, 'REPEATABLE READ', 'SERIALIZABLE') . ";\n\\unset alive\n";
	my $ack = '';

	foreach my $i (0 .. $#deliveries)
	{
		my $call = call(@{ $deliveries[$i] }[ 1 .. 4 ]);

		$script .= "SAVEPOINT a$i;\nSELECT FROM $call;\nROLLBACK TO a$i;\n" if maybe(0.1);
		$script .= application($round) if maybe(0.1);
		$script .= "\\unset s$i\n\\unset o$i\n\\unset r$i\n\\unset j$i\n"
		  . "SELECT status AS s$i, outcome AS o$i, replayed AS r$i,"
		  . " coalesce(md5(result::text), '-') AS j$i FROM $call \\gset\n";
		$ack .= " $deliveries[$i][0] :s$i :o$i :r$i :j$i";
	}
	$script .= "SELECT FROM pg_sleep(0.01);\n" if maybe(0.3);
	return $script . (maybe(0.1) ? "ROLLBACK;\n" :
		"SELECT 'alive' AS alive \\gset\nCOMMIT;\n\\if :ERROR\n\\else\n\\echo acked :alive$ack\n\\endif\n");
}

# Writes a script for each worker.  The first one is cron as well.
sub write_scripts
{
	my ($round, @deliveries) = @_;
	my @scripts =
	  map { "SET notify_claim.busy_timeout = '100ms';\nSET statement_timeout = '30s';\n" } 1 .. $workers;
	my @order = shuffle(@deliveries);

	while (@order)
	{
		my $script = \$scripts[ rand($workers) ];

		$$script .= transaction($round, splice(@order, 0, maybe(0.1) ? 2 : 1));
		$$script .= application($round) if maybe(0.3);
		$scripts[0] .= "SELECT notify_unpark_all() \\g /dev/null\n" if maybe(0.1);
	}
	foreach my $worker (0 .. $#scripts)
	{
		open(my $file, '>', "$dir/$round-$worker.sql") or die $!;
		print $file "$scripts[$worker]\\echo finished\n";
		close($file);
	}
	return;
}

# Starts a worker.  What it says goes to a file, which outlives it.
sub start_worker
{
	my ($round, $worker) = @_;

	my $pid = fork() // die $!;
	return $pid if $pid;
	open(STDIN, '<', '/dev/null');
	open(STDOUT, '>', "$dir/$round-$worker.out");
	open(STDERR, '>', "$dir/$round-$worker.err");
	exec('psql', '-XAtq', '-v', 'VERBOSITY=sqlstate', '-d', $node->connstr('postgres') . ' application_name=worker',
		'-f', "$dir/$round-$worker.sql")
	  or POSIX::_exit(1);
}

# Notes the acknowledged answers of a round's workers; returns how many there
# are, how many workers have come to the end of their scripts, and the SQL states
# of errors that nobody expects.
sub collect_acks
{
	my ($round) = @_;
	my ($rows, $count, $finished) = ('', 0, 0);
	my %unexpected;

	foreach my $worker (0 .. $workers - 1)
	{
		my $out = PostgreSQL::Test::Utils::slurp_file("$dir/$round-$worker.out");
		my $err = PostgreSQL::Test::Utils::slurp_file("$dir/$round-$worker.err");

		$finished++ if $out =~ /^finished$/m;
		foreach my $line ($out =~ /^acked alive (.*)$/mg)
		{
			my @words = split / /, $line;
			while (my ($n, @answer) = splice(@words, 0, 5))
			{
				$rows .= join("\t", $round, $n, @answer) . "\n";
				$count++;
			}
		}

		# poison; an aborted transaction, without its savepoint; serialization, deadlock
		$unexpected{$_} = 1
		  foreach grep { !/^(?:23514|25P02|3B001|40001|40P01)$/ } $err =~ /ERROR:  (\w+)/g;
	}
	$node->safe_psql('postgres', "COPY acked FROM STDIN;\n$rows\\.\n");
	return ($count, $finished, join(' ', sort keys %unexpected));
}

# Lets the fault happen, waits until all workers have ended, and brings the
# server back.
sub strike
{
	my ($fault, $watcher, @workers) = @_;

	if ($fault eq 'backend killed')
	{
		my @backends = split /\n/,
		  $watcher->query(q{SELECT pid FROM pg_stat_activity WHERE application_name = 'worker'
			AND backend_type = 'client backend' ORDER BY backend_start});
		kill('KILL', one_of(@backends));
	}
	elsif ($fault eq 'immediate stop')
	{
		$node->stop('immediate');
	}
	elsif ($fault eq 'postmaster killed')
	{
		$node->kill9;
	}
	waitpid($_, 0) foreach @workers;
	return $watcher->quit if $fault eq 'no fault';
	$watcher->lost;
	return start_again($node) if $fault ne 'backend killed';
	$node->poll_query_until('postgres', 'SELECT 1', '1') or die 'the server does not come back';
	return;
}

# No promise is broken, nothing is parked that is legal but poison, every answer
# is true, and none was made twice.
sub check
{
	my ($name) = @_;

	is($node->safe_psql('postgres', 'SELECT * FROM astray LIMIT 20'),
		'', "$name: no promise broken");
	is( $node->safe_psql('postgres', q{
			SELECT d.*, a.*, c.outcome FROM acked AS a JOIN delivery AS d USING (round, n)
				LEFT JOIN notify_claim AS c ON c.biz_key = d.txn || ':' || d.event
			WHERE CASE
				WHEN a.status = 'SUCCESS' THEN c.id IS NULL OR c.order_no <> d.order_no
					OR c.payload_hash <> encode(sha256(d.body), 'hex')
					OR a.outcome <> 'PARKED' AND (c.outcome <> a.outcome OR md5(c.result_json::text) <> a.result)
				WHEN a.outcome = 'CONFLICT' THEN c.id IS NULL
					OR c.payload_hash = encode(sha256(d.body), 'hex')
				WHEN a.outcome = 'REJECTED' THEN d.body <> '\x66'
					OR c.outcome <> 'REJECTED' AND c.payload_hash = encode(sha256(d.body), 'hex')
				ELSE a.outcome <> 'BUSY' END
			LIMIT 20}),
		'', "$name: every acknowledged answer is true");
	is( $node->safe_psql('postgres', q{
			SELECT d.txn, count(*) FROM acked AS a JOIN delivery AS d USING (round, n)
			WHERE a.status = 'SUCCESS' AND NOT a.replayed
			GROUP BY 1 HAVING count(*) > 1}),
		'', "$name: none was processed twice");
	return;
}

sub all_outcomes
{
	return $node->safe_psql('postgres', q{
		SELECT string_agg(DISTINCT h.outcome || CASE WHEN h.replayed THEN ' replayed' ELSE '' END, ', ')
		FROM delivery AS d, LATERAL handle_notify(d.txn, d.event, d.order_no, d.body) AS h});
}

foreach my $round (1 .. @faults)
{
	my $fault = $faults[ $round - 1 ];
	my $name = "round $round, $fault, seed $seed";
	my @deliveries = make_deliveries($round);
	my $rows = join('', map { join("\t", $round, @{$_}[ 0 .. 3 ], "\\\\x$_->[4]") . "\n" } @deliveries);

	$node->safe_psql('postgres', "COPY delivery FROM STDIN;\n$rows\\.\n");
	$node->safe_psql('postgres', qq{
		INSERT INTO biz_order SELECT '$round-' || n, 'PENDING_PAY' FROM generate_series(1, $orders) AS n;
		INSERT INTO poison SELECT '$round-' || n, '23514' FROM generate_series(1, $orders, 5) AS n});
	write_scripts($round, @deliveries);

	my $watcher = NotifyClaim::Session->new($node);
	my @pids = map { start_worker($round, $_) } 0 .. $workers - 1;
	my $target = int($orders * (0.5 + rand(2.5)));
	$watcher->wait_until("SELECT count(*) >= $target FROM notify_claim WHERE order_no LIKE '$round-%'");
	strike($fault, $watcher, @pids);

	my ($acks, $finished, $unexpected) = collect_acks($round);
	note("$acks acknowledged; outcomes: " . $node->safe_psql('postgres', q{
		SELECT string_agg(outcome || ' ' || count, ', ')
		FROM (SELECT outcome, count(*) FROM acked GROUP BY 1 ORDER BY 1) AS a}));
	cmp_ok($acks, '>=', 20, "$name: there was load");
	cmp_ok($finished, $fault eq 'no fault' ? '==' : '<', $workers, "$name: in the middle");
	is($unexpected, '', "$name: errors that nobody expects");
	check($name);
}

# Cured, everything delivered again, and the application has done its part.

my $name = "everything again, seed $seed";

$node->safe_psql('postgres', 'DELETE FROM poison; SELECT notify_unpark_all()');
is( $node->safe_psql('postgres', q{
		SELECT biz_key FROM notify_claim JOIN biz_order USING (order_no)
		WHERE claim_state = 'PARKED' AND verdict(split_part(biz_key, ':', 2), status) <> 'early'}),
	'', "$name: nothing is parked that is legal");
unlike(all_outcomes(), qr/BUSY|EARLY|NO_/, "$name: outcomes");
check($name);
$node->safe_psql('postgres', q{UPDATE biz_order SET status = 'RETURNED' WHERE status = 'SIGNED'});
unlike(all_outcomes(), qr/PARKED|(?:APPLIED|SKIPPED)(?! replayed)/, "$name: replayed");
check($name);
is( $node->safe_psql('postgres', q{
		SELECT o.order_no, o.status, c.outcome, r.state FROM biz_order AS o
			LEFT JOIN notify_review AS r ON r.order_no = o.order_no AND r.kind = 'CHECK_REFUSED'
			LEFT JOIN notify_claim AS c ON c.biz_key = r.biz_key
		WHERE CASE o.status
			WHEN 'CREDITED' THEN false
			WHEN 'RETURNED' THEN r.state IS DISTINCT FROM 'OPEN'
			WHEN 'CANCELLED' THEN EXISTS (SELECT FROM notify_claim AS c
				WHERE c.order_no = o.order_no AND c.outcome <> 'SKIPPED')
			ELSE true END}),
	'', "$name: every order is at its end");
is( $node->safe_psql('postgres', q{
		SELECT d.*, a.*, h.* FROM acked AS a JOIN delivery AS d USING (round, n),
			LATERAL handle_notify(d.txn, d.event, d.order_no, d.body) AS h
		WHERE a.status = 'SUCCESS' AND (NOT h.replayed OR h.status <> 'SUCCESS'
			OR a.outcome <> 'PARKED' AND (h.outcome <> a.outcome OR md5(h.result::text) <> a.result))
		LIMIT 20}),
	'', "$name: what was acknowledged is replayed");
is( $node->safe_psql('postgres', q{
		SELECT string_agg(DISTINCT c.outcome, ' ' ORDER BY c.outcome)
		FROM acked AS a JOIN delivery AS d USING (round, n)
			JOIN notify_claim AS c ON c.biz_key = d.txn || ':' || d.event
		WHERE a.outcome = 'PARKED'}),
	'APPLIED REJECTED SKIPPED', "$name: what has become of the parked ones");

$node->stop;
done_testing();
