"""Run the ONNX standard's node tests and say what came of them.

scripts/onnx_coverage.py                 all cases; the summary
scripts/onnx_coverage.py -k softmax -v   the cases with that in their names, one a line
scripts/onnx_coverage.py --write         all cases; writes docs/onnx_coverage.md
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from pathlib import Path

_STRIDE = 12
ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))


def main() -> int:
    """Print the outcomes; return 1 where a case was neither passed nor refused."""
    from onnx_standard.cases import load_cases
    from onnx_standard.kept import ForeignOutcomesError, KeptOutcomes, compiler_state
    from onnx_standard.outcome import Status
    from onnx_standard.pool import run_cases
    from onnx_standard.report import write_report

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "-k", metavar="REGEX", default="", help="only cases with that in their name"
    )
    parser.add_argument("-v", action="store_true", help="print every case that didn't pass")
    parser.add_argument("--workers", type=int, default=0, help="processes (default: one a core)")
    parser.add_argument(
        "--resume",
        type=Path,
        metavar="FILE",
        help="keep the outcomes there, one a line, and leave out the cases that it has; "
        "a file of another state of the compiler is refused",
    )
    parser.add_argument("--write", action="store_true", help="write docs/onnx_coverage.md")
    options = parser.parse_args()
    if options.write and options.k:
        parser.error("--write is of all cases")
    cases = load_cases()
    names = [name for name in cases if re.search(options.k, name)]
    try:
        kept = KeptOutcomes(options.resume, compiler_state()) if options.resume else None
    except ForeignOutcomesError as err:
        parser.error(str(err))
    outcomes = [each for each in kept.outcomes if each.name in names] if kept else []
    known = {outcome.name for outcome in outcomes}
    names = [name for name in names if name not in known]
    # In strides, so that what is known after a while is of all operators.
    names = [name for first in range(_STRIDE) for name in names[first::_STRIDE]]
    for outcome in run_cases(names, workers=options.workers) if names else ():
        outcomes.append(outcome)
        if kept:
            kept.add(outcome)
        if options.v and outcome.status is not Status.PASSED:
            print(f"{outcome.name}: {outcome.status.value}: {outcome.reason}", flush=True)
    for kind in (True, False):
        counts = Counter(o.status.value for o in outcomes if cases[o.name].counted is kind)
        print("counted:" if kind else "others: ", dict(counts), sum(counts.values()))
    if options.write:
        write_report(ROOT / "docs" / "onnx_coverage.md", cases, outcomes)
    good = (Status.PASSED, Status.REFUSED)
    return int(any(outcome.status not in good for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
