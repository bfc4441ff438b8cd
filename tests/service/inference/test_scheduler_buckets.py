"""Two orders of the same texts, beside a plain list that is searched anew each time."""

from hypothesis import given
from hypothesis import strategies as st

from service.inference.scheduler import Bucket, Line, Waiting

times = st.integers(0, 9)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 4), times, times),
        st.tuples(st.just("take due"), st.just(0), times, times),
        st.tuples(st.just("take urgent"), st.just(0), times, times),
        st.tuples(st.just("drop"), st.integers(0, 9), times, times),
    ),
    max_size=50,
)


@given(steps)
def test_both_orders_are_those_of_a_plain_list(plan: list[tuple[str, int, int, int]]) -> None:
    bucket: Bucket[str] = Bucket()
    lines: list[Line[str]] = []
    waiting: list[tuple[Waiting[str], int, int]] = []  # with the line and when it is urgent
    for step, (action, number, first_due, when) in enumerate(plan):
        due = min((text for text, _, _ in waiting), default=None)
        urgent = min(
            ((urgent_at, text.number) for text, _, urgent_at in waiting if urgent_at <= when),
            default=None,
        )
        by_due, by_urgency = bucket.first(-1.0), bucket.most_urgent(float(when))
        assert (by_due and by_due.first) == due
        assert (by_urgency and (by_urgency.urgent_at, by_urgency.first.number)) == urgent
        assert bucket.first(float(when)) == (by_urgency or by_due)
        assert bool(bucket) == bool(waiting)

        if action == "add":
            texts = [
                Waiting(float(first_due + 3 * place), 10 * step + place, 20, f"{step}.{place}")
                for place in range(number)
            ]
            waiting += [(text, len(lines), when) for text in texts]
            lines.append(bucket.add(texts, float(when)))
        elif action == "drop" and number < len(lines):
            bucket.drop(lines[number])
            waiting = [place for place in waiting if place[1] != number]
        elif (line := by_due if action == "take due" else by_urgency) and action != "drop":
            text = bucket.take(line)
            waiting = [place for place in waiting if place[0] != text]
        left = {line for _, line, _ in waiting}
        assert max(len(bucket._by_due), len(bucket._by_urgency)) <= 2 * len(left)
