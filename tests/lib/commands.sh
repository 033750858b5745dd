# SPDX-License-Identifier: MIT
#
# The commands: cmd_NAME is what `./dev NAME` runs. Part of ./dev, whose help says what each does.
# shellcheck shell=bash

where_to_look()
{
	cat <<'EOF'

perfmond will listen on http://127.0.0.1:9753 until it is stopped with ^C. Where to look:

  curl -s http://127.0.0.1:9753/metrics | grep context_switches
  curl -s 'http://127.0.0.1:9753/api/v1/snapshot?scope=cgroup&sort=context_switches&limit=5'
  curl -s http://127.0.0.1:9753/api/v1/events

EOF
	if [ ! -d /sys/kernel/tracing/events ] && [ ! -d /sys/kernel/debug/tracing/events ]; then
		echo "Tracepoints need tracefs: mount -t tracefs nodev /sys/kernel/tracing"
	fi
	if [ "$(id -u)" -ne 0 ]; then
		echo "Without privileges it counts what the kernel allows: build/default/perfmond --check says what."
	fi
}

cmd_run()
{
	need "${packages_build[@]}"
	build_tree default
	[ $# -gt 0 ] || where_to_look
	exec "$build/default/perfmond" "$@"
}

cmd_build()
{
	need "${packages_build[@]}"
	build_tree default
}

cmd_test()
{
	local suite suites=("$@")

	[ $# -gt 0 ] || suites=("${all_suites[@]}")
	for suite in "${suites[@]}"; do
		[ "$(type -t "suite_$suite")" = function ] || die "no suite '$suite'; there are: ${all_suites[*]}"
	done
	need "${packages_test[@]}"
	if [ $# -gt 0 ]; then
		run_suites "${suites[@]}"
	else
		test_all
	fi
	say "results"
	exec "$python" "$top/tests/lib/summary.py" "$results" "${suites[@]}"
}

cmd_bench()
{
	need "${packages_test[@]}"
	build_tree default all benchmarks
	"$build/default/tests/bench/bench-read"
	"$build/default/tests/bench/bench-tree"
	"$python" "$top/tests/bench/crediting.py" "$build/default"
	"$python" "$top/tests/bench/profiles.py" "$build/default/perfmond"
	fetch prometheus-node-exporter
	exec "$python" "$top/tests/bench/bench.py" "$build/default/perfmond" \
		"$build/prometheus-node-exporter/usr/bin/prometheus-node-exporter" "$@"
}

cmd_fuzz()
{
	local fuzzer

	need "${packages_test[@]}"
	build_tree fuzz fuzzers
	for fuzzer in "$top"/tests/fuzz/fuzz-*.c; do
		fuzz "$(basename "$fuzzer" .c)" "${1:-60}"
	done
}

cmd_soak()
{
	need "${packages_test[@]}"
	build_tree default perfmond tests/system/work
	soak "$@"
}

# All checks, also after one has failed.
cmd_lint()
{
	local name status=0 ended

	need "${packages_lint[@]}"
	say "clang, warnings are errors"
	build_tree clang all test-programs
	for name in "${lint_checks[@]}"; do
		say "${name//_/-}"
		ended=0
		("lint_$name") || ended=$?
		[ "$ended" -eq 0 ] || [ "$ended" -eq 77 ] || status=1
	done
	return $status
}

cmd_package()
{
	need "${packages_build[@]}" "${packages_package[@]}" libcmocka-dev
	make_tarball "$build/tarball"
	debian_package "$build"/tarball/perfmond-*.tar.xz "$build/package"
	say "built"
	ls "$build"/package/*.deb
}

cmd_emulate()
{
	local out=$results/emulate

	mkdir -p "$out"
	get_guest "$build/guest"
	get_guest "$build/guest-tests" "${packages_guest_tests[@]}"
	build_tree arm64 perfmond tests/system/work
	GUEST=$build/guest-tests PERFMOND=$build/arm64/perfmond WORK=$build/arm64/tests/system/work \
		PYTHONDONTWRITEBYTECODE=1 "$python" "$top/tests/guest/hardware.py" "$out" "$@"
}

cmd_screenshot()
{
	local suite=screenshot

	need "${packages_test[@]}" "${packages_browser[@]}"
	mkdir -p "$results/$suite"
	build_tree default perfmond tests/system/work
	SCREENSHOTS=$top/doc run_pytest default "$top/tests/browser/picture.py"
}

cmd_coverage()
{
	local suite=coverage

	need "${packages_test[@]}"
	fetch prometheus
	# From scratch: gcov's notes of files that are gone would be in the report.
	rm -rf "${results:?}/$suite" "$build/coverage"
	build_tree coverage all
	unit_tests coverage
	system_tests coverage "$top/tests/system"
	(cd "$build/coverage" && gcovr --root "$top" --filter "$top/daemon/" --object-directory . \
		--html-details index.html --print-summary --sort-uncovered .)
	echo "the report: build/coverage/index.html"
	"$python" "$top/tests/lib/summary.py" "$results" "$suite"
}

cmd_clean()
{
	rm -rf "$build" "$top/build-aux" "$top/autom4te.cache"
	(cd "$top" && rm -f aclocal.m4 configure configure~ Makefile.in sources.am)
}
