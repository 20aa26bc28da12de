#!/usr/bin/env python3
"""Makes a Markdown table of the contract suite, promise by transport, from what a run of it printed.

    cargo test -p tautline --test contract | tools/contract_table.py

A row is a file of the suite with the promise that its head names; a cell says how many tests passed there
on that transport, and names each that failed. Exit status: 0 all passed, 1 a test failed or was left out, 2 the
input has no test in it.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

SUITE = Path(__file__).resolve().parent.parent / "crates/tautline/tests/contract"
RESULT = re.compile(r"^test (?P<file>\w+)::(?P<test>[\w:]+) \.\.\. (?P<outcome>ok|FAILED|ignored)")
TRANSPORTS = ["tcp", "uds", "udp", "serial", "tls"]


def main(arguments):
    if arguments:
        print(__doc__)
        return 0 if arguments[0] in ("-h", "--help") else 2
    cells = defaultdict(lambda: defaultdict(list))
    for line in sys.stdin:
        result = RESULT.match(line)
        if result:
            test = result["test"].split("::")
            transport = test[-1] if test[-1] in TRANSPORTS else "any"
            cells[result["file"]][transport].append((test[0], result["outcome"]))
    if not cells:
        print("no line of the input is a test of the suite", file=sys.stderr)
        return 2
    columns = [t for t in [*TRANSPORTS, "any"] if any(t in row for row in cells.values())]
    print("| promise | file | " + " | ".join(columns) + " |")
    print("|---|---|" + "---:|" * len(columns))
    for file in sorted(cells, key=lambda file: (first_number(file), file)):
        row = (cell(cells[file][column]) for column in columns)
        print(f"| {promise(file)} | {file} | " + " | ".join(row) + " |")
    outcomes = [o for row in cells.values() for cell_ in row.values() for _, o in cell_]
    passed = outcomes.count("ok")
    print(f"\n{passed} of {len(outcomes)} passed.")
    return 0 if passed == len(outcomes) else 1


def cell(tests):
    """Passed tests by number, others by name."""
    if not tests:
        return ""
    passed = sum(outcome == "ok" for _, outcome in tests)
    others = [f"{name} {outcome}" for name, outcome in tests if outcome != "ok"]
    return ", ".join([str(passed), *others])


def promise(file):
    """The first sentence of the file's head: "Promise 6: accounting closes, at every moment."."""
    source = SUITE / f"{file}.rs"
    head = []
    for line in source.read_text().splitlines() if source.exists() else []:
        if not line.startswith("//!"):
            break
        head.append(line[3:].strip())
    sentence = re.split(r"(?<=\.)\s", " ".join(head))[0]
    return sentence.removesuffix(".").replace("|", "\\|")


def first_number(file):
    found = re.search(r"[Pp]romises? (\d+)", promise(file))
    return int(found[1]) if found else 99


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
