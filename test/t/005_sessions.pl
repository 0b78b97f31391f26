# A declaration counts with the next call of every session, whatever it has
# cached and in whatever transaction it is, and needs no reconnect.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('sessions');
$node->init;
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION notify_claim;
	CREATE TABLE biz_order (order_no int PRIMARY KEY, status text);
	CREATE TABLE other_order (order_no int PRIMARY KEY, status text);
	INSERT INTO biz_order SELECT n, 'PENDING' FROM generate_series(1, 100) AS n;
	INSERT INTO other_order SELECT n, 'PENDING' FROM generate_series(1, 100) AS n;
	SELECT notify_machine_add('biz_order', 'order_no', 'status', attach => false);
	SELECT notify_transition_add('PAY', 'PENDING', 'PAID', message_type => 'ORDER_PAID');
});

my $session = $node->background_psql('postgres');
my $n = 0;

# What does the session get for the next order?
sub pay
{
	$n++;
	return $session->query(
		"SELECT outcome || ' ' || coalesce(result ->> 'status', '-') FROM handle_notify('T$n', 'PAY', '$n', 'b')");
}

# Does something in another session, and pays in this one.
sub after
{
	my ($sql, $expected, $name) = @_;
	$node->safe_psql('postgres', $sql);
	is(pay(), $expected, $name);
}

is(pay(), 'APPLIED PAID', 'as declared');
after(q{UPDATE notify_transition SET to_status = 'SETTLED'},
	'APPLIED SETTLED', 'a transition that was changed by plain DML');
after(q{SELECT notify_transition_drop('PAY', 'PENDING', 'SETTLED')},
	'EARLY -', 'a transition that was dropped');
after(q{SELECT notify_transition_add('PAY', NULL, 'CLOSED')},
	'APPLIED CLOSED', 'a transition that was added');
after(q{SELECT notify_event_drop('PAY')}, 'NO_RULE -', 'an event that was dropped');
after(q{SELECT notify_transition_add('PAY', 'PENDING', 'PAID')},
	'APPLIED PAID', 'an event that was added');
after(q{ALTER TABLE biz_order RENAME TO renamed_order},
	'APPLIED PAID', 'a table that was renamed');
after(q{ALTER TABLE renamed_order ALTER status TYPE varchar(20), ALTER order_no TYPE text},
	'APPLIED PAID', 'columns of another type');
after(q{SELECT notify_machine_set('biz_order', 'other_order')},
	'APPLIED PAID', 'another table');
is($node->safe_psql('postgres', "SELECT order_no FROM other_order WHERE status = 'PAID'"),
	$n, 'and it is that table that has changed');

# In a transaction that keeps its snapshot, and holds locks on all the tables.
foreach my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
{
	$session->query_safe("BEGIN ISOLATION LEVEL $level");
	is(pay(), 'APPLIED PAID', "before, at $level");
	after(q{UPDATE notify_transition SET to_status = 'SETTLED'},
		'APPLIED SETTLED', "changed in the middle of a transaction at $level");
	$session->query_safe('COMMIT');
	$node->safe_psql('postgres', q{UPDATE notify_transition SET to_status = 'PAID'});
}

# One that is rolled back has never been.
my $other = $node->background_psql('postgres');
$other->query_safe(q{BEGIN; UPDATE notify_transition SET to_status = 'SETTLED'});
is(pay(), 'APPLIED PAID', 'a change that has not been committed');
$other->query_safe('ROLLBACK');
is(pay(), 'APPLIED PAID', 'a change that has been rolled back');

# Channels.
sub ack
{
	my ($sql, $expected, $name) = @_;
	$node->safe_psql('postgres', $sql);
	is( $session->query(
			q{SELECT ack_status || ' ' || ack_body FROM handle_notify('none', 'PAY', '0', 'b', channel => 'c')}),
		$expected, $name);
	return;
}

ack(q{SELECT notify_channel_add('c', fail_body => 'added')}, '500 added', 'a channel that was added');
ack(q{SELECT notify_channel_set('c', fail_status => 503)}, '503 added', 'a channel that was changed');
ack(q{UPDATE notify_channel SET fail_body = 'updated'}, '503 updated', 'a channel that was changed by plain DML');
$session->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
ack(q{SELECT notify_channel_set('c', fail_body => 'newer')}, '503 newer', 'in a transaction with an older snapshot');
$session->query_safe('COMMIT');
ack(q{SELECT notify_channel_drop('c'); SELECT notify_channel_add('c')}, '500 FAIL', 'a channel that was created anew');
$node->safe_psql('postgres', 'TRUNCATE notify_channel');
is( $session->query(q{
		DO $$ BEGIN
			PERFORM handle_notify('none', 'PAY', '0', 'b', channel => 'c');
		EXCEPTION WHEN undefined_object THEN
			SET application_name = 'no such channel';
		END $$;
		SHOW application_name}), 'no such channel', 'channels that were truncated');

# The extension itself.
$session->query_safe(q{SELECT 1});
$node->safe_psql('postgres', q{
	DROP EXTENSION notify_claim;
	CREATE EXTENSION notify_claim;
	SELECT notify_machine_add('other_order', 'order_no', 'status', attach => false);
	SELECT notify_transition_add('PAY', 'PENDING', 'RENEWED');
});
is(pay(), 'APPLIED RENEWED', 'an extension that was created anew');
is($node->safe_psql('postgres', 'SELECT count(*) FROM notify_claim'), '1', 'with claims of its own');

$other->quit;
$session->quit;
$node->stop;
done_testing();
