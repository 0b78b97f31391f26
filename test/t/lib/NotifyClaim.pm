# What the TAP tests share: a server with the extension and an order table,
# sessions that can be left waiting, and the oracle.
#
# psql is driven through IPC::Run here, not through PostgreSQL::Test's
# background_psql, whose interface differs between PostgreSQL 15 and later
# versions.
package NotifyClaim;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

our @EXPORT =
  qw(start_node start_again create_orders create_parking create_breakpoints call counts promises_kept);

# A running server of its own, with the given lines in postgresql.conf.  "init"
# and "extension" => 0 as the second argument's members.
sub start_node
{
	my ($name, $conf, %params) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init(%{ $params{init} // {} });
	$node->append_conf('postgresql.conf', $conf // '');
	$node->start;
	return $node;
}

# Starts a server that was killed.  Processes that have lost their postmaster take a
# moment to notice, and stand in the way until then.
sub start_again
{
	my ($node) = @_;

	foreach (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return if $node->start(fail_ok => 1);
		usleep(100_000);
		$node->stop('fast', fail_ok => 1);
	}
	die 'the server does not start again';
}

# The extension, an order table with a machine, and what the oracle needs: each
# move of an order is recorded, and whether a notification made it.
#
#	PAY      PENDING_PAY -> PAID       SHIP     PAID -> SHIPPED
#	REFUND   PAID stays PAID           push     no order
#	CANCELLED is where the application moves orders from PENDING_PAY.
sub create_orders
{
	my ($node, $dbname) = @_;

	$node->safe_psql($dbname // 'postgres', q{
		SET client_min_messages = warning;
		CREATE EXTENSION notify_claim;
		CREATE TABLE biz_order (order_no text PRIMARY KEY, status text NOT NULL);
		DO $$ BEGIN
			PERFORM notify_machine_add('biz_order', 'order_no', 'status');
			PERFORM notify_transition_add('PAY', 'PENDING_PAY', 'PAID', message_type => 'ORDER_PAID');
			PERFORM notify_transition_add('SHIP', 'PAID', 'SHIPPED', message_type => 'ORDER_SHIPPED');
			PERFORM notify_transition_add('REFUND', 'PAID', NULL, message_type => 'REFUND_RECORDED');
			PERFORM notify_transition_add(NULL, 'PENDING_PAY', 'CANCELLED');
			PERFORM notify_event_set('SHIP', on_early => 'retry');
			PERFORM notify_event_set('REFUND', on_early => 'retry');
			PERFORM notify_event_add('push', 'PUSHED');
		END $$;

		CREATE TABLE moved (at bigint GENERATED ALWAYS AS IDENTITY,
			order_no text, was text, became text,
			by_call boolean DEFAULT (current_query() ~ 'handle_notify|notify_review_resolve'));
		CREATE FUNCTION record_move() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
		BEGIN
			INSERT INTO moved (order_no, was, became) VALUES (new.order_no, old.status, new.status);
			RETURN NULL;
		END $$;
		CREATE TRIGGER record_move AFTER UPDATE ON biz_order
			FOR EACH ROW EXECUTE FUNCTION record_move();

		-- One row for each broken promise.
		CREATE VIEW broken AS
		WITH applied AS (
			SELECT order_no, result_json ->> 'from' AS was, result_json ->> 'status' AS became
			FROM notify_claim
			WHERE outcome = 'APPLIED' AND result_json ->> 'from' <> result_json ->> 'status'),
		moves AS (SELECT order_no, was, became FROM moved WHERE by_call)
		SELECT 'claim without its transition' AS promise, applied::text AS row
			FROM (TABLE applied EXCEPT ALL TABLE moves) AS applied
		UNION ALL
		SELECT 'transition without its claim', moves::text
			FROM (TABLE moves EXCEPT ALL TABLE applied) AS moves
		UNION ALL
		SELECT 'claim and message do not fit', coalesce(c.biz_key, o.payload ->> 'biz_key')
			FROM notify_claim AS c FULL JOIN (SELECT * FROM notify_outbox WHERE aggregatetype <> 'notify_review') AS o
				ON o.id = c.message_id AND o.aggregateid = c.order_no
				AND o.payload ->> 'biz_key' = c.biz_key
			WHERE c.id IS NULL OR (o.id IS NULL) <> (c.outcome <> 'APPLIED')
				OR o.payload ->> 'from' IS DISTINCT FROM c.result_json ->> 'from' AND o.id IS NOT NULL
				OR o.payload ->> 'to' IS DISTINCT FROM c.result_json ->> 'status' AND o.id IS NOT NULL
		UNION ALL
		SELECT 'more than one for a key', biz_key
			FROM (SELECT channel, biz_key FROM notify_claim
				UNION ALL
				SELECT payload ->> 'channel', payload ->> 'biz_key' || ' (message)' FROM notify_outbox
				WHERE aggregatetype <> 'notify_review') AS k
			GROUP BY channel, biz_key HAVING count(*) > 1
		UNION ALL
		SELECT 'claim not in its final form', biz_key
			FROM notify_claim
			WHERE claim_state <> 'DONE' OR outcome NOT IN ('APPLIED', 'SKIPPED', 'REJECTED')
				OR payload_hash !~ '^[0-9a-f]{64}$' OR result_json IS NULL
		UNION ALL
		SELECT 'order not where its last transition left it', o.order_no
			FROM biz_order AS o JOIN (
				SELECT DISTINCT ON (order_no) order_no, became FROM moved ORDER BY order_no, at DESC) AS m
				USING (order_no)
			WHERE m.became <> o.status;
	});
	return;
}

# Makes create_orders()'s machine one that parks, and a longer one, with an oracle
# of its own:
#
#	PAY      PENDING_PAY -> PAID       SHIP     PAID -> SHIPPED
#	REFUND   PAID stays PAID           SIGN     SHIPPED -> SIGNED
#	CREDIT   RETURNED -> CREDITED      SIGNED -> RETURNED is for the application
#
# SHIP has an action function that raises for the orders in the table "poison",
# the SQL state that is given there.  "moved" has the messages too, between the
# moves, and tells whether a notification made a move also where that was parked.
sub create_parking
{
	my ($node) = @_;

	$node->safe_psql('postgres', q{
		SET client_min_messages = warning;
		CREATE TABLE poison (order_no text PRIMARY KEY, sqlstate text NOT NULL);
		CREATE FUNCTION poisoned(order_no text, event_type text, raw_body bytea) RETURNS void
		LANGUAGE plpgsql AS $$
		DECLARE
			poison text := (SELECT p.sqlstate FROM public.poison AS p WHERE p.order_no = $1);
		BEGIN
			IF poison IS NOT NULL THEN
				RAISE 'poison' USING errcode = poison;
			END IF;
		END $$;
		DO $$ BEGIN
			PERFORM notify_transition_add('SIGN', 'SHIPPED', 'SIGNED', message_type => 'ORDER_SIGNED');
			PERFORM notify_transition_add(NULL, 'SIGNED', 'RETURNED');
			PERFORM notify_transition_add('CREDIT', 'RETURNED', 'CREDITED', message_type => 'ORDER_CREDITED');
			PERFORM notify_event_set('SHIP', on_early => 'park', action_function => 'public.poisoned');
			PERFORM notify_event_set('REFUND', on_early => 'park');
		END $$;

		ALTER TABLE moved ADD message text;
		DROP TRIGGER record_move ON biz_order;
		CREATE OR REPLACE FUNCTION record_move() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
		BEGIN
			INSERT INTO moved (order_no, was, became, by_call)
				VALUES (new.order_no, CASE WHEN old.order_no = new.order_no THEN old.status END, new.status,
					tg_op = 'UPDATE' AND (current_query() ~ 'notify' OR pg_trigger_depth() > 1));
			RETURN NULL;
		END $$;
		CREATE TRIGGER record_move AFTER INSERT OR UPDATE ON biz_order
			FOR EACH ROW EXECUTE FUNCTION record_move();
		ALTER TABLE biz_order ENABLE ALWAYS TRIGGER record_move;
		CREATE FUNCTION record_message() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
		BEGIN
			INSERT INTO moved (order_no, was, became, by_call, message)
				VALUES (new.aggregateid, new.payload ->> 'from', new.payload ->> 'to', false, new.type);
			RETURN NULL;
		END $$;
		CREATE TRIGGER record_message AFTER INSERT ON notify_outbox
			FOR EACH ROW WHEN (new.aggregatetype = 'biz_order') EXECUTE FUNCTION record_message();

		-- Is the event legal now, can it become legal, or neither?
		CREATE VIEW reachable AS
		WITH RECURSIVE reachable AS (
			SELECT from_status, to_status FROM notify_transition WHERE to_status IS NOT NULL
			UNION
			SELECT r.from_status, t.to_status FROM reachable AS r
				JOIN notify_transition AS t ON t.from_status = r.to_status AND t.to_status IS NOT NULL)
		TABLE reachable;
		CREATE FUNCTION verdict(event text, status text) RETURNS text LANGUAGE sql AS $$
			SELECT CASE
				WHEN EXISTS (SELECT FROM notify_transition WHERE event_type = event AND from_status = status)
					THEN 'legal'
				WHEN EXISTS (SELECT FROM notify_transition AS t JOIN reachable AS r ON r.to_status = t.from_status
						WHERE t.event_type = event AND r.from_status = status)
					THEN 'early'
				ELSE 'never'
			END
		$$;

		-- One row for each broken promise.
		CREATE VIEW astray AS
		SELECT promise, row FROM broken WHERE promise <> 'claim not in its final form'
		UNION ALL
		SELECT 'claim not in a form that is kept', biz_key
			FROM notify_claim AS c LEFT JOIN notify_body AS b ON b.claim = c.id
			WHERE (claim_state = 'PARKED') <> (outcome = 'PARKED')
				OR claim_state NOT IN ('DONE', 'PARKED')
				OR outcome NOT IN ('APPLIED', 'SKIPPED', 'REJECTED', 'PARKED')
				OR (claim_state = 'PARKED') <> (b.claim IS NOT NULL)
				OR payload_hash !~ '^[0-9a-f]{64}$' OR result_json IS NULL
				OR claim_state = 'PARKED' AND payload_hash IS DISTINCT FROM encode(sha256(b.raw_body), 'hex')
		UNION ALL
		SELECT 'parked, but ' || verdict(split_part(biz_key, ':', 2), status), biz_key
			FROM notify_claim JOIN biz_order USING (order_no) JOIN notify_body AS b ON b.claim = notify_claim.id
			WHERE claim_state = 'PARKED' AND verdict(split_part(biz_key, ':', 2), status) <> 'early'
				AND (b.attempts = 0 OR b.last_error IS NULL)
		UNION ALL
		SELECT 'skipped, but ' || verdict(split_part(biz_key, ':', 2), result_json ->> 'skipped'), biz_key
			FROM notify_claim
			WHERE outcome = 'SKIPPED' AND result_json ->> 'reason' IN ('stale', 'already')
				AND verdict(split_part(biz_key, ':', 2), result_json ->> 'skipped') <> 'never'
		UNION ALL
		SELECT 'message not where its transition is', order_no || ' ' || at
			FROM (SELECT *,
					lag(CASE WHEN message IS NULL THEN became ELSE was END) OVER history AS before,
					lag(message) OVER history AS last_message, lag(became) OVER history AS last_became,
					lead(by_call AND message IS NULL) OVER history AS next_by_call
				FROM moved WINDOW history AS (PARTITION BY order_no ORDER BY at)) AS m
			WHERE was <> before
				OR message IS NOT NULL AND was <> became AND next_by_call IS NOT TRUE
				OR by_call AND (last_message IS NULL OR last_became <> became);
	});
	return;
}

# Places inside a call, and after it, where a session can be stopped: whoever
# holds the advisory lock of that number stops all others there.
#
#	0 before the claim     1 after it        2 after the message
#	3 after the order      5 in COMMIT       (4, returned and open, needs none)
sub create_breakpoints
{
	my ($node) = @_;

	$node->safe_psql('postgres', q{
		CREATE FUNCTION stop_at() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0 AS $$
		BEGIN
			PERFORM pg_advisory_xact_lock_shared(tg_argv[0]::int);
			RETURN new;
		END $$;
		CREATE TRIGGER stop_at_0 BEFORE INSERT ON notify_claim
			FOR EACH ROW EXECUTE FUNCTION stop_at('0');
		CREATE TRIGGER stop_at_1 AFTER INSERT ON notify_claim
			FOR EACH ROW EXECUTE FUNCTION stop_at('1');
		CREATE TRIGGER stop_at_2 AFTER INSERT ON notify_outbox
			FOR EACH ROW EXECUTE FUNCTION stop_at('2');
		CREATE TRIGGER stop_at_3 AFTER UPDATE ON biz_order
			FOR EACH ROW EXECUTE FUNCTION stop_at('3');
		CREATE CONSTRAINT TRIGGER stop_at_5 AFTER INSERT ON notify_claim
			DEFERRABLE INITIALLY DEFERRED
			FOR EACH ROW EXECUTE FUNCTION stop_at('5');
	});
	return;
}

# The call, as an expression to select from.
sub call
{
	my ($txn, $event, $order, $body, $data) = @_;

	return sprintf("handle_notify('%s', '%s', '%s', '\\x%s'::bytea%s)",
		$txn, $event, $order, $body // '00',
		defined $data ? ", data => '$data'" : '');
}

# "claims transitions messages" of the database.
sub counts
{
	my ($node, $dbname) = @_;

	return $node->safe_psql($dbname // 'postgres', q{
		SELECT concat_ws(' ', (SELECT count(*) FROM notify_claim),
			(SELECT count(*) FROM moved WHERE by_call),
			(SELECT count(*) FROM notify_outbox WHERE aggregatetype <> 'notify_review'))});
}

# Passes where counts() are as given, if they are, and no promise is broken.
sub promises_kept
{
	my ($node, $name, $counts, $dbname) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is( counts($node, $dbname) . ' '
		  . $node->safe_psql($dbname // 'postgres', 'SELECT * FROM broken LIMIT 20'),
		($counts // counts($node, $dbname)) . ' ',
		"$name: claims, transitions, messages as they should be, no promise broken");
	return;
}

# A psql session.  What it prints is returned as it comes, fields separated by
# "|", NULL as "NULL", an error as "ERROR 12345".
#
# End all sessions before you start a server: it inherits the pipes of those
# that are open, and they would not end as long as it runs.
package NotifyClaim::Session;

use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

# Connects.  Further arguments are options of psql.
sub new
{
	my ($class, $node, @options) = @_;
	my $self = bless { in => '', out => '', sent => 0, node => $node }, $class;

	$self->{timer} = IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default);
	$self->{run} = IPC::Run::start(
		[
			'psql', '-XAtq', '-d', $node->connstr('postgres'),
			'-v', 'VERBOSITY=sqlstate', '-P', 'null=NULL', @options
		],
		'<', \$self->{in}, '>', \$self->{out}, '2>&1', $self->{timer});
	$self->{pid} = $self->query('SELECT pg_backend_pid()');
	return $self;
}

# Process id of the session's backend.
sub pid
{
	my ($self) = @_;
	return $self->{pid};
}

# Sends statements without waiting for what comes of them.
sub send
{
	my ($self, $sql) = @_;

	$self->{sent}++;
	$self->{busy} = 1;
	$self->{in} .= "$sql\n;\\warn <done $self->{sent}>\n";
	$self->pump('pump_nb') while length $self->{in};
	return;
}

# Waits until everything sent is done, or the connection is lost, and returns
# what was printed.
sub receive
{
	my ($self) = @_;
	my $out;

	$self->{timer}->start($PostgreSQL::Test::Utils::timeout_default);
	until ($self->{out} =~ /^<done $self->{sent}>\n/m)
	{
		last unless $self->pump;
	}
	$self->{timer}->reset;
	$self->{busy} = 0;
	$out = $self->{out};
	$self->{out} = '';
	$out =~ s/^<done \d+>\n//gm;
	$out =~ s/^(?:.*: )?(ERROR|FATAL|PANIC):  (\w+)(?: .*)?$/$1 $2/gm;
	chomp $out;
	return $out;
}

# Lets data through.  Returns false when psql is gone, which it is soon after the
# server has closed the connection.
sub pump
{
	my ($self, $how) = @_;

	$how //= 'pump';
	if ($self->{run}->pumpable)
	{
		local $SIG{PIPE} = 'IGNORE';
		return 1 if eval { $self->{run}->$how; 1 };
	}
	$self->give_up if $@ && $@ =~ /timeout/;
	$self->{in} = '';
	return 0;
}

# Timed out: says where, with what the server was doing.
sub give_up
{
	my ($self) = @_;

	diag("no answer to statement $self->{sent}; so far: $self->{out}");
	diag($self->{node}->safe_psql('postgres',
			'SELECT pid, state, wait_event_type, wait_event, query FROM pg_stat_activity'));
	die 'a session hangs';
}

sub query
{
	my ($self, $sql) = @_;

	$self->send($sql);
	return $self->receive;
}

# The answer to a notification as "OUTCOME" or "OUTCOME replayed" or "ERROR ...".
sub notify
{
	my ($self, @notice) = @_;

	$self->send_notify(@notice);
	return $self->receive;
}

sub send_notify
{
	my ($self, @notice) = @_;

	$self->send("SELECT outcome || CASE WHEN replayed THEN ' replayed' ELSE '' END FROM "
		  . NotifyClaim::call(@notice));
	return;
}

# Waits until another session waits for an order's row, for a heavyweight lock,
# or in whichever way the condition on pg_stat_activity describes.  False where
# that session has finished what was sent to it instead.
sub wait_for_poll
{
	my ($self, $other) = @_;
	return $self->wait_for_state($other, "wait_event_type = 'Extension'");
}

sub wait_for_lock
{
	my ($self, $other) = @_;
	return $self->wait_for_state($other, "wait_event_type = 'Lock'");
}

sub wait_for_state
{
	my ($self, $other, $state) = @_;
	my $pid = $other->pid;

	return $self->wait_until(
		"SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $pid AND $state)",
		sub { $other->done });
}

# Runs the query until it is true, or what happens first; says which.
sub wait_until
{
	my ($self, $query, $unless) = @_;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;

	while (time < $end)
	{
		return 0 if $unless && $unless->();
		return 1 if $self->query($query) eq 't';
		usleep(5_000);
	}
	die "waiting for $query";
}

# Has the session done everything that was sent to it, or lost its connection?
sub done
{
	my ($self) = @_;
	return !$self->pump('pump_nb') || $self->{out} =~ /^<done $self->{sent}>\n/m;
}

# Disconnects; whatever the session had open is rolled back.
sub quit
{
	my ($self) = @_;

	if ($self->{run}->pumpable)
	{
		$self->{in} .= "\\q\n";
		eval { $self->{run}->finish };
	}
	return;
}

# The connection is lost or about to be: waits until it is, and returns what
# psql printed.
sub lost
{
	my ($self) = @_;
	my $out;

	$self->send('SELECT pg_sleep(3600)') unless $self->{busy};
	$out = $self->receive;
	eval { $self->{run}->finish };
	return $out;
}

1;
