# SPDX-License-Identifier: MIT
#
# Prints how the programs of tests and fuzzers are linked, as variables for automake. Its input is their sources and
# those of the set-ups (tests/unit/setup).
#
# A test or a set-up takes the place of a function f() by defining __wrap_f() (ld(1)). Each program is linked with
# --wrap=f for those of its own source and of the set-ups that it includes, directly or through others. X.h and X.c are
# one set-up.

FNR == 1 {
	unit = FILENAME
	sub(/\.[ch]$/, "", unit)
	if (unit ~ /\/(test|fuzz)-[^\/]*$/)
		programs[++nr_programs] = unit
}
/^#include "setup\// {
	split($0, part, "\"")
	sub(/\.h$/, "", part[2])
	includes[unit] = includes[unit] " tests/unit/" part[2]
}
/__wrap_/ {
	for (rest = $0; match(rest, /__wrap_[A-Za-z0-9_]+/); rest = substr(rest, RSTART + RLENGTH))
		wraps[unit] = wraps[unit] " " substr(rest, RSTART + 7, RLENGTH - 7)
}
# Adds those of a unit, and of all that it includes, to flags.
function collect(unit,    names, units, nr, i) {
	if (unit in seen)
		return
	seen[unit]
	nr = split(wraps[unit], names)
	for (i = 1; i <= nr; i++)
		if (!(names[i] in flagged)) {
			flagged[names[i]]
			flags = flags " -Wl,--wrap=" names[i]
		}
	nr = split(includes[unit], units)
	for (i = 1; i <= nr; i++)
		collect(units[i])
}
END {
	for (n = 1; n <= nr_programs; n++) {
		split("", seen)
		split("", flagged)
		flags = ""
		collect(programs[n])
		name = programs[n]
		is_fuzzer = sub(/^tests\/fuzz\//, "tests/fuzz/", name)
		gsub(/[\/-]/, "_", name)
		if (is_fuzzer)
			print name "_LDADD = libtesting.a $(DAEMON_LIBS)"
		if (is_fuzzer || flags != "")
			print name "_LDFLAGS = " (is_fuzzer ? "$(WITH_LIBFUZZER)" : "$(AM_LDFLAGS)") flags
	}
}
