"""The model of a replica: known results of queueing theory, the service's rules, and bounds."""

import inspect
import math
import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.capacity import record, waiting
from benchmarks.capacity import replica as model
from benchmarks.capacity.agreement import Agreement, Excess, agreement, corrected
from benchmarks.capacity.arrivals import drawn, poisson
from benchmarks.capacity.costs import Cell, Cost, Passes, faults, fit
from benchmarks.capacity.curve import Curve, capacity, draw_curve
from benchmarks.capacity.plan import bulk_rate, plan
from benchmarks.capacity.replica import Replica, simulate
from benchmarks.capacity.waiting import Waiting
from benchmarks.errors import BenchmarkError
from model.backends.cpu_kernels import KernelBackend
from model.backends.eager import CpuBackend
from service.inference import admission, cost, scheduler, workers


def server(cost: Cost, *, cores: int = 1, deadline: float = math.inf) -> Replica:
    """A replica with one text in a pass, and nothing but passes."""
    passes = Passes(cost, cost, cost)
    return Replica(cores, passes, 0.0, deadline=deadline, max_batch_tokens=1)


MILLISECOND = Cost(0.001, 0.0, 0.0)
A_TOKEN = Cost(0.0, 0.001, 0.0)


@given(
    st.lists(
        st.tuples(st.floats(0, 0.01), st.integers(1, 12)),
        min_size=1,
        max_size=60,
    )
)
def test_one_text_a_pass_on_one_core_is_lindleys_recursion(
    requests: list[tuple[float, int]],
) -> None:
    moments, now = [], 0.0
    for gap, _ in requests:
        moments.append(now := now + gap)
    lengths = [length for _, length in requests]

    found = simulate(server(A_TOKEN), moments, lengths).latencies

    wait, expected = 0.0, []
    for place, length in enumerate(lengths):
        if place:
            gap = moments[place] - moments[place - 1]
            wait = max(0.0, wait + lengths[place - 1] / 1000 - gap)
        expected.append(wait + length / 1000)
    assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_the_mean_wait_is_that_of_m_d_1(load: float) -> None:
    count = 100_000
    found = simulate(server(MILLISECOND), poisson(load * 1000, count, seed=1), [1] * count)

    mean = sum(found.latencies) / count
    assert mean == pytest.approx(0.001 * (1 + load / (2 * (1 - load))), rel=0.05)
    assert found.busy == pytest.approx(load, rel=0.02)
    assert found.texts_per_pass == 1


def test_the_times_are_those_of_m_m_1() -> None:
    count, load = 100_000, 0.5
    chance = random.Random(3)
    lengths = [max(1, round(1000 * chance.expovariate(1))) for _ in range(count)]

    found = simulate(
        server(Cost(0.0, 1e-6, 0.0)), poisson(load * 1000, count, seed=2), lengths
    ).latencies

    # The time in the system is exponential, with the mean 1 / (service rate - arrival rate).
    mean = 0.001 / (1 - load)
    assert sum(found) / count == pytest.approx(mean, rel=0.05)
    for share in (0.5, 0.9, 0.99):
        assert sorted(found)[int(share * count)] == pytest.approx(
            -mean * math.log(1 - share), rel=0.1
        )


def test_two_cores_answer_twice_as_many() -> None:
    one = capacity(server(MILLISECOND), [1], requests=2_000)
    two = capacity(server(MILLISECOND, cores=2), [1], requests=2_000)

    assert one == pytest.approx(1000, rel=0.01)
    assert two == pytest.approx(2000, rel=0.01)


def test_loop_and_client_take_their_time_from_passes() -> None:
    passes = Passes(MILLISECOND, MILLISECOND, MILLISECOND)
    busy = Replica(1, passes, 0.0005, client=0.0005, max_batch_tokens=1, deadline=math.inf)

    assert capacity(busy, [1], requests=2_000) == pytest.approx(500, rel=0.01)


def test_an_idle_replica_takes_what_was_measured() -> None:
    passes = Passes(Cost(9.0, 0, 0), Cost(9.0, 0, 0), Cost(0.002, 0, 0))
    idle = Replica(2, passes, 0.001, unexplained=0.0005, client=0.0002)

    found = simulate(idle, [0.0, 1.0], [20, 20])

    assert found.latencies == pytest.approx([0.0037, 0.0037])
    assert (found.refused, found.late) == (0, 0)


def test_passes_that_run_beside_others_take_longer() -> None:
    passes = Passes(MILLISECOND, Cost(0.002, 0, 0), MILLISECOND)
    pair = Replica(2, passes, 0.0, max_batch_tokens=1, deadline=math.inf)

    # The first runs on all cores, as it is alone when it begins; the others share the cores.
    assert capacity(pair, [1], requests=1_000) == pytest.approx(1000, rel=0.01)


def test_a_replica_that_is_asked_too_much_refuses_the_rest() -> None:
    passes = Passes(MILLISECOND, MILLISECOND, MILLISECOND)
    small = Replica(1, passes, 0.0, deadline=1.0, max_batch_tokens=1)
    count = 40_000

    found = simulate(small, poisson(2000, count, seed=0), [1] * count)

    answered = [each for each in found.latencies if each < math.inf]
    assert found.refused + found.late + len(answered) == count
    assert found.refused / count == pytest.approx(0.5, abs=0.03)
    assert found.late == 0
    # What is admitted waits for 0.7 of its time at most.
    assert max(answered) == pytest.approx(0.7, abs=0.1)


def test_what_waits_past_its_deadline_is_dropped() -> None:
    passes = Passes(*[Cost(1.0, 0, 0)] * 3)
    # It takes a token for cheap until a pass has ended.
    slow = Replica(1, passes, 0.0, deadline=0.9, max_batch_tokens=10_000)

    found = simulate(slow, [0.0, 0.01], [5_000, 1])

    assert found.latencies == [pytest.approx(1.0), math.inf]
    assert (found.refused, found.late) == (0, 1)


@given(st.lists(st.integers(1, 600), min_size=1, max_size=80), st.integers(1, 600))
def test_batches_keep_to_the_limit_and_lose_no_text(lengths: list[int], limit: int) -> None:
    texts = Waiting(lengths)
    for number in range(len(lengths)):
        texts.add(number)

    taken: list[list[int]] = []
    while texts:
        oldest = min(set(range(len(lengths))) - {each for batch in taken for each in batch})
        batch = texts.take(limit)
        assert oldest in batch
        longest = max(lengths[each] for each in batch)
        assert len(batch) == 1 or longest * len(batch) <= limit
        taken.append(batch)

    assert sorted(each for batch in taken for each in batch) == list(range(len(lengths)))
    assert texts.tokens == 0


@given(st.lists(st.integers(1, 512), min_size=1, max_size=80), st.integers(16, 512))
def test_equal_ages_give_the_batches_of_the_service(lengths: list[int], limit: int) -> None:
    """Texts of requests of one sentence, which come one after the other, none of them urgent."""
    ours, theirs = Waiting(lengths), scheduler.Schedule[int](limit)
    for number, length in enumerate(lengths):
        ours.add(number)
        theirs.add([(number, length)], client=None, cost_per_token=0.0)

    while ours:
        assert ours.take(limit) == theirs.take()


def test_the_numbers_are_those_of_the_service() -> None:
    assert model.SHARE_OF_TIME == admission._SHARE_OF_TIME
    assert model.SPARE_REQUESTS == admission._SPARE_REQUESTS
    assert model.WORTH_SHARING_TOKENS == workers.WORTH_SHARING_TOKENS
    assert model.HORIZON_SECONDS == cost._HORIZON_SECONDS
    assert waiting.PASS_TOKENS == scheduler._PASS_TOKENS == cost._PASS_TOKENS
    assert waiting.PADDING_SHARE == scheduler._PADDING_SHARE
    assert waiting.BUCKETS_PER_DOUBLING == scheduler._BUCKETS_PER_DOUBLING
    sized = inspect.signature(Replica).parameters["max_batch_tokens"].default
    assert sized == CpuBackend.default_batch_tokens == KernelBackend.default_batch_tokens
    assert 1024 / 1.25**CpuBackend.niceness / 1024 == pytest.approx(model.NICED_WEIGHT, rel=0.01)


def cells(cost: Cost) -> list[Cell]:
    shapes = [(length, count) for length in (8, 32, 128, 512) for count in (1, 4)]
    seconds = [cost.seconds(length * count, length**2 * count) for length, count in shapes]
    return [
        Cell(*shape, taken, 2 * taken, taken / 2)
        for shape, taken in zip(shapes, seconds, strict=True)
    ]


@given(*(st.floats(scale / 10, scale) for scale in (1e-3, 1e-4, 1e-7)))
def test_a_fit_finds_the_cost_that_there_is(base: float, token: float, square: float) -> None:
    found = fit(cells(Cost(base, token, square)))

    for part, factor in ((found.one, 1), (found.busy, 2), (found.team, 0.5)):
        assert part.base == pytest.approx(factor * base, rel=1e-4)
        assert part.per_token == pytest.approx(factor * token, rel=1e-4)
        assert part.per_square == pytest.approx(factor * square, rel=1e-4)
    assert max(faults(cells(Cost(base, token, square)))) < 1e-4


def test_no_term_of_a_fit_is_negative() -> None:
    lengths = (8, 64, 512)
    # Less for each token in longer texts, which only a negative square would fit.
    found = fit([Cell(length, 1, *[length**0.5] * 3) for length in lengths]).one

    assert min(found.base, found.per_token, found.per_square) == 0
    assert found.seconds(64, 64**2) > 0


def test_a_fit_needs_three_lengths() -> None:
    with pytest.raises(BenchmarkError, match="texts of at least three lengths"):
        fit([Cell(8, 1, 1, 1, 1), Cell(16, 1, 1, 1, 1), Cell(16, 2, 1, 1, 1)])


CURVE = draw_curve(Replica(2, Passes(*[Cost(2e-4, 4e-5, 0)] * 3), 4e-4), [25], requests=2_000)


def test_a_curve_only_rises() -> None:
    for times in (CURVE.rates, CURVE.p50, CURVE.p99):
        assert all(before <= after for before, after in pairwise(times))
    assert CURVE.rates[-1] == CURVE.capacity


@settings(max_examples=300)
@given(
    st.floats(1, 1e6),
    st.floats(1, 3),
    st.floats(CURVE.p99[0], 1.0),
    st.floats(1, 3),
    st.floats(0, 0.9),
)
def test_more_is_never_less(
    rate: float, more: float, p99: float, longer: float, headroom: float
) -> None:
    found = plan(CURVE, rate=rate, p99=p99, headroom=headroom)

    assert found.p99 <= p99 * (1 + 1e-9)
    assert found.utilisation <= 1 - headroom + 1e-9
    assert found.rate * found.replicas == pytest.approx(rate)
    # One replica less would not do.
    if found.replicas > 1:
        each = rate / (found.replicas - 1)
        assert each > (1 - headroom) * CURVE.capacity or CURVE.at(each)[1] > p99 * (1 - 1e-9)
    # More replicas are never slower; more load or less time never needs fewer.
    for times in zip(CURVE.at(rate / (found.replicas + 1)), CURVE.at(found.rate), strict=True):
        assert times[0] <= times[1]
    assert plan(CURVE, rate=more * rate, p99=p99, headroom=headroom).replicas >= found.replicas
    assert plan(CURVE, rate=rate, p99=longer * p99, headroom=headroom).replicas <= found.replicas


def test_a_curve_between_its_points() -> None:
    curve = Curve(100.0, [2.0, 50.0, 100.0], [1.0, 2.0, 4.0], [2.0, 4.0, 8.0])

    assert curve.at(75) == (3.0, 6.0)
    assert curve.at(0) == (1.0, 2.0)
    assert curve.most(6.0) == 75
    assert curve.most(1.9) == 0
    assert curve.most(9.0) == 100


def test_bulk_is_full_passes_on_all_cores() -> None:
    # 20 texts of 25 tokens in a pass of 0.1 s.
    assert bulk_rate(Cost(0.0, 0.0002, 0.0), tokens=25, cores=2) == pytest.approx(0.9 * 2 * 200)
    assert bulk_rate(Cost(0.0, 0.001, 0.0), tokens=512, cores=1) == pytest.approx(0.9 / 0.512)


def test_moments_scale_with_the_rate_and_come_from_the_seed() -> None:
    slow, fast = poisson(10, 1000, seed=5), poisson(20, 1000, seed=5)

    assert fast == pytest.approx([each / 2 for each in slow])
    assert slow[-1] / 1000 == pytest.approx(0.1, rel=0.1)
    assert poisson(10, 5, seed=6) != slow[:5]
    assert set(drawn([3, 9], 100, seed=1)) == {3, 9}


def test_factors_lie_on_straight_lines_between_loads() -> None:
    found = Agreement(0.9, (Excess(0.5, 2.0, 3.0), Excess(1.0, 6.0, 5.0)))

    assert found.at(0.0) == (1.0, 1.0)
    assert found.at(0.25) == pytest.approx((1.5, 2.0))
    assert found.at(0.5) == pytest.approx((2.0, 3.0))
    assert found.at(0.75) == pytest.approx((4.0, 4.0))
    assert found.at(2.0) == pytest.approx((6.0, 5.0))


def test_a_corrected_curve_is_slower_by_the_factors_and_ends_at_the_real_saturation() -> None:
    curve = Curve(100.0, [0.0, 50.0, 100.0], [1.0, 2.0, 3.0], [2.0, 4.0, 8.0])

    found = corrected(curve, Agreement(0.8, (Excess(1.0, 2.0, 3.0),)))

    assert (found.capacity, found.rates) == (80.0, [0.0, 50.0, 80.0])
    share = 50 / 80
    assert found.p50 == pytest.approx([1.0, 2.0 * (1 + share), 2.6 * 2.0])
    assert found.p99 == pytest.approx([2.0, 4.0 * (1 + 2 * share), 6.4 * 3.0])


def test_the_record_that_ships_has_all_loads() -> None:
    measured = record.read(record.MEASURED)
    found = agreement(measured)

    assert [each.share for each in found.excesses] == [0.3, 0.5, 0.7, 0.9, 1.0]
    assert 0.5 < found.saturation <= 1.0
    assert all(each.p50 >= 1.0 and each.p99 >= 1.0 for each in found.excesses)
