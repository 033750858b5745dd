# SPDX-License-Identifier: MIT
#
# The checks of the sources themselves. Part of ./dev: the suite `lint` records one result for each, ./dev lint shows
# their output.
#
# A check is a function lint_NAME; exit status 77 skips it, with the reason as its last line. The warnings of clang are
# not among them: the suite `clang` builds with -Werror.
# shellcheck shell=bash

lint_checks=(clang_tidy clang_format shellcheck rules rules_tests manual)

# Of clang-format, another version formats otherwise.
clang_format_version=14

# The most steps that clang's analyzer takes in a function. With its default (225000) clang-tidy takes five times as
# long, to follow more paths through the functions that have many.
analyzer_steps=20000

has_program()
{
	command -v "$1" >/dev/null || {
		echo "no $1 on this machine"
		return 77
	}
}

# c_files PATTERN FOLDER...: the paths, with a NUL after each. page-data.c, openapi-data.c and skeletons are made.
c_files()
{
	local pattern=$1

	shift
	find "${@/#/$top/}" -name "$pattern" ! -name '*-data.c' ! -name '*.skel.h' -print0
}

# The sources that the compiler of the daemon can read, for xargs: BPF programs are for another one. The BPF engine
# includes a skeleton, which is made where there is all that it takes.
tidy_files()
{
	if [ -e "$build/default/daemon/engine/bpf/credit.skel.h" ]; then
		c_files '*.c' daemon | grep -zv '\.bpf\.c$'
	else
		c_files '*.c' daemon | grep -zv '/engine/bpf/'
	fi
}

# A line for each finding; on standard error clang-tidy only counts what it left out.
lint_clang_tidy()
{
	local mount

	has_program clang-tidy || return
	mount=$(pkg-config --cflags-only-I mount)
	build_tree default skeletons
	# shellcheck disable=SC2086 # $mount is several words
	tidy_files | xargs -0 -P "$jobs" -I{} clang-tidy --quiet {} -- -std=gnu17 \
		-D_GNU_SOURCE -DPACKAGE_VERSION='""' -DSYSCONFDIR='""' \
		-DBUILD_REVISION='""' -DBUILD_FEATURES='""' -I"$top/daemon" $mount \
		-I"$build/default/daemon" \
		-Xclang -analyzer-config -Xclang "max-nodes=$analyzer_steps" 2>/dev/null
}

lint_clang_format()
{
	local version

	has_program clang-format || return
	version=$(clang-format --version | sed 's/.*version \([0-9]*\).*/\1/')
	if [ "$version" != "$clang_format_version" ]; then
		echo "the tree is formatted with clang-format $clang_format_version, and this one is $version"
		return 77
	fi
	c_files '*.[ch]' daemon tests | xargs -0 clang-format --dry-run -Werror
}

# Through dev it sees all parts of ./dev (.shellcheckrc).
lint_shellcheck()
{
	has_program shellcheck || return
	cd "$top"
	shellcheck dev .ci/run tests/unit/run tests/{guest,package}/fetch tests/guest/init tests/lib/list-sources \
		conf/completion/perfmond packaging/debian/{perfmond.postrm,perfmond.prerm,tests/service,tests/upgrade}
}

lint_rules()
{
	"$top/tests/lib/list-sources"
	PYTHONDONTWRITEBYTECODE=1 "$python" "$top/tests/lib/rules.py" "$top"
}

lint_rules_tests()
{
	PYTHONDONTWRITEBYTECODE=1 "$python" -m pytest -q -p no:cacheprovider --rootdir="$top/tests" "$top/tests/lib"
}

# The manual pages and completion: mandoc's, groff's and man's warnings, and whether they are complete.
lint_manual()
{
	build_tree default perfmond manual
	PERFMOND=$build/default/perfmond PYTHONDONTWRITEBYTECODE=1 "$python" -m pytest -q -p no:cacheprovider \
		--rootdir="$top/tests" "$top/tests/manual"
}
