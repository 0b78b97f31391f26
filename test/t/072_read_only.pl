# Where nothing can be written, in a read-only transaction and on a standby: a
# repeat is answered, anything else is refused with 25006, and nobody is taken
# down.  After promotion the standby goes on where the primary has stopped.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use NotifyClaim;
use Test::More;

my $primary = start_node('primary', "max_prepared_transactions = 10\n",
	init => { allows_streaming => 1 });

create_orders($primary);
$primary->safe_psql('postgres', q{
	INSERT INTO biz_order SELECT n::text, 'PENDING_PAY' FROM generate_series(1, 9) AS n;
	SELECT notify_channel_add('lenient', on_no_rule => 'ack');
	SELECT FROM handle_notify('T1', 'PAY', '1', '\x00'::bytea);
	SELECT FROM handle_notify('T2', 'push', '1', '\x00'::bytea)});
$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->append_conf('postgresql.conf',
	"primary_conninfo = '" . $primary->connstr . " application_name=standby'");
$standby->start;

my @first = ([ 'T1', 'PAY', '1' ], [ 'T2', 'push', '1' ]);
my @new = ([ 'N1', 'PAY', '2' ], [ 'N2', 'push', '2' ], [ 'N3', 'SHIP', '1' ],
	[ 'N4', 'PAY', '1' ], [ 'N5', 'PAY', 'none' ]);

# What a session that cannot write is answered.
sub reads_only
{
	my ($session, $name, @levels) = @_;

	foreach my $level (@levels)
	{
		foreach my $notice (@first)
		{
			$session->query("BEGIN $level");
			is($session->notify(@$notice), 'APPLIED replayed', "$name, $level: @$notice is replayed");
			is($session->query('COMMIT'), '', "$name, $level: COMMIT");
			$session->query("BEGIN $level");
			like($session->notify(@$notice, 'ff'), qr/^(CONFLICT|ERROR 25006)$/,
				"$name, $level: @$notice with another body is not");
			$session->query('ROLLBACK');
		}
		foreach my $notice (@new)
		{
			$session->query("BEGIN $level");
			is($session->notify(@$notice), 'ERROR 25006', "$name, $level: @$notice is refused");
			$session->query('ROLLBACK');
		}
		is($session->notify('N6', 'unheard of', '2'), 'NO_RULE', "$name: an undeclared event");
		$session->query("BEGIN $level");
		is( $session->query(q{SELECT outcome FROM handle_notify('N6', 'unheard of', '2', 'b', channel => 'lenient')}),
			'ERROR 25006', "$name, $level: one that would be acknowledged");
		$session->query('ROLLBACK');
	}
	return;
}

# A read-only transaction.

my $session = NotifyClaim::Session->new($primary);
reads_only($session, 'read only', 'READ ONLY', 'ISOLATION LEVEL REPEATABLE READ READ ONLY',
	'ISOLATION LEVEL SERIALIZABLE READ ONLY', 'ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE');
$session->query('SET default_transaction_read_only = on');
is($session->notify('N1', 'PAY', '2'), 'ERROR 25006', 'read only by default: refused');
$session->query('RESET default_transaction_read_only');
is($session->notify('N1', 'PAY', '2'), 'APPLIED', 'the same session, writing');
is($session->notify('N1', 'PAY', '2'), 'APPLIED replayed', 'and replaying');
$session->quit;
promises_kept($primary, 'read only', '3 2 3');

# A standby.

@new = grep { $_->[0] ne 'N1' } @new;
push @first, [ 'N1', 'PAY', '2' ];
$primary->wait_for_catchup('standby');
$session = NotifyClaim::Session->new($standby);
my $pid = $session->pid;
reads_only($session, 'standby', 'ISOLATION LEVEL READ COMMITTED', 'ISOLATION LEVEL REPEATABLE READ');

is($session->query("CALL $_()"), 'ERROR 25006', "standby: $_ is refused")
  foreach 'notify_purge', 'notify_maintenance';
my $import = q{SELECT read FROM notify_import('biz_order', 'order_no', 'order_no', 'push'%s)};
is($session->query(sprintf($import, '')), 'ERROR 25006', 'standby: an import is refused');
is( $session->query(sprintf($import, ', dry_run => true')),
	$primary->safe_psql('postgres', 'SELECT count(*) FROM biz_order'), 'standby: its dry run is not');

# Not known there, and then it is.
is($session->notify('N7', 'push', '3'), 'ERROR 25006', 'standby: not known yet');
$primary->safe_psql('postgres', 'SELECT ' . call('N7', 'push', '3'));
$primary->wait_for_catchup('standby');
is($session->notify('N7', 'push', '3'), 'APPLIED replayed', 'standby: known by now');
$primary->safe_psql('postgres', q{SET client_min_messages = warning;
	SELECT notify_transition_add('PAY', 'PAID', 'PAID TWICE')});
$primary->wait_for_catchup('standby');
is($session->notify('N1', 'PAY', '2'), 'APPLIED replayed', 'standby: replays after a change of the machine');

# Failover: what was acknowledged by both is there, and the session that saw the
# standby goes on.

$primary->safe_psql('postgres', q{ALTER SYSTEM SET synchronous_standby_names = 'standby'});
$primary->reload;
$primary->poll_query_until('postgres', q{SELECT sync_state = 'sync' FROM pg_stat_replication}, 't')
  or die 'the standby does not become synchronous';
is($primary->safe_psql('postgres', 'SELECT outcome FROM ' . call('N8', 'PAY', '4')),
	'APPLIED', 'acknowledged by both');
$primary->safe_psql('postgres',
	'BEGIN; SELECT ' . call('N9', 'PAY', '5') . q{; PREPARE TRANSACTION 'undecided'});
$primary->stop('immediate');
$standby->promote;

is($session->query('SELECT pg_backend_pid()'), $pid, 'promoted: still the same session');
is($session->notify('N8', 'PAY', '4'), 'APPLIED replayed', 'promoted: nothing acknowledged is lost');
is($session->notify('N9', 'PAY', '5'), 'BUSY', 'promoted: the prepared transaction is not decided');
is($session->query(q{COMMIT PREPARED 'undecided'}), '', 'promoted: COMMIT PREPARED');
is($session->notify('N9', 'PAY', '5'), 'APPLIED replayed', 'promoted: now it is');
is($session->notify('T1', 'PAY', '1'), 'APPLIED replayed', 'promoted: old notices are replayed');
is($session->notify('N3', 'SHIP', '1'), 'APPLIED', 'promoted: what was refused is processed');
is($session->notify('N2', 'push', '2'), 'APPLIED', 'promoted: and so is what has no order');
$session->quit;
promises_kept($standby, 'promoted', '8 5 8');

$standby->stop;
done_testing();
