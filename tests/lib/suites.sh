# SPDX-License-Identifier: MIT
#
# The suites of ./dev test: suite_NAME is what `./dev test NAME` runs. Part of ./dev.
#
# run_suite() (schedule.sh) calls them with $suite set and an empty folder for their results; results.sh has the ways to
# run tests. A suite whose packages can't be installed everywhere skips itself.
# shellcheck shell=bash

# How long each fuzzer runs, and how long the soak lasts.
fuzz_seconds=${FUZZ_SECONDS:-15}
soak_minutes=${SOAK_MINUTES:-2}

# --- CPU-bound

suite_lint()
{
	local name

	need_or_skip "its packages" need "${packages_lint[@]}" || return 0
	for name in "${lint_checks[@]}"; do
		check "${name//_/-}" "lint_$name"
	done
	tail -n 6 "$results/$suite/rules.log"
}

suite_unit()
{
	unit_tests default
	unit_tests asan
	check "the table of encodings is what perf says" "$python" "$top/tests/encoding/generate.py" --check \
		"$build/default/tests/encoding/on-machine" "$top/tests/encoding/table.txt"
}

suite_clang()
{
	check "clang build without a warning" build_tree clang all
	check "clang build of the tests without a warning" build_tree clang test-programs
	check "no libpfm" "$build/clang/tests/unit/event/test-pfm-none"
	check "no BPF engine" "$build/clang/tests/unit/engine/test-bpf-none"
}

# Checks that the tarball is complete, and that the suites start from it.
suite_distcheck()
{
	quietly "$results/$suite/build.log" build_tree default perfmond tests/system/work
	rm -f "$build"/default/perfmond-*.tar.xz
	check "make distcheck" make -s -C "$build/default" -j"$jobs" distcheck
	TARBALL=$(echo "$build"/default/perfmond-*.tar.xz) run_pytest default "$top/tests/dist"
}

suite_fuzz()
{
	local fuzzer name

	quietly "$results/$suite/build.log" build_tree fuzz fuzzers
	for fuzzer in "$top"/tests/fuzz/fuzz-*.c; do
		name=$(basename "$fuzzer" .c)
		check "$name" fuzz "$name" "$fuzz_seconds" &
		[ "$(jobs -r | wc -l)" -lt "$jobs" ] || wait -n
	done
	wait
	grep -H '^stat::number_of_executed_units' "$results/$suite"/fuzz-*.log |
		sed 's,.*/\(fuzz-[a-z-]*\)\.log:.*: *,\1: inputs tried: ,'
}

# The compiler, the emulator and the guest's system: it has the libraries that the daemon is built with, but for libpfm,
# so that the daemon is tested without it too.
get_guest()
{
	local package libraries=()

	for package in "${packages_build[@]}"; do
		[[ $package != *-dev || $package == libpfm* ]] || libraries+=("$package")
	done
	need "${packages_guest[@]}" && "$top/tests/guest/fetch" "$build/guest" "${libraries[@]}"
}

# The cross-built daemon, in an emulated machine that has a PMU.
suite_guest()
{
	echo "getting the guest's packages, where they are not there yet"
	need_or_skip "its packages" get_guest || return 0
	quietly "$results/$suite/build.log" build_tree arm64 perfmond tests/guest/load
	# An emulated CPU keeps one of the host's busy: two files of tests at a time, each with guests of its own.
	GUEST=$build/guest run_pytest arm64 "$top/tests/guest" -n 2 --dist loadfile
}

# --- sensitive to timing

# composed DROP-IN FOLDER: the service with one of the example drop-ins, in one file, since systemd-analyze --offline=
# reads no drop-ins.
composed()
{
	local root=$build/default/root

	mkdir -p "$2"
	cat "$root/lib/systemd/system/perfmond.service" "$root/share/doc/perfmond/examples/$1" >"$2/perfmond.service"
	cp "$root/lib/systemd/system/perfmond.socket" "$2"
}

# check_units WHAT FOLDER SCORE: the units there; systemd-analyze scores tenths.
check_units()
{
	check "systemd-analyze verify$1" systemd-analyze verify --man=no "$2"/perfmond.{service,socket}
	check "systemd-analyze security$1 at most $3" \
		systemd-analyze security --offline=yes --threshold="${3/./}" --no-pager "$2/perfmond.service"
}

# The units, verified where they are installed, since systemd-analyze looks for the program in ExecStart=.
suite_service()
{
	local with=$results/$suite drop_in

	quietly "$results/$suite/install.log" build_tree default install
	for drop_in in sandbox sys-admin without-bpf; do
		composed "$drop_in.conf" "$with/$drop_in"
	done
	check_units "" "$build/default/root/lib/systemd/system" 1.5
	check_units " sandboxed" "$with/sandbox" 0.7
	check_units " sys-admin" "$with/sys-admin" 1.7
	check_units " without BPF" "$with/without-bpf" 1.3
}

# The tests that need a real PMU. Its counters are few, so no other suite uses them at the same time.
suite_hardware()
{
	check "a PMU" "$python" "$top/tests/system/pmu.py"
	grep -q '^:test-result: PASS' "$results/$suite/$suite.trs" || return 0
	system_tests default "$top/tests/hardware"
	system_tests asan "$top/tests/hardware" -m 'not once'
}

# The files of tests/system that tolerate a busy machine have suites of their own: answers and clients; tests that
# mostly wait; one that waits for a minute.
web_tests=("$top"/tests/system/test_{abuse,api,crowds,dashboard,formats,rules,tls}.py)
waiting_tests=("$top"/tests/system/test_{commands,config,doc,documents,follow,names,prometheus,retry}.py)
minute_tests=("$top"/tests/system/test_minute.py)

# Tests marked `once` do not depend on how the daemon was built.
suite_system()
{
	local others=("${web_tests[@]}" "${waiting_tests[@]}" "${minute_tests[@]}")

	fetch prometheus
	system_tests default "$top/tests/system" "${others[@]/#/--ignore=}"
	system_tests asan "$top/tests/system" "${others[@]/#/--ignore=}" -m 'not once'
}

# --- side by side

suite_waiting()
{
	fetch prometheus
	system_tests default "${waiting_tests[@]}"
	system_tests asan "${waiting_tests[@]}" -m 'not once'
}

suite_minute()
{
	system_tests default "${minute_tests[@]}"
}

# Both builds at the same time: the tests mostly wait.
suite_web()
{
	local out=$results/$suite pids=() pid status=0

	fetch prometheus
	system_tests default "${web_tests[@]}" >"$out/default.log" 2>&1 &
	pids+=($!)
	system_tests asan "${web_tests[@]}" -m 'not once' >"$out/asan.log" 2>&1 &
	pids+=($!)
	for pid in "${pids[@]}"; do
		wait "$pid" || status=$?
	done
	cat "$out/default.log" "$out/asan.log"
	return $status
}

# The installed service, under a systemd of its own. It is upgraded to the other build.
suite_nspawn()
{
	local dest=$build/clang/dest

	rm -rf "$dest"
	quietly "$results/$suite/build.log" build_tree default perfmond
	quietly "$results/$suite/install.log" build_tree clang all
	quietly "$results/$suite/install.log" make -s -C "$build/clang" install DESTDIR="$dest"
	DEST=$dest OTHER_BUILD=$build/default/perfmond run_pytest clang "$top/tests/nspawn"
}

# In containers of runc, as kubelet and others start them.
suite_container()
{
	need_or_skip runc need "${packages_container[@]}" || return 0
	system_tests default "$top/tests/container"
}

# --- the whole daemon, at last

suite_soak()
{
	quietly "$results/$suite/build.log" build_tree default perfmond tests/system/work
	check "all at once" soak "$soak_minutes"
	sed -n '/^lasting: /,/^the log/{/^the log/!p}' "$results/$suite/all-at-once.log"
}

# The page at /, in a Chromium.
suite_browser()
{
	echo "getting Chromium, where it is not there yet"
	need_or_skip Chromium need "${packages_browser[@]}" || return 0
	quietly "$results/$suite/build.log" build_tree default perfmond tests/system/work
	run_pytest default "$top/tests/browser"
	# How long the page takes.
	grep -h -o 'name="refresh_ms" value="[^"]*"' "$results/$suite/default.xml" || true
}
