# A caller who has EXECUTE and rights on its own order table, and nothing else,
# can work; every right less is one too few, and none of the extension's own
# tables is within its reach.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use NotifyClaim;
use Test::More;

my $node = start_node('caller');

create_orders($node);
$node->safe_psql('postgres', q{
	CREATE ROLE app LOGIN;
	CREATE ROLE owner LOGIN;
	CREATE ROLE nobody LOGIN;
	REVOKE CREATE ON SCHEMA public FROM PUBLIC;
	INSERT INTO biz_order SELECT n::text, 'PENDING_PAY' FROM generate_series(1, 9) AS n});

# Step by step towards what is needed: nothing is kept until everything is there.

my $app = NotifyClaim::Session->new($node, '-U', 'app');
my @grants = (
	[ 'nothing', '' ],
	[ 'EXECUTE', q{SELECT notify_grant('app', 'app')} ],
	[ 'and SELECT on the key', 'GRANT SELECT (order_no) ON biz_order TO app' ],
	[ 'and on the status', 'GRANT SELECT (status) ON biz_order TO app' ]);
foreach my $grant (@grants)
{
	my ($name, $sql) = @$grant;

	$node->safe_psql('postgres', $sql);
	is($app->notify('T1', 'PAY', '1'), 'ERROR 42501', "$name: not enough");
	is(counts($node), '0 0 0', "$name: nothing is kept");
}
is($app->notify('T2', 'push', '1'), 'APPLIED', 'an event without an order needs no more');
$node->safe_psql('postgres', 'GRANT UPDATE (status) ON biz_order TO app');
is($app->notify('T1', 'PAY', '1'), 'APPLIED', 'and UPDATE of the status: enough, in the same session');

# With these few rights every outcome is within reach.

my $holder = NotifyClaim::Session->new($node);
is($app->notify('T1', 'PAY', '1'), 'APPLIED replayed', 'a repeat');
is($app->notify('T1', 'PAY', '1', 'ff'), 'CONFLICT', 'a conflict');
is($app->notify('T3', 'PAY', '1'), 'SKIPPED', 'a step made already');
is($app->notify('T4', 'REFUND', '1'), 'APPLIED', 'a step that changes nothing');
is($app->notify('T5', 'SHIP', '2'), 'EARLY', 'a step too early');
is($app->notify('T6', 'PAY', 'none'), 'NO_ORDER', 'no order');
is($app->notify('T7', 'none', '1'), 'NO_RULE', 'no rule');
$holder->query(q{BEGIN; SELECT FROM biz_order WHERE order_no = '3' FOR UPDATE});
is($app->notify('T8', 'PAY', '3'), 'BUSY', 'an order that is held');
$app->query(q{SET notify_claim.busy_timeout = '60s'});
$app->send_notify('T8', 'PAY', '3');
$holder->wait_for_poll($app);
$holder->query('ROLLBACK');
is($app->receive, 'APPLIED', 'an order that is waited for');
$app->query('BEGIN; SAVEPOINT a');
is($app->notify('T9', 'PAY', '4'), 'APPLIED', 'in a subtransaction');
$app->query('ROLLBACK TO a; COMMIT');
is($app->notify('T9', 'PAY', '4'), 'APPLIED', 'again, after it was rolled back');
promises_kept($node, 'with few rights', '6 3 5');

# Nothing of the extension's is the caller's to read, to write or to run, but the
# one call.

is( $node->safe_psql('postgres', q{
		SELECT p.proname, count(*) FROM pg_depend AS d JOIN pg_proc AS p
			ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
		WHERE d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'notify_claim')
			AND d.deptype = 'e' AND p.prorettype <> 'trigger'::regtype
			AND has_function_privilege('app', p.oid, 'EXECUTE')
		GROUP BY 1}),
	'handle_notify|2', 'both forms of the call, and no other function');

my @tables = split /\n/, $node->safe_psql('postgres', q{
	SELECT c.oid::regclass FROM pg_depend AS d JOIN pg_class AS c
		ON d.classid = 'pg_class'::regclass AND d.objid = c.oid
	WHERE d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'notify_claim')
		AND d.deptype = 'e' AND c.relkind = 'r' ORDER BY 1});
cmp_ok(@tables, '>=', 5, 'there are tables');
foreach my $table (@tables)
{
	foreach my $sql ("SELECT FROM $table", "DELETE FROM $table", "INSERT INTO $table DEFAULT VALUES",
		"TRUNCATE $table", "LOCK TABLE $table IN ACCESS SHARE MODE")
	{
		is($app->query("BEGIN; $sql; ROLLBACK") =~ s/\n.*//sr, 'ERROR 42501', $sql);
	}
}
foreach my $sql (
	q{SELECT nextval('notify_claim_id_seq')},
	q{SELECT setval('notify_outbox_seq_seq', 1)},
	q{SELECT notify_grant('app', 'app')},
	q{SELECT notify_machine_add('biz_order', 'order_no', 'status', 'mine')},
	q{SELECT notify_machine_drop('biz_order')},
	q{SELECT notify_event_drop('PAY')},
	q{SELECT notify_transition_add('PAY', 'SHIPPED', 'PAID')})
{
	is($app->query($sql), 'ERROR 42501', $sql);
}

# A session that changes its role has the rights of the present one, whatever
# plans it has made before.

my $super = NotifyClaim::Session->new($node);
is($super->notify('T10', 'PAY', '5'), 'APPLIED', 'as superuser');
$super->query('SET ROLE nobody');
is($super->notify('T11', 'PAY', '6'), 'ERROR 42501', 'as nobody');
$super->query('SET ROLE app');
is($super->notify('T11', 'PAY', '6'), 'APPLIED', 'as app');
$node->safe_psql('postgres', 'REVOKE UPDATE (status) ON biz_order FROM app');
is($super->notify('T12', 'PAY', '7'), 'ERROR 42501', 'as app, of which a right was taken');
is($app->notify('T12', 'PAY', '7'), 'ERROR 42501', 'also in its own session');
$node->safe_psql('postgres', 'GRANT UPDATE (status) ON biz_order TO app');
is($app->notify('T12', 'PAY', '7'), 'APPLIED', 'and given back');

# An application with a table of its own, in a schema of its own, whose owner
# declares the machine.

$node->safe_psql('postgres', q{
	CREATE SCHEMA shop AUTHORIZATION owner;
	SELECT notify_grant('owner', 'app');
	GRANT EXECUTE ON FUNCTION notify_machine_add(regclass, text, text, text, boolean),
		notify_transition_add(text, text, text, text, text) TO owner});
my $owner = NotifyClaim::Session->new($node, '-U', 'owner');
is($owner->query(q{
		SET client_min_messages = warning;
		CREATE TABLE shop.parcel (id int PRIMARY KEY, state text);
		INSERT INTO shop.parcel VALUES (1, 'packed'), (2, 'packed');
		SELECT notify_machine_add('shop.parcel', 'id', 'state');
		SELECT notify_transition_add('collected', 'packed', 'on its way', 'PARCEL_LEFT',
			machine => 'parcel')}),
	"\n", 'the owner declares its machine');
is($owner->notify('P1', 'collected', '1'), 'APPLIED', 'the owner calls');
is($owner->query(q{SELECT notify_machine_add('public.biz_order', 'order_no', 'status', 'other')}),
	'ERROR 42501', 'but somebody else\'s table is not its to declare');
is($owner->query(q{SELECT notify_transition_add('PAY', 'SHIPPED', 'PAID', machine => 'biz_order')}),
	'ERROR 42501', 'nor a step of somebody else\'s machine');
is($app->notify('P2', 'collected', '2'), 'ERROR 42501', 'another application has no right to that schema');
$owner->query(q{GRANT USAGE ON SCHEMA shop TO app; GRANT SELECT, UPDATE ON shop.parcel TO app});
is($app->notify('P2', 'collected', '2'), 'APPLIED', 'until it is given them');

$_->quit foreach ($app, $owner, $super, $holder);
is($node->safe_psql('postgres', 'SELECT id, state FROM shop.parcel ORDER BY 1'),
	"1|on its way\n2|on its way", 'the parcels');

$node->stop;
done_testing();
