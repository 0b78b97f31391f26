# shellcheck shell=bash
# A private PostgreSQL with the extension, for the scripts beside this file.
# Sourced, never run.
#
# All of it lives in one temporary folder, $T: a copy of the source tree (src),
# the installation (pg; test/forest), the temporary files of all that runs (tmp).
# Root hands the work to an unprivileged user. Whatever way the script ends, the
# processes are ended and the folder is removed.

# Set by a git hook, and not meant for us.
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
T=
drop=()

say_error()
{
	echo "${0##*/}: $*" >&2
	return 1
}

# Runs a command as the unprivileged user, in a clean environment.
as_user()
{
	(
		cd "${T:-/}" || exit
		exec "${drop[@]}" env -i "PATH=$PATH" "HOME=$T" "TMPDIR=$T/tmp" LC_ALL=C.UTF-8 \
			${LD_LIBRARY_PATH:+"LD_LIBRARY_PATH=$LD_LIBRARY_PATH"} "$@"
	)
}

# The same for what takes long: in a process group of its own and awaited by the
# shell itself, so that a signal to this script is acted upon at once.
step()
{
	set -m
	as_user "$@" </dev/null &
	set +m
	wait $!
}

# Pids of what this script started: a program of the private installation, or
# anything with our TMPDIR.
private_pids()
{
	{
		find /proc/[0-9]*/exe -maxdepth 0 -lname "$T/*"
		grep -lszxF "TMPDIR=$T/tmp" /proc/[0-9]*/environ
	} 2>/dev/null | cut -d/ -f3 | sort -u
}

# Ends all that was started and removes the folder.
private_stop()
{
	local signal pids=() i
	[ -n "$T" ] || return 0
	trap '' INT TERM HUP PIPE
	# To a postmaster: smart, then immediate.
	for signal in TERM QUIT KILL; do
		mapfile -t pids < <(private_pids)
		[ ${#pids[@]} -gt 0 ] || break
		kill -s $signal "${pids[@]}" 2>/dev/null
		for ((i = 0; i < 50; i++)); do
			[ -n "$(private_pids)" ] || break 2
			sleep 0.1
		done
	done
	rm -rf "$T"
	T=
}

# Makes $T: somewhere programs may run, and short and plain enough for a
# socket's path (107 bytes), for make and for psql.
make_folder()
{
	local base
	for base in "${TMPDIR:-/tmp}" /tmp /var/tmp; do
		[[ $base =~ ^/[A-Za-z0-9/._-]{1,30}$ ]] || continue
		# shellcheck disable=SC2016	# expanded by that shell
		T=$(as_user sh -c '
			trap "" INT TERM HUP
			t=$(mktemp -d "$1/nc.XXXXXX") || exit
			cd "$t" && mkdir src tmp && cp /bin/true tmp && tmp/true && rm tmp/true && pwd -P && exit
			rm -rf "$t"; exit 1' sh "$base" 2>/dev/null) && return
	done
	say_error "no folder for temporary files"
}

# The source tree as a tar archive: with git what is tracked or could be, else
# everything but build products.
archive_tree()
{
	local git=(git -C "$top" -c safe.directory="$top") file
	if [ "$("${git[@]}" rev-parse --show-toplevel 2>/dev/null)" = "$top" ]; then
		"${git[@]}" ls-files -z --cached --others --exclude-standard |
			while IFS= read -r -d '' file; do
				[ ! -e "$top/$file" ] || printf '%s\0' "$file"
			done | tar -C "$top" --null -T - -cf -
	else
		tar -C "$top" --exclude=.git --exclude='*.o' --exclude='*.bc' --exclude='*.so' \
			--exclude=./results --exclude=./tmp_check --exclude=./tmp_inst --exclude=./output_iso \
			--exclude='./regression.*' -cf - .
	fi
}

# Installs what is missing for $1 (demo, test or fuzz) and makes $T with the source
# tree and the installation. Sets pg_config and make_args.
private_start()
{
	local user clang
	trap private_stop EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 141' PIPE
	trap 'exit 143' TERM

	pg_config=$("$top/test/setup" "$1") || return
	if [ "$(id -u)" = 0 ]; then
		user=postgres
		id "$user" >/dev/null 2>&1 || user=nobody
		drop=(setpriv "--reuid=$(id -u "$user")" "--regid=$(id -g "$user")" --init-groups)
	fi
	make_folder || return
	archive_tree | as_user tar -C "$T/src" -xf - || return
	pg_config=$(as_user src/test/forest "$pg_config" "$T/pg") || return

	# No bitcode for JIT where the compiler for it is missing.
	make_args=("PG_CONFIG=$pg_config")
	clang=$(sed -n 's/^CLANG *= *//p' "$(dirname "$("$pg_config" --pgxs)")/../Makefile.global")
	[ -n "$clang" ] && command -v "$clang" >/dev/null || make_args+=(with_llvm=no)
}

# Builds the extension and installs it privately; a warning is an error.
private_build()
{
	step make -s -C src -j "$(nproc)" COPT=-Werror "${make_args[@]}" &&
		step make -s -C src install "${make_args[@]}"
}

# Starts a server of that installation with the options $1, and sets bin. What
# follows goes into its environment.
private_server()
{
	local options="-k $T/tmp -c listen_addresses= -c fsync=off $1"
	shift
	bin=$("$pg_config" --bindir)
	step "$bin/initdb" -D data -U postgres -A trust -E UTF8 --locale=C -N >"$T/initdb.log" 2>&1 &&
		step env "$@" "$bin/pg_ctl" -s -w -D data -l server.log -o "$options" start && return
	tail -n 20 "$T/initdb.log" "$T/server.log" >&2
	say_error "the server did not start"
}

# Installs packages, but starts no service, neither now nor when the machine starts.
# In a shell of its own, so that what it changes is undone however it ends.
private_packages()
(
	policy=/usr/sbin/policy-rc.d
	as_root=()
	[ "$(id -u)" = 0 ] || as_root=(sudo -n)
	if ! command -v apt-get >/dev/null || ! "${as_root[@]}" true 2>/dev/null; then
		say_error "please install: $*" || exit
	fi
	echo "installing $* (this may take minutes)"
	if [ ! -e $policy ]; then
		trap '"${as_root[@]}" rm -f $policy' EXIT
		printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee $policy >/dev/null
		"${as_root[@]}" chmod 755 $policy
	fi
	apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300)
	{
		"${apt[@]}" update
		"${apt[@]}" install --no-install-recommends "$@" || exit
		for package; do
			[ ! -e "/etc/init.d/$package" ] || "${as_root[@]}" update-rc.d "$package" disable
		done
	} </dev/null >"$T/apt.log" 2>&1
)

# What benchmarks ran on.
private_machine()
{
	echo "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores," \
		"$(awk '/^MemTotal/ { printf "%.1f GB", $2 / 1048576 }' /proc/meminfo), $("$pg_config" --version)"
}
