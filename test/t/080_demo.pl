# test/demo: what it shows of its own logs and of a user's, what it says about
# files that it cannot use, and that it leaves nothing behind, whichever way it
# ends.

use strict;
use warnings;

use Digest::SHA qw(sha256_hex);
use Encode qw(encode);
use File::Temp qw(tempdir);
use IPC::Run;
use JSON::PP;
use MIME::Base64 qw(encode_base64);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

# For the server that the tests run on, and not as a part of the make above us.
chomp(my $bindir = qx(pg_config --bindir));
$ENV{PG_CONFIG} = "$bindir/pg_config";
delete @ENV{qw(MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES LOG SETUP)};

# All that the demo makes is in here. Short, or it would choose another place.
my $base = tempdir('dXXXX', TMPDIR => 1, CLEANUP => 1);
$ENV{TMPDIR} = $base;

# The logs are elsewhere.
my $files = PostgreSQL::Test::Utils::tempdir;
chmod 0755, $files;

sub file
{
	my ($name, @lines) = @_;
	my $path = "$files/$name";

	open my $fh, '>:raw', $path or die "$path: $!";
	print $fh @lines;
	close $fh;
	return $path;
}

# Folders and processes of any demo.
sub left_behind
{
	my @left = glob("$base/*");

	foreach my $environ (glob('/proc/[0-9]*/environ'))
	{
		open my $fh, '<:raw', $environ or next;
		local $/ = undef;
		my $text = readline($fh) // '';
		push @left, $environ if $text =~ /(^|\0)TMPDIR=\Q$base\E\//;
	}
	return join(' ', @left);
}

# Runs a command to its end. The exit status, stdout and stderr.
sub run
{
	my ($stdout, $stderr) = ('', '');

	IPC::Run::run [@_], '<', '/dev/null', '>', \$stdout, '2>', \$stderr;
	my $status = $? >> 8;
	is(left_behind(), '', 'leaves nothing behind');
	return ($status, $stdout, $stderr);
}

# Starts a command, and presses Ctrl-C once the condition holds. Its exit
# status, 128 + N where signal N ended it.
sub interrupt
{
	my ($condition, @command) = @_;
	my $pid = fork // die "fork: $!";

	if ($pid == 0)
	{
		setpgrp(0, 0);
		$SIG{INT} = 'DEFAULT';
		open STDIN, '<', '/dev/null' or die;
		open STDOUT, '>', "$files/stdout" or die;
		open STDERR, '>', "$files/stderr" or die;
		exec @command or die "$command[0]: $!";
	}

	my $tries = 10 * $PostgreSQL::Test::Utils::timeout_default;
	usleep(100_000) while !$condition->() && --$tries > 0;
	ok($tries > 0, 'is under way') or diag(slurp_file("$files/stdout"), slurp_file("$files/stderr"));
	ok(left_behind() ne '', 'with a folder of its own');
	kill 'INT', -$pid;
	waitpid($pid, 0);
	my $status = $? & 127 ? 128 + ($? & 127) : $? >> 8;
	is(left_behind(), '', 'leaves nothing behind when interrupted');
	return $status;
}

# What the demo printed about one log.
sub section
{
	my ($stdout, $log) = @_;

	return $stdout =~ /^=== \Q$log\E\n(.*?)(?=^===|\z)/ms ? $1 : '';
}

# The rows of a section's table: of the one with that title, or else the first.
sub table
{
	my ($section, $title) = @_;
	my $above = defined $title ? qr/\n\Q$title\E\n/ : qr/\A/;
	my ($heading, $dashes, $body) = $section =~ /$above([^\n]*)\n(-[- ]*)\n(.*?)(?:\n\n|\z)/s
	  or return;
	my $width = length($dashes);
	my $format = join(' x', map { 'A' . length } split / /, $dashes);
	my @names = map { s/^ +//r } unpack $format, sprintf("%-${width}s", $heading);
	my @rows;

	foreach my $line (split /\n/, $body)
	{
		my %row;
		@row{@names} = map { s/^ +//r } unpack $format, sprintf("%-${width}s", $line);
		push @rows, \%row;
	}
	return @rows;
}

# The values of some columns of a table's row, as one line.
sub values_of
{
	my ($row, @columns) = @_;

	return join(' | ', map { $row->{$_} // "(no column $_)" } @columns);
}

# All rows of a table, each as one line.
sub rows_of
{
	my ($section, $title, @columns) = @_;

	return join("\n", map { values_of($_, @columns) } table($section, $title));
}

# The lines of a log.
sub read_log
{
	my ($file) = @_;

	return map { decode_json($_) } grep { /\S/ } split /\n/, slurp_file($file);
}

# The sentence at a section's end.
sub sentence
{
	my ($section) = @_;

	return $section =~ /\n\nA receiver with only a unique index on \(channel, transaction id, event type\) would have (.*)\n+\z/
	  ? $1 : "(none in:\n$section)";
}

my @columns = ('before', 'outcome', 'after', 'replayed', 'ack');
my @review = ('id', 'kind', 'channel', 'key', 'order', 'hits', 'variants', 'reason');
my @message = ('aggregatetype', 'aggregateid', 'type', 'from', 'to', 'data');

#
# make demo
#

my ($status, $stdout, $stderr) = run('make', '-s', 'demo');
is($status, 0, 'make demo');
is($stderr, '', 'says nothing on stderr');

my $incident = section($stdout, 'incident.jsonl');
my @steps = table($incident);
my @log = read_log('test/data/incident.jsonl');
is(scalar(@steps), scalar(@log), 'the incident: one line for each step');

my @first = grep { $_->{order} eq 'SO24111100017' && $_->{channel} ne '' } @steps;
is(values_of($first[0], @columns), 'PENDING_PAY | APPLIED | PAID |  | 200 SUCCESS', 'first delivery');
is(values_of($first[1], @columns), 'SHIPPED | APPLIED | SHIPPED | replayed | 200 SUCCESS', 'second delivery');
is(values_of($first[2], @columns), 'SHIPPED | SKIPPED stale | SHIPPED |  | 200 SUCCESS', 'third delivery');
my ($order) = grep { $_->{order_no} eq 'SO24111100017' } table($incident, 'Orders in biz_order');
is($order->{status}, 'SHIPPED', 'the order stays SHIPPED');

my @conflicts = grep { $_->{outcome} eq 'CONFLICT' } @steps;
is(scalar(@conflicts), 1, 'one conflict');
is(values_of($conflicts[0], @columns), 'PAID | CONFLICT | PAID |  | 500 FAIL', 'which changes nothing, and is not acknowledged');
is(rows_of($incident, 'Reviews', @review),
	'1 | PAYLOAD_CONFLICT | default | PX2024111100418:PAY_SUCCESS | SO24111100023 | 1 | 1 | ',
	'it waits for a person');
is(rows_of($incident, 'Review 1: what differs (the channel keeps no bodies)', 'member', 'first', 'last'),
	join(' | ', '(digest)', map { sha256_hex($_->{body}) } grep { ($_->{channel_txn_id} // '') eq 'PX2024111100418' } @log),
	'who sees no more than digests, without the first body');

my @outbox = map { $_->{aggregateid} } grep { $_->{type} eq 'ORDER_PAID' } table($incident, 'Outbox');
is("@outbox", 'SO24111100017 SO24111100023 SO24111100031 SO24111100038', 'each payment is told once');
is(values_of((grep { $_->{aggregatetype} eq 'notify_review' } table($incident, 'Outbox'))[0], @message),
	'notify_review | 1 | PAYLOAD_CONFLICT |  |  | '
	  . '{"biz_key": "PX2024111100418:PAY_SUCCESS", "channel": "default", "order_no": "SO24111100023"}',
	'and so is the conflict');
unlike($incident, qr/^Acks in full$/m, 'all acks had room');
is(sentence($incident),
	'moved SO24111100017 and SO24111100031 from SHIPPED to PAID, told its consumers so and overlooked 1 repeat with other content.',
	'what the other receiver would have done');

my $providers = section($stdout, 'providers.jsonl');
@steps = table($providers);
@log = read_log('test/data/providers.jsonl');
is(scalar(@steps), scalar(@log), 'the providers: one line for each step');

# Of each provider: channel, acks, the transaction id in a body as README.md
# names it, and whether the redeliveries have the bytes of the first delivery.
my %provider = (
	'Stripe' => [ 'stripe', '200', '500', sub { decode_json($_[0])->{id} }, 'same' ],
	'Alipay' => [ 'alipay', '200 success', '500 fail', \&alipay_id, 'other other' ],
	'WeChat Pay v2' => [ 'wechat_v2', '200 <xml><return_...', '500 <xml><return_...',
		sub { $_[0] =~ /<transaction_id><!\[CDATA\[(.*?)\]/ && $1 }, 'other other other' ],
	'WeChat Pay v3' => [ 'wechat_v3', '204', '500 {"code":"FAIL...',
		sub { my $resource = decode_json($_[0]); $resource->{refund_id} // $resource->{transaction_id} }, 'same' ],
	'Adyen' => [ 'adyen', '200 [accepted]', '500', sub { decode_json($_[0])->{pspReference} }, 'other other' ]);

sub alipay_id
{
	my %field = map { split /=/, $_, 2 } split /&/, $_[0];
	return $field{refund_fee} ? "$field{trade_no}/$field{out_biz_no}" : $field{trade_no};
}

foreach my $name (sort keys %provider)
{
	my ($channel, $ok, $fail, $id, $bytes) = @{ $provider{$name} };
	my @notices = grep { $steps[$_]->{note} =~ /^$name: / } 0 .. $#steps;
	my (%first, @redelivered);

	ok((grep { $steps[$_]->{outcome} eq 'APPLIED' && $steps[$_]->{replayed} eq '' } @notices), "$name: a notice is applied");
	ok((grep { $steps[$_]->{replayed} ne '' } @notices), "$name: a retry is replayed") unless $name =~ /v3/;
	is( join("\n", map { values_of($steps[$_], 'channel', 'ack') } @notices),
		join("\n", map { "$channel | " . ($steps[$_]->{outcome} =~ /^(APPLIED|SKIPPED|PARKED)/ ? $ok : $fail) } @notices),
		"$name: what it is answered");
	foreach my $notice (@log[@notices])
	{
		my $body = encode('UTF-8', $notice->{body});
		my $key = "$notice->{channel_txn_id}:$notice->{event_type}";

		is($id->($body), $notice->{channel_txn_id}, "$name: transaction id in the body");
		push @redelivered, $body eq $first{$key} ? 'same' : 'other' if exists $first{$key};
		$first{$key} //= $body;
	}
	is("@redelivered", $bytes, "$name: bytes of the redeliveries");
}

is(rows_of($providers, 'Acks in full', 'channel', 'ack'),
	"wechat_v2 | 200 <xml><return_code><![CDATA[SUCCESS]]></return_code><return_msg><![CDATA[OK]]></return_msg></xml>\n"
	  . "wechat_v2 | 500 <xml><return_code><![CDATA[FAIL]]></return_code><return_msg><![CDATA[FAIL]]></return_msg></xml>\n"
	  . 'wechat_v3 | 500 {"code":"FAIL","message":"FAIL"}',
	'the acks that had no room');

@conflicts = grep { $_->{outcome} eq 'CONFLICT' } @steps;
is(join("\n", map { values_of($_, 'channel', 'order', 'before', 'after', 'note') } @conflicts),
	'wechat_v2 | WX-4001 | PAID | PAID | WeChat Pay v2: known key, another amount',
	'nothing but another amount is a conflict');
my @refused = grep { $_->{order} eq 'AD-5003' && $_->{channel} ne '' } @steps;
is(join("\n", map { values_of($_, @columns) } @refused),
	"PENDING_PAY | REJECTED | PENDING_PAY |  | 500\nPENDING_PAY | REJECTED | PENDING_PAY |  | 500",
	'a payment of the wrong amount is refused, each time');
is(rows_of($providers, 'Reviews', @review),
	"1 | PAYLOAD_CONFLICT | wechat_v2 | 4200002398202411115502817436:PAY_SUCCESS | WX-4001 | 1 | 1 | \n"
	  . '2 | CHECK_REFUSED | adyen | W7TDM4FVQ2NKLR65:PAY_SUCCESS | AD-5003 | 2 | 1 | amount 75.00 EUR, expected 80.00 EUR',
	'both wait for a person');
is(rows_of($providers, 'Review 1: what differs', 'member', 'first', 'last'),
	"cash_fee | 3990 | 399\ntotal_fee | 3990 | 399", 'who sees what differs');
my %refused = map { $_->{member} => "$_->{first}|$_->{last}" } table($providers, 'Review 2: what was refused');
is(join(', ', map { "$_ $refused{$_}" } 'amount.currency', 'amount.value', 'merchantReference'),
	'amount.currency |"EUR", amount.value |7500, merchantReference |"AD-5003"', 'and what was refused');
ok(!exists $refused{eventDate}, 'without what is ignored');
is( join("\n", map { values_of($_, @message) } grep { $_->{aggregatetype} eq 'notify_review' } table($providers, 'Outbox')),
	'notify_review | 1 | PAYLOAD_CONFLICT |  |  | '
	  . '{"biz_key": "4200002398202411115502817436:PAY_SUCCESS", "channel": "wechat_v2", "order_no": "WX-4001"}' . "\n"
	  . 'notify_review | 2 | CHECK_REFUSED |  |  | '
	  . '{"biz_key": "W7TDM4FVQ2NKLR65:PAY_SUCCESS", "channel": "adyen", "order_no": "AD-5003"}',
	'each has an alarm');
is(join(' ', map { "$_->{order_no} $_->{status}" } table($providers, 'Orders in biz_order')),
	'AD-5001 SHIPPED AD-5002 CANCELLED AD-5003 PENDING_PAY AL-2001 PAID ST-1001 PAID WX-3001 PAID WX-4001 PAID',
	'the orders');
is(join(' ', map { $_->{digest} } table($providers, 'Claims')),
	'json json form form form json xml json json json json json', 'every body could be read');

my @refund = grep { $_->{key} eq '2024111122001473031404527711/RF-77:REFUND' } @steps;
is(values_of($refund[0], @columns), 'PENDING_PAY | PARKED | PENDING_PAY |  | 200 success', 'a refund that is early');
is(values_of($refund[1], @columns), 'PAID | APPLIED | PAID | replayed | 200 success', 'was applied when it comes again');
is(scalar(@refund), 2, 'and that was it');
is(join("\n", map { values_of($_, 'type', 'data') } grep { $_->{aggregateid} eq 'AL-2001' } table($providers, 'Outbox')),
	qq(ORDER_PAID | {"amount": "88.00"}\nREFUND_RECORDED | {"refund_fee": "20.00"}\nREFUND_RECORDED | {"refund_fee": "35.00"}),
	'its message follows the payment\'s');
unlike($providers, qr/^Parked$/m, 'nothing is left parked');
is(sentence($providers),
	'accepted 1 notification that a check refuses, sent 3 messages twice or too early, '
	  . 'lost 1 notification that came before its order and overlooked 1 repeat with other content.',
	'what the other receiver would have done');

#
# Ctrl-C during the build; the next run must work
#

is(interrupt(sub { -s "$files/stdout" && slurp_file("$files/stdout") =~ /^Building/ }, 'test/demo'),
	130, 'interrupted during the build');

#
# What the head of test/demo says, and a log whose amounts the setup of the demo
# refuses
#

my ($delivery) = slurp_file('test/demo') =~ /^#   (\{"time".*\n#    .*\})$/m;
$delivery =~ s/\n#    / /;
my ($created, $set) = slurp_file('test/demo') =~ /^#   (\{"time".*\})\n#   (\{"time".*\})$/m;

my @unreadable = ('x', '{', '{\\"amount\\":10}&total_amount=10', '{\\"amount\\":\\"1.0.\\"}');
my $refusals = file('refusals.jsonl', map { "$_\n" } $created,
	(map { qq({"channel_txn_id": "U$_", "event_type": "PAY_SUCCESS", "order_no": "SO1", "body": "$unreadable[$_]"}) }
		  (0 .. $#unreadable)),
	'{"channel_txn_id": "U9", "event_type": "PAY_SUCCESS", "order_no": "SO1", "body_base64": "/w=="}',
	$delivery =~ s/CNY/USD/r,
	$delivery =~ s/10,/10.01,/r,
	$delivery =~ s/T1/T2/r,
	$set);
($status, $stdout, $stderr) = run('test/demo', $refusals);
is($status, 0, "the demo's setup with another log");
is($stderr, '', 'nothing on stderr');
my $section = section($stdout, 'refusals.jsonl');
is(join(' ', map { $_->{outcome} } table($section)), 'created' . ' REJECTED' x 7 . ' APPLIED updated', 'refuses, and applies');
is(rows_of($section, 'Reviews', 'key', 'variants', 'reason'),
	join('', map { "U$_:PAY_SUCCESS | 1 | no amount that can be read\n" } 0 .. $#unreadable, 9)
	  . 'T1:PAY_SUCCESS | 2 | amount 10.01 CNY, expected 10.00 CNY',
	'with the reason');
is(sentence($section), 'accepted 6 notifications that a check refuses, sent 6 messages twice or too early '
	  . 'and overlooked 1 repeat with other content.',
	'which the other receiver would not have done');

#
# A user's own logs and setup
#

my $setup = file('setup.sql', <<'END');
CREATE SCHEMA shop;
CREATE TYPE shop.state AS ENUM ('NEW', 'PAID', 'SENT', 'BACK');
CREATE TABLE shop."Order" (id bigint PRIMARY KEY, state shop.state, note text);
SELECT notify_machine_add('shop."Order"', 'id', 'state');
SELECT notify_transition_add('paid', 'NEW', 'PAID', message_type => 'PAID');
SELECT notify_transition_add('sent', 'PAID', 'SENT');
SELECT notify_transition_add('back', 'SENT', 'BACK');
SELECT notify_event_add('login', message_type => 'LOGIN');
SELECT notify_channel_add('carrier', digest => 'json', ignore => '{at}', keep_body => true, ok_body => E'thank\nyou');
CREATE FUNCTION refuse(text, text, bytea) RETURNS text LANGUAGE sql AS $$ SELECT 'bad' WHERE $3 = 'bad' $$;
SELECT notify_event_set('back', check_function => 'refuse');
SELECT notify_event_set('login', check_function => 'refuse');
END

# An order that is created, a delivery, a status that the application sets.
sub new_order
{
	my ($id) = @_;
	return qq({"time": "1", "by": "shop", "order_no": "$id", "insert": {"state": "NEW"}}\n);
}

sub delivery
{
	my ($txn, $event, $id, $body) = @_;
	$body //= 'b';
	return qq({"time": "2", "channel_txn_id": "$txn", "event_type": "$event", "order_no": "$id", "body": "$body"}\n);
}

# One in the channel "carrier"; its time takes no part in the comparison.
sub carried
{
	my ($txn, $event, $id, $at, $n) = @_;
	return delivery($txn, $event, $id, qq({\\"at\\":$at,\\"n\\":$n})) =~ s/\{/{"channel": "carrier", /r;
}

sub status
{
	my ($id, $state) = @_;
	return qq({"time": "3", "by": "job", "order_no": "$id", "status": "$state"}\n);
}

my $bytes = "a\0b\xff\xfe\r\n";
my $base64 = encode_base64($bytes, '');
my $own = file('own.jsonl',
	"\xef\xbb\xbf",
	qq({"by": "shop", "order_no": "1", "insert": {"state": "NEW", "note": "it's a \\\\"}}\r\n),
	qq({"channel_txn_id": "A", "event_type": "paid", "order_no": "1", "channel": "elsewhere", "body": "x"}\n),
	qq({"channel_txn_id": "A", "event_type": "paid", "order_no": "1", "body_base64": "$base64", "data": {"n": 1}}\n),
	"\n",
	qq({"channel_txn_id": "A", "event_type": "paid", "order_no": "01", "body_base64": "$base64"}\n),
	qq({"channel_txn_id": "B", "event_type": "sent", "order_no": "one", "body": ""}\n),
	qq({"by": "job", "order_no": "7", "status": "SENT"}\n),
	carried('A', 'sent', 1, 1, 1),
	carried('A', 'sent', 1, 2, 1),
	carried('A', 'sent', 1, 3, 2),
	qq({"channel_txn_id": "C", "event_type": "login", "order_no": "u1", "body": "line 1\\nline 2\\t\\u00e9\\\\"}));

# Each of the other logs is here for its sentence.
my @sentences = (
	[ 'come to no harm with this log.', new_order(1), delivery('A', 'paid', 1), delivery('A', 'paid', 1) ],
	[   'moved 1 from SENT to PAID and told its consumers so.',
		new_order(1), status(1, 'SENT'), delivery('A', 'paid', 1) ],
	[   'moved 1 and 2 from BACK to SENT.',
		map { (new_order($_), status($_, 'BACK'), delivery("A$_", 'sent', $_)) } (1, 2) ],
	[   'moved 1, 2, 3, 4, 5 and 1 more from NEW to SENT, moved 7 from BACK to PAID, told its consumers so, '
		  . 'sent 1 message twice or too early, lost 2 notifications that came before their orders '
		  . 'and overlooked 2 repeats with other content.',
		(map { (new_order($_), delivery("A$_", 'sent', $_)) } (1 .. 6)),
		new_order(7), status(7, 'BACK'), delivery('A7', 'paid', 7), delivery('B7', 'paid', 7),
		(map { (delivery("A$_", 'paid', $_), new_order($_), delivery("A$_", 'paid', $_), delivery("A$_", 'paid', $_)) } (8, 9)),
		(map { delivery("A7", 'paid', 7, "other $_") } (1, 2)) ],
	[   'sent 1 message twice or too early.',
		new_order(1), delivery('A', 'paid', 1), delivery('B', 'paid', 1) ],
	[   'overlooked 1 repeat with other content.',
		new_order(1), delivery('A', 'paid', 1), delivery('A', 'paid', 1, 'c') ],
	# The same content in other bytes, and other content where the first left no claim.
	[ 'come to no harm with this log.', new_order(1), carried('A', 'paid', 1, 1, 1), carried('A', 'paid', 1, 2, 1) ],
	[   'lost 1 notification that came before its order.',
		carried('A', 'paid', 1, 1, 1), new_order(1), carried('A', 'paid', 1, 2, 1) ],
	[   'overlooked 1 repeat with other content.',
		carried('A', 'paid', 1, 1, 1), new_order(1), carried('A', 'paid', 1, 2, 2) ],
	[   'accepted 2 notifications that a check refuses.',
		new_order(1), status(1, 'SENT'), (map { delivery('A', 'back', 1, 'bad') } (1, 2)), delivery('B', 'login', 'u', 'bad') ],
	# Parked, and applied or refused later.
	[   'lost 1 notification that came before its order.',
		delivery('A', 'sent', 1), new_order(1), delivery('A', 'sent', 1), delivery('A', 'paid', 1) ],
	[   'moved 1 from NEW to BACK, moved 1 from BACK to PAID, told its consumers so '
		  . 'and accepted 1 notification that a check refuses.',
		new_order(1), delivery('A', 'back', 1, 'bad'), delivery('A', 'paid', 1), delivery('A', 'sent', 1),
		delivery('A', 'back', 1, 'bad') ],
	[   'accepted 1 notification that a check refuses and overlooked 1 repeat with other content.',
		new_order(1), status(1, 'SENT'), delivery('A', 'back', 1, 'bad'), delivery('A', 'back', 1, 'good') ]);
my @logs = map { file("harm$_.jsonl", @{ $sentences[$_] }[ 1 .. $#{ $sentences[$_] } ]) } (0 .. $#sentences);

{
	local $ENV{SETUP} = $setup;
	($status, $stdout, $stderr) = run('test/demo', $own, @logs);
}
is($status, 0, "a user's own logs");
is($stderr, '', 'nothing on stderr');

$section = section($stdout, 'own.jsonl');
@steps = table($section);
my $hash = substr(sha256_hex($bytes), 0, 8);
is(values_of($steps[0], 'key', 'outcome', 'after'), '(shop) | created | NEW', 'an order is created');
is(values_of($steps[1], 'channel', 'outcome', 'after'), 'elsewhere | ERROR 42704 | NEW', 'an unknown channel');
like($steps[1]->{note}, qr/channel "elsewhere" does not exist/, 'with the message');
is(values_of($steps[2], @columns), 'NEW | APPLIED | PAID |  | 200 SUCCESS', 'the replay goes on, with bytes');
is(values_of($steps[3], @columns), 'PAID | APPLIED | PAID | replayed | 200 SUCCESS', 'again, past an empty line');
is(values_of($steps[4], 'before', 'outcome', 'after'), ' | ERROR 22P02 | ', 'an order number that the type refuses');
is(values_of($steps[5], 'key', 'outcome', 'note'), '(job) | nothing | no such order', 'an order that is not there');
is(join("\n", map { values_of($_, 'channel', @columns) } @steps[ 6 .. 8 ]),
	"carrier | PAID | APPLIED | SENT |  | 200 thank you\n"
	  . "carrier | SENT | APPLIED | SENT | replayed | 200 thank you\n"
	  . 'carrier | SENT | CONFLICT | SENT |  | 500 FAIL',
	'a channel of the setup');
like($section, qr/^Acks in full\nchannel +ack *\n[- ]+\ncarrier 200 thank *\+\n +you$/m, 'with its ack as it is');
is(values_of($steps[9], @columns), ' | APPLIED |  |  | 200 SUCCESS', 'an event without a machine');
is(rows_of($section, 'Claims', 'channel', 'key', 'order', 'digest', 'hash'),
	"default | A:paid | 1 | raw | $hash\n"
	  . 'carrier | A:sent | 1 | json | ' . substr(sha256_hex('{"n":1}'), 0, 8) . "\n"
	  . 'default | C:login | u1 | raw | ' . substr(sha256_hex("line 1\nline 2\t\xc3\xa9\\"), 0, 8),
	'claims, with the hashes of the bytes and of what counts');
is(rows_of($section, 'Reviews', @review), '1 | PAYLOAD_CONFLICT | carrier | A:sent | 1 | 1 | 1 | ', 'the conflict');
is(rows_of($section, 'Review 1: what differs', 'member', 'first', 'last'), 'n | 1 | 2', 'and what differs');
is(rows_of($section, 'Outbox', 'seq', @message),
	'1 | Order | 1 | PAID | NEW | PAID | {"n": 1}' . "\n"
	  . '2 | notify_review | 1 | PAYLOAD_CONFLICT |  |  | {"biz_key": "A:sent", "channel": "carrier", "order_no": "1"}' . "\n"
	  . '3 | event | u1 | LOGIN |  |  | ',
	'and messages');
($order) = table($section, 'Orders in shop."Order"');
is(values_of($order, 'id', 'state', 'note'), '1 | SENT | it\'s a \\', 'and the order');
is(sentence($section), 'overlooked 1 repeat with other content.', 'another spelling of the order number is no other content');
is(rows_of(section($stdout, 'harm3.jsonl'), 'Parked', 'claim', 'channel', 'key', 'order', 'parked_at', 'awaits', 'attempts', 'last_error'),
	join("\n", map { "$_ | default | A$_:sent | $_ | NEW | PAID | 0 | " } (1 .. 6)), 'what is left parked');
unlike(section($stdout, 'harm0.jsonl'), qr/^(Parked|Reviews|Review \d+:.*|Acks in full)$/m, 'no section about nothing');
foreach my $i (0 .. $#sentences)
{
	my $sentence = $sentences[$i]->[0];
	is(sentence(section($stdout, "harm$i.jsonl")), $sentence, "would have $sentence");
}

#
# Ctrl-C while a server is up and a statement is running
#

my $sleep = file('sleep.sql', "COPY (SELECT 1) TO '$base/asleep';\nSELECT pg_sleep(3600);\n");
isnt(interrupt(sub { -e "$base/asleep" && unlink("$base/asleep") }, 'make', '-s', 'demo', "LOG=$own", "SETUP=$sleep"),
	0, 'interrupted while the setup runs');

#
# Files that cannot be used: no success, and a message that says which file and
# which line
#

my %unusable = (
	'missing.jsonl' => qr/^demo: cannot read $files\/missing\.jsonl$/m,
	'.' => qr/^demo: cannot read $files\/\.$/m,
	'latin1.jsonl' => qr/^demo: $files\/latin1\.jsonl: line 2: not UTF-8/m,
	'broken.jsonl' => qr/^demo: $files\/broken\.jsonl: line 3: .*invalid input syntax for type json/m);
file('latin1.jsonl', new_order(1), qq({"note": "\xe9"}\n));
file('broken.jsonl', new_order(1), "\n", "payment of order 1\n");
foreach my $log (sort keys %unusable)
{
	local $ENV{SETUP} = $setup;
	($status, $stdout, $stderr) = run('test/demo', "$files/$log");
	is($status, 1, "unusable log: $log");
	like($stderr, $unusable{$log}, 'is named');
}

my $bad = file('bad.sql', "CREATE TABLE biz_order (order_no text PRIMARY KEY, status text);\n\nSELECT notify_machine_add('no_order', 'order_no', 'status');\n");
($status, $stdout, $stderr) = run('make', '-s', 'demo', "LOG=$own", "SETUP=$bad");
isnt($status, 0, 'a setup that fails');
like($stderr, qr/^demo: \Q$bad\E: line 3: .*"no_order" does not exist/m, 'is named, with the line');

done_testing();
