# SPDX-License-Identifier: MIT
#
# In which order suites run, and which side by side. Part of ./dev.
#
# Most of the time of the suites that watch a daemon is waiting, but what they measure depends on the clock: they run
# one after the other at normal priority. CPU-bound suites run beside them at idle priority, and get what the others
# leave: first those that have time-outs of their own. Suites that tolerate a busy machine come after that, side by side
# as far as they leave some of the CPUs.
# shellcheck shell=bash

suites_computing=(lint package guest unit clang distcheck fuzz)
suites_watching=(service hardware container system sanitized soak)
suites_together=(nspawn waiting minute)
suites_beside=(web browser)
all_suites=("${suites_computing[@]}" "${suites_watching[@]}" "${suites_together[@]}" "${suites_beside[@]}")

# The CPU time of all that this shell has waited for, in seconds (proc(5): cutime and cstime, in hundredths).
waited_cpu()
{
	local stat

	read -ra stat <"/proc/$BASHPID/stat"
	REPLY=$(((stat[15] + stat[16]) / 100))
}

# run_suite SUITE: with its results in a fresh folder. Never fails itself.
run_suite()
{
	local suite=$1 start=$SECONDS status cpu

	waited_cpu
	cpu=$REPLY

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
	waited_cpu
	echo "$suite: $((SECONDS - start)) s, of a CPU $((REPLY - cpu)) s"
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
	local computing

	mkdir -p "$results"
	# The watching suites begin with this tree. The other one is built beside them, before one of them needs it.
	say "building"
	quietly "$results/build-default.log" build_tree default all test-programs
	{
		chrt --idle --pid 0 "$BASHPID" || true
		quietly "$results/build-asan.log" build_tree asan all test-programs
		run_suites "${suites_computing[@]}"
	} >"$results/computing.log" 2>&1 &
	computing=$!
	run_suites "${suites_watching[@]}"
	run_together "${suites_together[@]}"
	run_suites "${suites_beside[@]}"
	wait "$computing"
	cat "$results/computing.log"
}
