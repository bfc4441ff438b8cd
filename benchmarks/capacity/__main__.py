"""Says how many replicas a load needs, what they cost, and how long answers take.

The figures come from a simulation of one replica, with costs that were measured on one machine,
corrected by what the real service took there. docs/guides/capacity.md tells both.
"""

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.capacity import record
from benchmarks.capacity.agreement import agreement, corrected
from benchmarks.capacity.curve import draw_curve
from benchmarks.capacity.plan import HOURS_OF_A_MONTH, Plan, plan
from benchmarks.capacity.record import MEASURED
from benchmarks.errors import BenchmarkError
from model.cli.arguments import LineParser, number, positive

_LEAST_TOKENS, _MOST_TOKENS = 3, 512
_MILLISECONDS = 1000


def _above_zero(text: str) -> float:
    value = number(text)
    if not (0 < value < math.inf):
        raise argparse.ArgumentTypeError(f"must be a number above 0, got {text!r}")
    return value


def _price(text: str) -> float:
    value = number(text)
    if not (0 <= value < math.inf):
        raise argparse.ArgumentTypeError(f"must be a number of at least 0, got {text!r}")
    return value


def _share(text: str) -> float:
    value = number(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 0 and below 1, got {text!r}")
    return value


def _tokens(text: str) -> int:
    value = positive(text)
    if not _LEAST_TOKENS <= value <= _MOST_TOKENS:
        raise argparse.ArgumentTypeError(
            f"must be from {_LEAST_TOKENS} to {_MOST_TOKENS}, got {text!r}"
        )
    return value


def parser() -> argparse.ArgumentParser:
    """Builds the parser of the command line."""
    options = LineParser(prog="benchmarks.capacity", description=__doc__, allow_abbrev=False)
    options.add_argument(
        "--rate", type=_above_zero, required=True, help="sentences a second, one in each request"
    )
    options.add_argument(
        "--p99",
        type=_above_zero,
        required=True,
        metavar="MS",
        help="milliseconds within which 99 %% of the answers must come",
    )
    options.add_argument(
        "--tokens",
        type=_tokens,
        default=25,
        help="of each sentence, special tokens included (default: %(default)s)",
    )
    options.add_argument(
        "--dtype", help="of the passes (default: that of the service where it was measured)"
    )
    options.add_argument(
        "--headroom",
        type=_share,
        default=0.3,
        metavar="SHARE",
        help="of what a replica can answer, kept free (default: %(default)s)",
    )
    options.add_argument(
        "--price-per-hour",
        type=_price,
        default=0.1,
        metavar="PRICE",
        help="of the machine of one replica, in any currency; the default is an example, "
        "no provider's price (default: %(default)s)",
    )
    options.add_argument(
        "--measured",
        type=Path,
        default=MEASURED,
        metavar="FILE",
        help="what make capacity wrote (default: what ships)",
    )
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the plan.

    Args:
        arguments: of the command line; those of the process if None.

    Returns:
        0 if there is a plan; 1 if not, with the reason on stderr.
    """
    given = parser().parse_args(arguments)
    try:
        measured = record.read(given.measured)
        replica = record.modelled(measured, given.dtype or measured.dtype)
        curve = corrected(draw_curve(replica, [given.tokens]), agreement(measured))
        found = plan(curve, rate=given.rate, p99=given.p99 / _MILLISECONDS, headroom=given.headroom)
    except BenchmarkError as error:
        sys.stderr.write(f"benchmarks.capacity: {error}\n")
        return 1
    dtype = given.dtype or measured.dtype
    print(f"{given.rate:,.10g} sentences a second of {given.tokens} tokens, in {dtype}:\n")
    for name, value in _lines(found, replica.cores, curve.capacity, given.price_per_hour):
        print(f"{name:<26}{value}")
    print(f"\nMeasured {measured.date}. {measured.machine}")
    return 0


def _lines(found: Plan, cores: int, capacity: float, price: float) -> Sequence[tuple[str, str]]:
    hourly = found.replicas * price
    return (
        ("replicas", f"{found.replicas:,}"),
        ("cores", f"{found.replicas * cores:,} ({cores} for each replica)"),
        (
            "sentences a second",
            f"{found.rate:,.0f} for each replica, of {capacity:,.0f} that it can answer",
        ),
        ("utilisation", f"{found.utilisation:.0%}"),
        ("predicted p50", f"{found.p50 * _MILLISECONDS:.1f} ms"),
        ("predicted p99", f"{found.p99 * _MILLISECONDS:.1f} ms"),
        (
            "price of a month",
            f"{hourly * HOURS_OF_A_MONTH:,.0f} (at {price:g} an hour for each replica)",
        ),
    )


if __name__ == "__main__":
    sys.exit(main())
