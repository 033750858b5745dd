#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Which rooms look into whose structs: boundaries.py ROOT OPTION...

OPTIONs are the compiler's. Prints a line `path:line: sentence` for each breach, then a figure. The exit status is 1
where a rule is broken.

The rules: a struct that a function frees or releases is an object, and its members are known to its own room alone; but
for those that OPEN names, plain data that everybody reads and only the named rooms write, and those that VALUES names.
Other structs are values: who has one may do with it as he likes. A name in these tables that is of no use is a breach,
too.
"""

import os
import re
import sys
from collections import namedtuple
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from clang import cindex
from rules import room_of

# Values that own memory, and so have a function that releases it: tools, settings, messages.
VALUES = {
    "base/util/buf.h": "buf",
    "base/util/blob.h": "blob",
    "base/util/cpulist.h": "cpulist",
    "base/util/channel.h": "message",
    "base/util/rewrite.h": "rewrite",
    "base/config/list.h": "config_list config_text config_place",
    "base/config/capture-rule.h": "capture_rule",
    "base/host/cpu.h": "cpu_topology",
    "counting/event/event.h": "event event_list",
    "counting/plan/plan.h": "group group_list tried",
    "counting/world/world.h": "cgroup_changes",
    "profiler/protocol.h": "profile_question profiler_state profiler_settings told_cgroups capture_order",
    "service/persist/listen-fds.h": "listen_fds",
    "web/api/response.h": "response",
    "web/api/route.h": "route_question",
    "web/api/rendering.h": "rendering",
    "service/cli/options.h": "options",
}

# Plain data that all rooms read, by header; and the rooms that write it, beside its own.
OPEN = {
    # The config, the plan, the rows of totals, the snapshot.
    "base/config/settings.h": ("config", ""),
    # Writers of a plan: the planner makes it with the engines, which try its events.
    "counting/plan/plan.h": ("plan scope_plan column set", "counting/engine counting/session"),
    "counting/plan/pmu-counters.h": ("pmu_counters pmu_counters_list", "counting/engine counting/session"),
    "counting/totals/rows.h": ("totals totals_row totals_cell totals_times totals_rate", ""),
    "counting/snapshot/snapshot.h": ("snapshot snapshot_table snapshot_row snapshot_column", ""),
    # Facts, as they were found on the machine.
    "base/elf/module.h": ("module", ""),
    "base/cgroup/identity.h": ("cgroup_identity", ""),
    "base/cgroup/mount.h": ("cgroup_mount", ""),
    "counting/event/catalog/pmu.h": ("pmu_catalogue pmu", ""),
    "counting/world/machine.h": ("machine", ""),
    # Items of lists that are closed.
    "counting/history/history.h": ("history_row history_slot", ""),
    "counting/alarm/capture-rules.h": ("watched_rule", ""),
    # A cgroup has members for the owner of its tree, who decides which cgroups are counted.
    "base/cgroup/node.h": ("cgroup", "counting/world"),
    # An interface: engines are called through their ops.
    "counting/engine/engine.h": ("engine", ""),
    # Its owner bounds it, and tells how many files were missed.
    "counting/engine/stored.h": ("stored_pool", ""),
}

# Functions that end the life of a struct.
ENDS = "free|unref|release|close"

Use = namedtuple("Use", "path line struct member header writes")

KIND = cindex.CursorKind
INSIDE = (KIND.PAREN_EXPR, KIND.UNEXPOSED_EXPR, KIND.ARRAY_SUBSCRIPT_EXPR)
CHANGES = ("++", "--")


def below(cursor, root):
    """The path below daemon/ of where that stands, or None."""
    if not cursor or not cursor.location.file:
        return None
    path = os.path.realpath(cursor.location.file.name)
    folder = f"{root}/daemon/"
    return path.removeprefix(folder) if path.startswith(folder) else None


def operator_of(cursor):
    """Of an expression with two sides, the sign between them."""
    left = next(cursor.get_children())
    return next((token.spelling for token in cursor.get_tokens()
                 if token.extent.start.offset >= left.extent.end.offset), "")


def is_written(cursor):
    """Does the expression write its first operand?"""
    if cursor.kind == KIND.BINARY_OPERATOR:
        return operator_of(cursor) == "="
    if cursor.kind == KIND.UNARY_OPERATOR:
        # A macro's have none.
        tokens = [token.spelling for token in cursor.get_tokens()] or [""]
        return tokens[0] in CHANGES or tokens[-1] in CHANGES
    return cursor.kind == KIND.COMPOUND_ASSIGNMENT_OPERATOR


def written_member(cursor):
    """The member that an expression writes, or None."""
    if not is_written(cursor):
        return None
    cursor = next(cursor.get_children())
    while cursor.kind in INSIDE:
        cursor = next(cursor.get_children())
    return cursor if cursor.kind == KIND.MEMBER_REF_EXPR else None


def uses_in(cursor, root, written):
    """The members of structs of other rooms that are used. written: places of members that are written."""
    member = written_member(cursor)
    if member:
        written.add(member.extent.end.offset)
    if cursor.kind == KIND.MEMBER_REF_EXPR:
        path, header = below(cursor, root), below(cursor.referenced, root)
        if path and header and room_of(path) != room_of(header):
            yield Use(path, cursor.location.line, cursor.referenced.semantic_parent.spelling, cursor.spelling, header,
                      cursor.extent.end.offset in written)
    for child in cursor.get_children():
        yield from uses_in(child, root, written)


def uses_of(job):
    """Of a source, and of the functions in the headers that it includes."""
    path, root, options = job
    unit = cindex.Index.create().parse(path, args=options)
    wrong = [str(note) for note in unit.diagnostics if note.severity >= cindex.Diagnostic.Error]
    if wrong:
        raise SystemExit("\n".join(wrong))
    written = set()
    return {use for top in unit.cursor.get_children() if below(top, root) for use in uses_in(top, root, written)}


def find_objects(root):
    """Names of structs that a function frees or releases."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in (root / "daemon").rglob("*.h"))
    return {match[1] for match in re.finditer(rf"\b(\w+)_(?:{ENDS})\(struct (\w+) \*", text) if match[1] == match[2]}


def breaches(uses, objects, value_table, open_table):
    """Sentences on the uses and on the tables."""
    values = {(header, struct) for header, structs in value_table.items() for struct in structs.split()}
    table = {(header, struct): writers.split() for header, (structs, writers) in open_table.items()
             for struct in structs.split()}
    for use in sorted(uses):
        key, place = (use.header, use.struct), f"daemon/{use.path}:{use.line}"
        if use.writes and room_of(use.path) not in table.get(key, [room_of(use.path)]):
            yield f"{place}: writes {use.member} of struct {use.struct} ({use.header}), which its room does"
        elif use.struct in objects and key not in values and key not in table:
            yield f"{place}: knows {use.member} of struct {use.struct} ({use.header}), which its room alone knows"
    used = {(use.header, use.struct) for use in uses}
    for header, struct in sorted((values | set(table)) - used):
        yield f"daemon/{header}:1: struct {struct} is open, and no other room looks into it"
    written = {(use.header, room_of(use.path)) for use in uses if use.writes and (use.header, use.struct) in table}
    for header, (_, writers) in open_table.items():
        for room in writers.split():
            if (header, room) not in written:
                yield f"daemon/{header}:1: {room} may write its structs, and does not"


def main():
    root, options = Path(sys.argv[1]).resolve(), sys.argv[2:]
    paths = [path for path in sorted((root / "daemon").rglob("*.c")) if not path.name.endswith((".bpf.c", "-data.c"))]
    with ProcessPoolExecutor() as pool:
        uses = set().union(*pool.map(uses_of, [(str(path), str(root), options) for path in paths], chunksize=4))
    found = list(breaches(uses, find_objects(root), VALUES, OPEN))
    print("\n".join([*found, f"{len(found)} breaches of boundaries; rooms look into structs of others at "
                             f"{len({(use.path, use.line, use.struct) for use in uses})} places"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
