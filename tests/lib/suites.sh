# SPDX-License-Identifier: MIT
#
# The suites of ./dev test: suite_NAME is what `./dev test NAME` runs. Part of ./dev.
#
# run_suite() (schedule.sh) calls them with $suite set and an empty folder for their results; results.sh has the ways to
# run tests. A suite whose packages can't be installed everywhere skips itself.
# shellcheck shell=bash

# How long each fuzzer runs, and how long the soak lasts.
fuzz_seconds=${FUZZ_SECONDS:-5}
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
}

# Checks that the tarball is complete, and that the suites start from it.
suite_distcheck()
{
	# The unit tests that read files of the source folder, which is another one here; suite_unit runs all of them.
	local tests="tests/unit/config/test-config tests/unit/event/test-encoding tests/unit/web/test-web"

	quietly "$results/$suite/build.log" build_tree default perfmond tests/system/work
	rm -f "$build"/default/perfmond-*.tar.xz
	check "make distcheck" make -s -C "$build/default" -j"$jobs" distcheck TESTS="$tests" \
		check_PROGRAMS="tests/system/work $tests"
	TARBALL=$(echo "$build"/default/perfmond-*.tar.xz) run_pytest default "$top/tests/dist"
}

# elsewhere TARBALL FOLDER: builds the Debian package in another time zone, and with another locale and umask.
elsewhere()
{
	umask 027
	TZ=Asia/Kolkata LC_ALL=C.UTF-8 debian_package "$@"
}

# alike FOLDER FOLDER: the binary packages in both folders are the same.
alike()
{
	(cd "$1" && sha256sum ./*.deb) >"$results/$suite/packages.sha256"
	(cd "$2" && sha256sum --check --strict "$results/$suite/packages.sha256")
}

# The Debian package in a bare Debian 12.
package_installed()
{
	need_or_skip "a bare Debian" "$top/tests/package/fetch" "$build/debian" "${packages_bare[@]}" -- \
		"${packages_runtime[@]}" || return 0
	PACKAGE=$build/package DEBIAN=$build/debian run_pytest default "$top/tests/package"
}

# The packages of Debian and RPM. The unit tests are not run again. The tests of the installed package mostly wait.
suite_package()
{
	local out=$results/$suite again=$build/package-again/elsewhere tarball pid status=0

	need_or_skip "its packages" need "${packages_package_test[@]}" || return 0
	export DEB_BUILD_OPTIONS="nocheck parallel=$jobs"
	quietly "$out/dist.log" make_tarball "$build/tarball"
	tarball=$(echo "$build"/tarball/perfmond-*.tar.xz)
	check "the Debian package" debian_package "$tarball" "$build/package"
	! grep -q 'FAIL' "$out/$suite.trs" || return 0
	package_installed >"$out/installed.log" 2>&1 &
	pid=$!
	check "lintian" lintian --fail-on error,warning --info --allow-root "$build"/package/*.changes
	check "the Debian package again" elsewhere "$tarball" "$again"
	check "both are alike" alike "$build/package" "$again"
	check "the RPM" rpm_package "$tarball" "$build/rpm"
	check "rpmlint" rpmlint_all "$build/rpm"
	rm -rf "$build/package-again"
	wait "$pid" || status=$?
	cat "$out/installed.log"
	return "$status"
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

# get_guest FOLDER [PACKAGE...]: the compiler, the emulator and the guest's system: it has the libraries that the daemon
# is built with, but for libpfm, so that the daemon is tested without it too.
get_guest()
{
	local folder=$1 package libraries=()

	shift
	for package in "${packages_build[@]}"; do
		[[ $package != *-dev || $package == libpfm* ]] || libraries+=("$package")
	done
	need "${packages_guest[@]}" && "$top/tests/guest/fetch" "$folder" "${libraries[@]}" "$@"
}

# The cross-built daemon, in an emulated machine that has a PMU.
suite_guest()
{
	echo "getting the guest's packages, where they are not there yet"
	need_or_skip "its packages" get_guest "$build/guest" || return 0
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

# verify_units FOLDER: with the manual pages that the units name, where these could be made.
verify_units()
{
	local manual=$build/default/root/share/man

	if [ -e "$manual/man8/perfmond.8" ]; then
		MANPATH=$manual systemd-analyze verify --man=yes "$1"/perfmond.{service,socket}
	else
		systemd-analyze verify --man=no "$1"/perfmond.{service,socket}
	fi
}

# check_units WHAT FOLDER SCORE: the units there; systemd-analyze scores tenths.
check_units()
{
	check "systemd-analyze verify$1" verify_units "$2"
	check "systemd-analyze security$1 at most $3" \
		systemd-analyze security --offline=yes --threshold="${3/./}" --no-pager "$2/perfmond.service"
}

# The units, verified where they are installed, since systemd-analyze looks for the program in ExecStart=.
suite_service()
{
	local with=$results/$suite drop_in

	quietly "$results/$suite/install.log" build_tree default install
	for drop_in in sandbox sys-admin without-bpf container-files container-names; do
		composed "$drop_in.conf" "$with/$drop_in"
	done
	check_units "" "$build/default/root/lib/systemd/system" 1.4
	check_units " sandboxed" "$with/sandbox" 0.7
	check_units " sys-admin" "$with/sys-admin" 1.7
	check_units " without BPF" "$with/without-bpf" 1.3
	check_units " container files" "$with/container-files" 1.7
	check_units " container names" "$with/container-names" 1.6
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
web_tests=("$top"/tests/system/test_{abuse,api,crowds,dashboard,follow,formats,http,mixin,mutual_tls,parts}.py
	"$top"/tests/system/test_{profile_answers,rules,tls,web_config}.py)
waiting_tests=("$top"/tests/system/test_{bpf_faults,captures,commands,config,container_names,doc,documents,history}.py
	"$top"/tests/system/test_{kept,limits,mounts,names,old_kernels,pprof,profile_names}.py
	"$top"/tests/system/test_{prometheus,restart,retry,state,totals}.py)
minute_tests=("$top"/tests/system/test_minute.py)

# with_speedscope COMMAND...
with_speedscope()
{
	# Debian has no package of it. Without it, test_profile.py does not compare with speedscope's own schema.
	need_or_skip speedscope fetch_npm "${speedscope[@]}" || true
	SPEEDSCOPE=$build/speedscope/dist/release/file-format-schema.json "$@"
}

# The other files of tests/system.
suite_system()
{
	local others=("${web_tests[@]}" "${waiting_tests[@]}" "${minute_tests[@]}")

	with_speedscope system_tests default "$top/tests/system" "${others[@]/#/--ignore=}"
}

# The same files with the sanitizers: without the tests marked `once`, which do not depend on how the daemon was built.
suite_sanitized()
{
	local others=("${web_tests[@]}" "${waiting_tests[@]}" "${minute_tests[@]}")

	with_speedscope system_tests asan "$top/tests/system" "${others[@]/#/--ignore=}" -m 'not once'
}

# --- side by side

suite_minute()
{
	system_tests default "${minute_tests[@]}"
}

# of_both_builds TESTS...: at the same time, since the tests mostly wait.
of_both_builds()
{
	local out=$results/$suite pids=() pid status=0

	fetch prometheus
	system_tests default "$@" >"$out/default.log" 2>&1 &
	pids+=($!)
	system_tests asan "$@" -m 'not once' >"$out/asan.log" 2>&1 &
	pids+=($!)
	for pid in "${pids[@]}"; do
		wait "$pid" || status=$?
	done
	cat "$out/default.log" "$out/asan.log"
	return $status
}

suite_web()
{
	of_both_builds "${web_tests[@]}" -n 2
}

suite_waiting()
{
	local go=golang-1.19-go source=golang-github-google-pprof-dev

	# Without them, test_pprof.py is skipped.
	need_or_skip "pprof" fetch "$go" '*/pkg/tool/*/pprof' || true
	need_or_skip "profile.proto" fetch "$source" '*/pprof/proto/profile.proto' || true
	need_or_skip "protoc" need "${packages_protobuf[@]}" || true
	PPROF=$(echo "$build/$go"/usr/lib/go-*/pkg/tool/*/pprof)
	PPROF_PROTO=$build/$source/usr/share/gocode/src/github.com/google/pprof/proto
	export PPROF PPROF_PROTO
	of_both_builds "${waiting_tests[@]}" -n 2
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

# In containers of runc, as kubelet and others start them. kubectl is used where it is: Debian 12's is too old.
suite_container()
{
	local package docker=golang-github-docker-docker-dev

	need_or_skip runc need "${packages_container[@]}" || return 0
	# Without them, test_names.py is skipped.
	for package in "${packages_runtimes[@]}"; do
		need_or_skip "$package" fetch "$package" || break
	done
	need_or_skip "Docker's seccomp profile" fetch "$docker" || true
	need_or_skip "the schemas of Kubernetes" fetch_npm_lock schemas "$top/tests/container/schemas" || true
	DOCKER_PROFILE=$build/$docker/usr/share/gocode/src/github.com/docker/docker/profiles/seccomp/default.json \
		RUNTIMES=$build SCHEMAS=$build/schemas system_tests default "$top/tests/container"
}

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
	# Debian has no package of it. Without it, test_axe.py is skipped.
	need_or_skip axe-core fetch_npm "${axe_core[@]}" || true
	AXE=$build/axe-core/axe.min.js run_pytest default "$top/tests/browser" -n 3
	# How long the page takes, and the icicle of a profile.
	grep -h -o 'name="\(refresh\|icicle\)_ms" value="[^"]*"' "$results/$suite/default.xml" || true
}
