# test/demo: what it shows of its own logs and of a user's, what it says about
# files that it cannot use, and that it leaves nothing behind, whichever way it
# ends.

use strict;
use warnings;

use Digest::SHA qw(sha256_hex);
use File::Temp qw(tempdir);
use IPC::Run;
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

# The sentence at a section's end.
sub sentence
{
	my ($section) = @_;

	return $section =~ /\n\nA receiver with only a unique index on \(channel, transaction id, event type\) would have (.*)\n+\z/
	  ? $1 : "(none in:\n$section)";
}

my @columns = ('before', 'outcome', 'after', 'replayed', 'ack');

#
# make demo
#

my ($status, $stdout, $stderr) = run('make', '-s', 'demo');
is($status, 0, 'make demo');
is($stderr, '', 'says nothing on stderr');

my $incident = section($stdout, 'incident.jsonl');
my @steps = table($incident);
my @log = split /\n/, slurp_file('test/data/incident.jsonl');
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

my @outbox = map { $_->{aggregateid} } grep { $_->{type} eq 'ORDER_PAID' } table($incident, 'Outbox');
is("@outbox", 'SO24111100017 SO24111100023 SO24111100031 SO24111100038', 'each payment is told once');
is(sentence($incident),
	'moved SO24111100017 and SO24111100031 from SHIPPED to PAID, told its consumers so and overlooked 1 repeat with other content.',
	'what the other receiver would have done');

my $providers = section($stdout, 'providers.jsonl');
@steps = table($providers);
@log = split /\n/, slurp_file('test/data/providers.jsonl');
is(scalar(@steps), scalar(@log), 'the providers: one line for each step');
foreach my $format ('Stripe', 'Alipay', 'WeChat Pay v2', 'WeChat Pay v3', 'Adyen')
{
	my @notices = grep { $_->{note} =~ /^$format: / } @steps;
	ok((grep { $_->{outcome} eq 'APPLIED' && $_->{replayed} eq '' } @notices), "$format: a notice is applied");
	ok((grep { $_->{replayed} ne '' } @notices), "$format: a retry is replayed") unless $format =~ /v3/;
}

my @refund = grep { $_->{key} eq '2024111122001473031404527711/RF-77:REFUND' } @steps;
is(values_of($refund[0], @columns), 'PENDING_PAY | EARLY | PENDING_PAY |  | 500 FAIL', 'a refund that is early');
is(values_of($refund[1], @columns), 'PAID | APPLIED | PAID |  | 200 SUCCESS', 'is applied when it comes again');
is(scalar(@refund), 2, 'and that was it');
is(sentence($providers),
	'sent 3 messages twice or too early and lost 1 notification that came before its order.',
	'what the other receiver would have done');

#
# Ctrl-C during the build; the next run must work
#

is(interrupt(sub { -s "$files/stdout" && slurp_file("$files/stdout") =~ /^Building/ }, 'test/demo'),
	130, 'interrupted during the build');

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
		new_order(1), delivery('A', 'paid', 1), delivery('A', 'paid', 1, 'c') ]);
my @logs = map { file("harm$_.jsonl", @{ $sentences[$_] }[ 1 .. $#{ $sentences[$_] } ]) } (0 .. $#sentences);

{
	local $ENV{SETUP} = $setup;
	($status, $stdout, $stderr) = run('test/demo', $own, @logs);
}
is($status, 0, "a user's own logs");
is($stderr, '', 'nothing on stderr');

my $section = section($stdout, 'own.jsonl');
@steps = table($section);
my $hash = substr(sha256_hex($bytes), 0, 8);
is(values_of($steps[0], 'key', 'outcome', 'after'), '(shop) | created | NEW', 'an order is created');
is(values_of($steps[1], 'channel', 'outcome', 'after'), 'elsewhere | ERROR 42704 | NEW', 'an unknown channel');
like($steps[1]->{note}, qr/channel "elsewhere" does not exist/, 'with the message');
is(values_of($steps[2], @columns), 'NEW | APPLIED | PAID |  | 200 SUCCESS', 'the replay goes on, with bytes');
is(values_of($steps[3], @columns), 'PAID | APPLIED | PAID | replayed | 200 SUCCESS', 'again, past an empty line');
is(values_of($steps[4], 'before', 'outcome', 'after'), ' | ERROR 22P02 | ', 'an order number that the type refuses');
is(values_of($steps[5], 'key', 'outcome', 'note'), '(job) | nothing | no such order', 'an order that is not there');
is(values_of($steps[6], @columns), ' | APPLIED |  |  | 200 SUCCESS', 'an event without a machine');
my @claims = table($section, 'Claims');
is(join(', ', map { values_of($_, 'key', 'order', 'hash') } @claims),
	"A:paid | 1 | $hash, C:login | u1 | " . substr(sha256_hex("line 1\nline 2\t\xc3\xa9\\"), 0, 8),
	'claims, with the hashes of the bytes');
is(join(', ', map { values_of($_, 'seq', 'aggregatetype', 'aggregateid', 'type', 'data') } table($section, 'Outbox')),
	'1 | Order | 1 | PAID | {"n": 1}, 2 | event | u1 | LOGIN | ', 'and messages');
($order) = table($section, 'Orders in shop."Order"');
is(values_of($order, 'id', 'state', 'note'), '1 | PAID | it\'s a \\', 'and the order');
is(sentence($section), 'come to no harm with this log.', 'another spelling of the order number is no other content');
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
