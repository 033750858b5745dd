# SPDX-License-Identifier: MIT
#
# In which order suites run, and which side by side. Part of ./dev.
#
# Most of the time of the suites that watch a daemon is waiting, but what they measure depends on the clock: they run
# one after the other at normal priority. CPU-bound suites run beside them at idle priority, and get what the others
# leave. Suites that tolerate a busy machine run together after that, and those that measure the whole daemon, alone on
# the machine, come last.
# shellcheck shell=bash

suites_computing=(lint unit clang distcheck fuzz guest)
suites_watching=(service hardware system)
suites_together=(nspawn container web waiting minute)
suites_last=(soak browser)
all_suites=("${suites_computing[@]}" "${suites_watching[@]}" "${suites_together[@]}" "${suites_last[@]}")

# run_suite SUITE: with its results in a fresh folder. Never fails itself.
run_suite()
{
	local suite=$1 start=$SECONDS status

	say "$suite"
	rm -rf "${results:?}/$suite"
	mkdir -p "$results/$suite"
	set +e
	(
		set -e
		"suite_$suite"
	)
	status=$?
	[ $status -eq 0 ] || record FAIL "$suite" "it ended with status $status"
	set -e
	echo "$suite: $((SECONDS - start)) s"
}

run_suites()
{
	local suite

	for suite; do
		run_suite "$suite"
	done
}

# run_together SUITE...: side by side, and shows their output one after the other.
run_together()
{
	local suite pids=()

	for suite; do
		run_suite "$suite" >"$results/$suite.log" 2>&1 &
		pids+=($!)
	done
	wait "${pids[@]}"
	for suite; do
		cat "$results/$suite.log"
	done
}

# All suites.
test_all()
{
	local tree computing

	mkdir -p "$results"
	# First what several suites need, so that they do not build it twice at once.
	say "building"
	for tree in default asan; do
		quietly "$results/build-$tree.log" build_tree "$tree" all test-programs
	done
	{
		chrt --idle --pid 0 "$BASHPID" || true
		run_suites "${suites_computing[@]}"
	} >"$results/computing.log" 2>&1 &
	computing=$!
	run_suites "${suites_watching[@]}"
	run_together "${suites_together[@]}"
	wait "$computing"
	cat "$results/computing.log"
	run_together "${suites_last[@]}"
}
