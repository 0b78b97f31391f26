# What README.md says is so: its SQL runs and shows what it shows, the code that
# it quotes is in test/clients, and its tables have what there is.
#
# README.md marks its blocks: <!-- run --> for SQL that runs here, all of it in
# one database; <!-- shows --> for what the SQL before it prints, in paragraphs;
# <!-- from FILE --> for lines quoted from a file.

use strict;
use warnings;

use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $readme = slurp('README.md');

# Without trailing blanks: psql pads its columns, editors trim them.
sub trimmed
{
	my ($text) = @_;
	$text =~ s/[ \t]+$//mg;
	return $text;
}

sub slurp
{
	my ($file) = @_;
	return trimmed(slurp_file($file));
}

# A section without its heading.
sub section
{
	my ($heading) = @_;
	$readme =~ /^## \Q$heading\E\n(.*?)(?=^## |\z)/ms or die "no section \"$heading\"";
	return $1;
}

# The first column of a section's tables, less the backquotes.
sub first_column
{
	my ($heading) = @_;
	return section($heading) =~ /^\| `([^`]+)`/mg;
}

my $node = PostgreSQL::Test::Cluster->new('readme');
$node->init;
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'notify_claim'");
$node->start;

#
# The blocks that run
#

my ($stdout, $stderr) = ('', '');
my @run;
while ($readme =~ /^<!-- (run|shows|from (\S+)) -->\n+```\w+\n(.*?)^```$/msg)
{
	my ($what, $file, $block) = ($1, $2, $3);
	my $name = (split /\n/, $block)[0];

	if ($what eq 'run')
	{
		IPC::Run::run [ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres') ],
		  '<', \$block, '>', \$stdout, '2>', \$stderr;
		is($?, 0, "runs: $name") or diag($stderr);
		push @run, $block;
	}
	elsif ($what eq 'shows')
	{
		foreach my $paragraph (split /\n\n/, $block)
		{
			chomp $paragraph;
			ok(index(trimmed($stdout), $paragraph) >= 0 || index(trimmed($stderr), $paragraph) >= 0,
				'shows: ' . (split /\n/, $paragraph)[-1])
			  or diag("README.md:\n$paragraph\npsql:\n$stdout$stderr");
		}
	}
	else
	{
		ok(index(slurp($file), $block) >= 0, "quoted as it is in $file");
	}
}
cmp_ok(scalar(@run), '>', 5, 'blocks were found');

ok(index(slurp('test/sql/quickstart.sql'), $run[0]) >= 0,
	'test/sql/quickstart.sql is the quick start');
my ($shown) = section('Quick start') =~ /^<!-- shows -->\n```text\n(.*?)^```$/ms;
foreach my $paragraph (split /\n\n/, $shown)
{
	chomp $paragraph;
	ok(index(slurp('expected/quickstart.out'), $paragraph) >= 0,
		'in expected/quickstart.out: ' . (split /\n/, $paragraph)[-1]);
}

#
# The tables
#

my $functions = $node->safe_psql('postgres', q{
	SELECT proname || '(' || regexp_replace(regexp_replace(regexp_replace(pg_get_function_arguments(p.oid),
	       ',? ?(IN)?OUT .*', ''), '\mIN ', '', 'g'), '::\w+(\[\])?', '', 'g') || ')'
	FROM pg_proc AS p JOIN pg_depend AS d ON d.objid = p.oid
	WHERE d.classid = 'pg_proc'::regclass AND d.deptype = 'e'
	AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'notify_claim')});
is(join("\n", sort(first_column('Functions'))), join("\n", sort(split /\n/, $functions)),
	'all functions and their arguments');

my $settings = $node->safe_psql('postgres', q{
	SELECT '| `' || name || '` | `' || current_setting(name) || '` |'
	FROM pg_settings WHERE name LIKE 'notify\_claim.%'});
is(scalar(my @told = first_column('Settings')), scalar(my @settings = split(/\n/, $settings)),
	'all settings');
ok(index(section('Settings'), $_) >= 0, "with its default: $_") foreach @settings;

my $privileges = q{
	SELECT string_agg(p.oid::regprocedure::text, ' ' ORDER BY p.oid),
	       has_schema_privilege('ROLE', 'public', 'USAGE'), has_schema_privilege('ROLE', 'public', 'CREATE')
	FROM pg_proc AS p JOIN pg_depend AS d ON d.objid = p.oid
	WHERE d.classid = 'pg_proc'::regclass AND d.deptype = 'e'
	AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'notify_claim')
	AND has_function_privilege('ROLE', p.oid, 'EXECUTE')};
is($node->safe_psql('postgres', $privileges =~ s/ROLE/shop_app/gr),
	$node->safe_psql('postgres', $privileges =~ s/ROLE/shop_app_by_hand/gr),
	'notify_grant is the same as the GRANTs');
is($node->safe_psql('postgres', q{
	SET ROLE shop_app;
	SELECT outcome FROM handle_notify('PX-99', 'REFUND', 'SO-2', '')}),
	'APPLIED', 'and they are enough');

# Every outcome and every SQLSTATE that the code can give.
my %code = map { $_ => slurp($_) } glob('src/*.c');
my %outcome = map { $_ => 1 } join('', values %code) =~ /"(APPLIED|SKIPPED|PARKED|EARLY|CONFLICT|REJECTED|BUSY|NO_[A-Z]+)"/g;
is(join(' ', sort grep { /^[A-Z_]+$/ } first_column('Answers')), join(' ', sort keys %outcome), 'all outcomes');

chomp(my $include = qx(pg_config --includedir-server));
my %sqlstate;
foreach (split /\n/, slurp("$include/utils/errcodes.h"))
{
	next unless my ($name, $digits) = /^#define (ERRCODE_\w+) MAKE_SQLSTATE\((.*)\)/;
	$sqlstate{$name} = join('', $digits =~ /'(.)'/g);
}
my %raised = map { $_ => 1 } join('', values %code) =~ /\b(ERRCODE_\w+)/g;
foreach my $name (sort keys %raised)
{
	ok(section('Errors') =~ /\b$sqlstate{$name}\b/, "$name is $sqlstate{$name}, and explained");
}

#
# Links and versions
#

my %anchor;
foreach my $heading ($readme =~ /^#+ (.*)$/mg)
{
	my $anchor = lc $heading;
	$anchor =~ s/[^\w -]//g;
	$anchor =~ tr/ /-/;
	$anchor{$anchor} = 1;
}
foreach my $link ($readme =~ /\]\(([^)]+)\)/g)
{
	ok($link =~ /^#(.*)/ ? $anchor{$1} : -f $link, "link to $link");
}

my ($version) = slurp('notify_claim.control') =~ /^default_version = '(.*)'$/m;
my $meta = decode_json(slurp('META.json'));
is($meta->{version}, "$version.0", 'version in META.json');
is($meta->{provides}{notify_claim}{version}, "$version.0", 'and of what it provides');
ok(-f $meta->{provides}{notify_claim}{file}, 'whose file exists');
ok(slurp('CHANGELOG.md') =~ /^## (Unreleased \()?\Q$version\E\b/m, 'version in CHANGELOG.md');

done_testing();
