# SPDX-License-Identifier: MIT
#
# How tests are run and how they report. Part of ./dev.
#
# A suite leaves its results in build/results/SUITE: XML of cmocka and pytest, and automake's .trs files, which record()
# writes as well; logs stand beside them. $suite is the one that runs. summary.py adds all of them up. A test that fails
# is no error here; a suite that can't run its tests returns one.
# shellcheck shell=bash

# record PASS|FAIL|SKIP WHAT [WHY]
record()
{
	printf ':test-result: %s %s%s\n' "$1" "$2" "${3:+ - $3}" >>"$results/$suite/$suite.trs"
}

# quietly LOG COMMAND...: writes the output into a file, and shows its end where the command fails. Call it as a command
# of its own: in a condition bash ignores `set -e`.
quietly()
{
	local log=$1 status

	shift
	mkdir -p "$(dirname "$log")"
	set +e
	(
		set -e
		"$@"
	) >"$log" 2>&1 </dev/null
	status=$?
	if [ "$status" -ne 0 ]; then
		echo "-- exit status $status of: $*; the end of $log:"
		tail -n 60 "$log"
	fi
	set -e
	return "$status"
}

# check WHAT COMMAND...: a test that is one command. With exit status 77 it is skipped, and the last line of its output
# is the reason. Never fails itself.
check()
{
	local what=$1 status

	shift
	set +e
	(
		set -e
		quietly "$results/$suite/${what// /-}.log" "$@"
	)
	status=$?
	set -e
	if [ "$status" -eq 0 ]; then
		record PASS "$what"
	elif [ "$status" -eq 77 ]; then
		record SKIP "$what" "$(tail -n 1 "$results/$suite/${what// /-}.log")"
	else
		record FAIL "$what" "build/results/$suite/${what// /-}.log"
	fi
}

# unit_tests TREE: make check, with the results of each case, in a folder for each room.
unit_tests()
{
	local dir=$build/$1 out=$results/$suite/$1

	mkdir -p "$out"
	quietly "$out/build.log" build_tree "$1" all test-programs
	find "$dir/tests/unit" \( -name '*.trs' -o -name '*.log' \) -delete
	# Failures are in the .trs files.
	UNIT_RESULTS=$out make -s -C "$dir" -j"$jobs" check-TESTS </dev/null || true
	(cd "$dir/tests/unit" && find . -name '*.trs' -exec cp --parents -t "$out" {} +)
}

# run_pytest TREE TESTS... [OPTION...]: failed tests (status 1) are in the XML; any other status is an error.
run_pytest()
{
	local tree=$1 status=0 temp

	shift
	# A folder of its own: in /tmp/pytest-of-USER each pytest that starts removes others' access, and the daemons of
	# some tests run as another user.
	temp=$(mktemp -d /tmp/pm.XXXXXX)
	chmod 755 "$temp"
	PERFMOND=$build/$tree/perfmond WORK=$build/$tree/tests/system/work PROMETHEUS=$build/prometheus/usr/bin \
		PYTEST_DEBUG_TEMPROOT=$temp PYTHONDONTWRITEBYTECODE=1 "$python" -m pytest -q -p no:cacheprovider \
		--rootdir="$top/tests" -o junit_family=xunit1 --junitxml="$results/$suite/$tree.xml" "$@" </dev/null ||
		status=$?
	[ "$status" -ne 0 ] || rm -rf "$temp"
	[ "$status" -le 1 ]
}

# system_tests TREE TESTS... [OPTION of pytest...]: against the daemon in build/TREE.
system_tests()
{
	local tree=$1

	shift
	quietly "$results/$suite/$tree.build.log" build_tree "$tree" perfmond tests/system/work
	run_pytest "$tree" "$@"
}

# fuzz FUZZER SECONDS: starts from the corpus and from what earlier runs have found.
# An input that hangs is a failure; the clock for that goes on while the fuzzer, at idle priority, waits for a CPU.
fuzz()
{
	local name=$1 found=$build/fuzz/corpus/$1

	mkdir -p "$found"
	"$build/fuzz/tests/fuzz/$name" -max_total_time="$2" -timeout=60 -print_final_stats=1 \
		-artifact_prefix="$build/fuzz/$name-" "$found" "$top/tests/fuzz/corpus/${name#fuzz-}"
}

# soak [OPTION...]: the daemon in build/default.
soak()
{
	PERFMOND=$build/default/perfmond WORK=$build/default/tests/system/work PYTHONDONTWRITEBYTECODE=1 \
		"$python" "$top/tests/soak/soak.py" "$@"
}
