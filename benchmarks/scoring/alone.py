"""Runs in a process of its own: scores the texts of a job from memory, without reading or writing.

It reads its share of the units, says `ready`, waits for a line, and prints what it took as JSON.
"""

import json
import sys
import time

from scoring.output.manifest import Manifest
from scoring.reading import UnitReader
from scoring.scorer import Scorer


def main() -> None:
    """Measures one share; the arguments are manifest, checkpoint, type, place, shares, threads."""
    path, checkpoint, dtype, place, shares, threads = sys.argv[1:]
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - imports nothing more
        manifest = Manifest.model_validate_json(file.read())
    reader = UnitReader(manifest)
    units = [reader.read(unit).texts for unit in manifest.units[int(place) :: int(shares)]]
    reader.close()
    scorer = Scorer(checkpoint, dtype=dtype, device="cpu", threads=int(threads))
    scorer.score(units[0])
    print("ready", flush=True)  # noqa: T201 - the parent reads it
    sys.stdin.readline()
    encoding = passes = 0.0
    for texts in units:
        began = time.perf_counter()
        encoded = scorer.encode(texts)
        between = time.perf_counter()
        scorer.answer(*encoded)
        encoding += between - began
        passes += time.perf_counter() - between
    rows = sum(map(len, units))
    print(json.dumps({"rows": rows, "encoding": encoding, "passes": passes}))  # noqa: T201


if __name__ == "__main__":
    main()
