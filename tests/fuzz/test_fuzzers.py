# SPDX-License-Identifier: MIT
"""Each parser of foreign bytes survives all that a fuzzer thinks of in FUZZ_SECONDS (5)."""

import os
from pathlib import Path

import pytest

from tree import BUILD, TOP, build, check

pytestmark = pytest.mark.deep

FUZZERS = sorted(path.stem for path in Path(__file__).parent.glob("fuzz-*.c"))


@pytest.mark.parametrize("name", FUZZERS)
def test_a_fuzzer_finds_nothing(name):
    """It starts from the corpus and from what earlier runs have found. An input that hangs is a failure; the clock for
    that goes on while the fuzzer waits for a CPU."""
    folder, found = build("fuzz", "fuzzers"), BUILD / "fuzz/corpus" / name
    found.mkdir(parents=True, exist_ok=True)
    print(check(folder / "tests/fuzz" / name, f"-max_total_time={os.environ.get('FUZZ_SECONDS', 5)}", "-timeout=60",
                "-print_final_stats=1", f"-artifact_prefix={folder}/{name}-", found,
                TOP / "tests/fuzz/corpus" / name.removeprefix("fuzz-")))
