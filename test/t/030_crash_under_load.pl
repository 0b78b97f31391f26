# The server is stopped immediately, or its postmaster killed, while four
# sessions deliver: whoever saw COMMIT succeed finds the claim after the
# restart, once, with one transition and one message, and nothing else is there;
# delivering everything again brings every order to its end.
#
# The deliveries are random, with duplicates, changed bodies, notices out of
# order, rollbacks and transactions of two.  Set NOTIFY_CLAIM_SEED to the seed
# that a failed run has printed.

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
my $workers = 4;
my $orders = 1500;
my $dir = PostgreSQL::Test::Utils::tempdir;
my $node = start_node('crash', "max_prepared_transactions = 10\n");

note("NOTIFY_CLAIM_SEED=$seed");
srand($seed);
create_orders($node);
$node->safe_psql('postgres', q{
	CREATE TABLE delivery (round int, n int, txn text, event text, order_no text, body bytea,
		PRIMARY KEY (round, n));
	CREATE TABLE acked (round int, n int, status text, outcome text, replayed boolean)});

# One transaction of a worker, which tells what was answered when its COMMIT has
# succeeded.  An answer that did not come leaves its variable unset.
sub transaction
{
	my ($rollback, @deliveries) = @_;
	my $script = "BEGIN;\n";
	my $ack = '';

	foreach my $i (0 .. $#deliveries)
	{
		my $d = $deliveries[$i];
		$script .= "\\unset s$i\n\\unset o$i\n\\unset r$i\n"
		  . "SELECT status AS s$i, outcome AS o$i, replayed AS r$i FROM "
		  . call(@{$d}[ 1 .. 4 ]) . " \\gset\n";
		$ack .= " $d->[0] :s$i :o$i :r$i";
	}
	return $rollback ? "${script}ROLLBACK;\n" : "${script}COMMIT;\n\\echo acked$ack\n";
}

# Each notice of the round's orders once or several times, now and then with
# another body.
sub make_deliveries
{
	my ($round) = @_;
	my @deliveries;
	my $n = 0;

	foreach my $order (1 .. $orders)
	{
		foreach my $event ('PAY', 'push', 'SHIP')
		{
			my $times = 1 + int(rand(3));
			foreach (1 .. $times)
			{
				push @deliveries,
				  [ $n++, "T$round-$order", $event, "$round-$order", rand() < 0.05 ? 'ff' : '01' ];
			}
		}
	}
	return @deliveries;
}

# Writes a script for each worker.
sub write_scripts
{
	my ($round, @deliveries) = @_;
	my @scripts = map { "\\set QUIET on\nSET notify_claim.busy_timeout = '500ms';\n" } 1 .. $workers;
	# near each other, so that duplicates meet
	my @order = sort { $a->[0] <=> $b->[0] } map { [ $_->[0] + rand(30), $_ ] } @deliveries;

	while (@order)
	{
		my @some = map { $_->[1] } splice(@order, 0, rand() < 0.1 ? 2 : 1);
		$scripts[ rand($workers) ] .= transaction(rand() < 0.05, @some);
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
	exec('psql', '-X', '-A', '-t', '-d', $node->connstr('postgres'), '-f', "$dir/$round-$worker.sql")
	  or POSIX::_exit(1);
}

# Notes the acknowledged answers of a round's workers; returns how many there
# are, and how many workers had come to the end of their scripts.
sub collect_acks
{
	my ($round) = @_;
	my ($rows, $finished) = ('', 0);
	my $count = 0;

	foreach my $worker (0 .. $workers - 1)
	{
		my $out = PostgreSQL::Test::Utils::slurp_file("$dir/$round-$worker.out");

		$finished++ if $out =~ /^finished$/m;
		foreach my $line ($out =~ /^acked (.*)$/mg)
		{
			next if $line =~ /:/;    # an answer that did not come
			my @words = split / /, $line;
			while (my ($n, $status, $outcome, $replayed) = splice(@words, 0, 4))
			{
				$rows .= "$round\t$n\t$status\t$outcome\t$replayed\n";
				$count++;
			}
		}
	}
	$node->safe_psql('postgres', "COPY acked FROM STDIN;\n$rows\\.\n");
	return ($count, $finished);
}

foreach my $round (1 .. 3)
{
	my $name = "round $round, seed $seed";
	my @deliveries = make_deliveries($round);

	my $rows = join('', map { join("\t", $round, @{$_}[ 0 .. 3 ], "\\\\x$_->[4]") . "\n" } @deliveries);

	$node->safe_psql('postgres', "COPY delivery FROM STDIN;\n$rows\\.\n");
	$node->safe_psql('postgres', qq{
		INSERT INTO biz_order
			SELECT '$round-' || n, 'PENDING_PAY' FROM generate_series(1, $orders) AS n});
	write_scripts($round, @deliveries);

	my $target = int($orders * (0.2 + rand(0.6)));
	my $watcher = NotifyClaim::Session->new($node);
	my @pids = map { start_worker($round, $_) } 0 .. $workers - 1;
	$watcher->wait_until("SELECT count(*) >= $target FROM notify_claim WHERE biz_key LIKE 'T$round-%'");
	if ($round == 2)
	{
		$node->kill9;
	}
	else
	{
		$node->stop('immediate');
	}
	waitpid($_, 0) foreach @pids;
	$watcher->lost;
	start_again($node);

	my ($acks, $finished) = collect_acks($round);
	note("$acks acknowledged, claims transitions messages: " . counts($node));
	cmp_ok($acks, '>=', 50, "$name: there was load");
	is($finished, 0, "$name: up to the end");

	promises_kept($node, $name);
	is( $node->safe_psql('postgres', qq{
			SELECT d.*, a.* FROM acked AS a JOIN delivery AS d USING (round, n)
				LEFT JOIN notify_claim AS c ON c.biz_key = d.txn || ':' || d.event
			WHERE round = $round AND CASE
				WHEN a.status = 'SUCCESS' THEN c.id IS NULL OR c.outcome <> a.outcome
					OR c.order_no <> d.order_no OR c.payload_hash <> encode(sha256(d.body), 'hex')
				WHEN a.outcome = 'CONFLICT' THEN c.id IS NULL
					OR c.payload_hash = encode(sha256(d.body), 'hex')
				ELSE a.outcome NOT IN ('BUSY', 'EARLY') END}),
		'', "$name: every acknowledged answer is true");
	is( $node->safe_psql('postgres', qq{
			SELECT d.txn, d.event, count(*) FROM acked AS a JOIN delivery AS d USING (round, n)
			WHERE round = $round AND a.status = 'SUCCESS' AND NOT a.replayed
			GROUP BY 1, 2 HAVING count(*) > 1}),
		'', "$name: none was processed twice");

	# Once more, as a peer does that was not told.
	is( $node->safe_psql('postgres', qq{
			SELECT count(*) > 0, bool_and(h.replayed),
				bool_and(h.status = 'SUCCESS' AND h.outcome = a.outcome)
			FROM acked AS a JOIN delivery AS d USING (round, n),
				LATERAL handle_notify(d.txn, d.event, d.order_no, d.body) AS h
			WHERE round = $round AND a.status = 'SUCCESS'}),
		't|t|t', "$name: what was acknowledged is replayed");
	my %answers;
	foreach my $event ('PAY', 'push', 'SHIP')
	{
		$answers{$event} = $node->safe_psql('postgres', qq{
			SELECT string_agg(DISTINCT h.outcome, ' ' ORDER BY h.outcome)
			FROM delivery AS d, LATERAL handle_notify(d.txn, d.event, d.order_no, d.body) AS h
			WHERE round = $round AND d.event = '$event'});
	}
	is("$answers{PAY}, $answers{push}, $answers{SHIP}", join(', ', ('APPLIED CONFLICT') x 3),
		"$name: everything again");
	my ($n, $moves) = (3 * $orders * $round, 2 * $orders * $round);
	promises_kept($node, "$name, everything again", "$n $moves $n");
	is( $node->safe_psql('postgres', 'SELECT status, count(*) FROM biz_order GROUP BY 1'),
		'SHIPPED|' . $orders * $round, "$name: every order is at its end");
}

# A prepared transaction survives, undecided.
$node->safe_psql('postgres', q{
	INSERT INTO biz_order VALUES ('commit', 'PENDING_PAY'), ('rollback', 'PENDING_PAY')});
foreach my $decision ('commit', 'rollback')
{
	$node->safe_psql('postgres', 'BEGIN; SELECT ' . call($decision, 'PAY', $decision)
		. "; PREPARE TRANSACTION '$decision'");
	$node->stop('immediate');
	$node->start;

	my $session = NotifyClaim::Session->new($node);
	is($session->notify($decision, 'PAY', $decision), 'BUSY', "prepared, crashed: not decided yet");
	is($session->query("$decision PREPARED '$decision'"), '', "$decision prepared");
	is( $session->notify($decision, 'PAY', $decision),
		$decision eq 'commit' ? 'APPLIED replayed' : 'APPLIED',
		"prepared, crashed, $decision: the redelivery");
	$session->quit;
}
promises_kept($node, 'prepared and crashed');

$node->stop;
done_testing();
