# shellcheck shell=bash
# A private broker, for rabbitmq/run and redis/run. Sourced, never run.
#
# All that the broker writes is in $folder: BROKER_FOLDER, which is kept, or else a
# temporary folder that is removed at the end. The broker's port and password stay
# the same there; the file "url" is there while the broker can be used.
umask 077
folder=
broker=		# pids of what we started
helper=
command=

die()
{
	echo "${0##*/}: $*" >&2
	exit 1
}

# need PACKAGE COMMAND...: the package is missing if the command fails.
missing=()
need()
{
	local package=$1
	shift
	"$@" >/dev/null 2>&1 || missing+=("$package")
}

listening()
{
	(exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# The command is ended before the broker: what it has published is acked.
broker_stop()
{
	local pid
	trap '' HUP INT TERM
	for pid in $command $broker $helper; do
		kill "$pid" 2>/dev/null
		wait "$pid" 2>/dev/null
	done
	rm -f "$folder/url"
	[ -n "${BROKER_FOLDER:-}" ] || rm -rf "$folder"
}

# Makes $folder, and sets $port, the first of three that are free, and $password.
broker_prepare()
{
	[ "$(id -u)" != 0 ] || die "not as root; as user postgres, say: runuser -u postgres -- $0"
	[ ${#missing[@]} = 0 ] || die "please install: ${missing[*]}"
	folder=${BROKER_FOLDER:-$(mktemp -d)} && mkdir -p "$folder" && folder=$(cd "$folder" && pwd -P) || exit
	trap broker_stop EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
	if [ ! -f "$folder/address" ]; then
		while port=$((20000 + RANDOM % 12000)); do
			listening $port || listening $((port + 1)) || listening $((port + 2)) || break
		done
		echo "$port $(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')" >"$folder/address"
	fi
	# shellcheck disable=SC2034	# used by those who source this
	read -r port password <"$folder/address"
}

# broker_run URL COMMAND...: waits until $broker takes connections, and runs the
# command until it ends or the broker does. A signal goes to the command; its exit
# status is ours.
broker_run()
{
	local url=$1 ended="" status
	shift
	until listening "$port"; do
		kill -0 "$broker" 2>/dev/null || die "the broker did not start"
		sleep 0.1
	done
	"$@" &
	command=$!
	trap 'kill "$command" 2>/dev/null' HUP INT TERM
	echo "$url" >"$folder/url"
	echo "${0##*/}: started; the broker's URL is in $folder/url" >&2
	until [ -n "${ended-}" ]; do		# else it was a signal
		wait -n -p ended "$command" "$broker" 2>/dev/null
		status=$?
	done
	[ "$ended" = "$command" ] || die "the broker has ended"
	exit $status
}
