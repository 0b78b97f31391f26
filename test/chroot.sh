# shellcheck shell=bash
# A Debian chroot with several PostgreSQL majors and pgindent, for the scripts
# beside this file. Sourced, never run; needs root. It is made once, in $CHROOT:
# some minutes and 1.8 GB. The package mirror is the one that apt uses here.

chroot=${CHROOT:-/var/cache/pgmatrix}
versions=(15 17 18 19)
work=

# Makes the chroot if it is not there, and a working folder in it, $work, which
# is /${work##*/} inside. The caller has to see to it that chroot_stop is called.
chroot_start()
{
	[ "$(id -u)" = 0 ] || say_error "needs root, for chroot" || return
	[ -f "$chroot/.ready" ] || chroot_build || return
	work=$(mktemp -d "$chroot/m.XXXXXX") && chmod 1777 "$work"
}

chroot_stop()
{
	[ -z "$work" ] || rm -rf "$work"
	work=
}

chroot_build()
{
	local mirror suite priority=200 include=gcc,make,libc6-dev,libssl-dev,libipc-run-perl,pgbouncer v exclude=() path
	apt-get update -q || say_error "apt-get update failed" || return
	command -v mmdebstrap >/dev/null ||
		DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends mmdebstrap || return
	# shellcheck disable=SC2016	# expanded by apt-get
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' 'Component: main' | head -n 1)
	[ -n "$mirror" ] || say_error "no mirror of Debian in apt's sources" || return

	# Every version from the oldest suite that has it; the newest from experimental.
	rm -rf "$chroot" "$chroot.pref"
	mkdir -p "$(dirname "$chroot")"
	{
		for suite in bookworm trixie sid; do
			printf 'Package: *\nPin: release n=%s\nPin-Priority: %s\n\n' $suite $priority
			priority=$((priority + 100))
		done
		echo 'Package: libpq5 libpq-dev postgresql-19 postgresql-client-19 postgresql-server-dev-19'
		printf 'Pin: release a=experimental\nPin-Priority: 990\n'
	} >"$chroot.pref"
	for v in "${versions[@]}"; do
		include=$include,postgresql-$v,postgresql-server-dev-$v
		[ "$v" -gt 18 ] || include=$include,postgresql-$v-wal2json
	done
	# JIT's compiler is half of the size.
	for path in /usr/share/{doc,man,locale} '/usr/lib/llvm-*/'{bin,include,lib/clang}; do
		exclude+=("--dpkgopt=path-exclude=$path/*")
	done
	exclude+=('--dpkgopt=path-exclude=/usr/lib/llvm-*/lib/*.a' '--dpkgopt=path-exclude=/usr/lib/*/libclang*')
	mmdebstrap --quiet --variant=apt --mode=root \
		--aptopt='Acquire::Check-Valid-Until "false"' --aptopt='APT::Install-Recommends "false"' \
		--aptopt='Acquire::Languages "none"' --dpkgopt=force-unsafe-io "${exclude[@]}" \
		--essential-hook="cp '$chroot.pref' \"\$1/etc/apt/preferences.d/pgmatrix.pref\"" \
		--include="$include" sid "$chroot" \
		"deb $mirror sid main" "deb $mirror experimental main" \
		"deb $mirror trixie main" "deb $mirror bookworm main" || return
	rm -f "$chroot.pref"
	touch "$chroot/.ready"
}

# Runs a command in the chroot, with its own mounts and processes, so that
# nothing outlives it.
in_chroot()
{
	# shellcheck disable=SC2016	# expanded by that shell
	unshare --mount --pid --fork --kill-child --mount-proc="$chroot/proc" sh -c '
		mount -t tmpfs -o mode=1777 tmpfs "$1/dev/shm" && exec chroot "$@"' sh "$chroot" "$@"
}
