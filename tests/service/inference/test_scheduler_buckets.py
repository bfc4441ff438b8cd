"""Two orders of the same texts, beside a plain list that is searched anew each time."""

from hypothesis import given
from hypothesis import strategies as st

from service.inference.scheduler import Bucket, Flow, FlowQueue, QueuedText

times = st.integers(0, 9)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 4), times, times),
        st.tuples(st.just("take by finish"), st.just(0), times, times),
        st.tuples(st.just("take urgent"), st.just(0), times, times),
        st.tuples(st.just("drop"), st.integers(0, 9), times, times),
    ),
    max_size=50,
)


@given(steps)
def test_both_orders_are_those_of_a_plain_list(plan: list[tuple[str, int, int, int]]) -> None:
    bucket: Bucket[str] = Bucket()
    queues: list[FlowQueue[str]] = []
    waiting: list[tuple[QueuedText[str], int, int]] = []  # with the queue and when it is urgent
    for step, (action, number, first_finish, when) in enumerate(plan):
        earliest = min((text for text, _, _ in waiting), default=None)
        urgent = min(
            ((urgent_at, text.number) for text, _, urgent_at in waiting if urgent_at <= when),
            default=None,
        )
        by_finish, by_urgency = bucket.first(-1.0), bucket.most_urgent(float(when))
        assert (by_finish and by_finish.first) == earliest
        assert (by_urgency and (by_urgency.urgent_at, by_urgency.first.number)) == urgent
        assert bucket.first(float(when)) == (by_urgency or by_finish)
        assert bool(bucket) == bool(waiting)

        if action == "add":
            flow = Flow("a client", 1.0, 0, 0)
            texts = [
                QueuedText(
                    float(first_finish + 3 * place), 10 * step + place, 20, flow, f"{step}.{place}"
                )
                for place in range(number)
            ]
            waiting += [(text, len(queues), when) for text in texts]
            queues.append(bucket.add(texts, float(when)))
        elif action == "drop" and number < len(queues):
            bucket.drop(queues[number])
            waiting = [place for place in waiting if place[1] != number]
        elif (queue := by_finish if action == "take by finish" else by_urgency) and (
            action != "drop"
        ):
            text = bucket.take(queue)
            waiting = [place for place in waiting if place[0] != text]
        left = {queue for _, queue, _ in waiting}
        assert max(len(bucket._by_finish), len(bucket._by_urgency)) <= 2 * len(left)
