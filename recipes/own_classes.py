"""Measures `TextClassifier` on own classes beside two simple ways, and prints a Markdown table.

    python -m recipes.own_classes --data DATA

Each fit is a line of `docs/decisions/own-classes.jsonl`; those that are there are not repeated.
Tasks come from train files only: topics, by words that are then taken out; sources; and sentiment
by other names. The 1,000 rows to measure by are never learnt from.
"""

import argparse
import csv
import gzip
import json
import random
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from model import load
from training import TextClassifier
from training.data.dataset import dataset_of
from training.data.validation_split import text_key
from training.fit.head import logistic_regression
from training.measure.metrics import expected_calibration_error
from training.measure.tfidf import fit_tfidf

_RESULTS = Path("docs/decisions/own-classes.jsonl")
_TEST_ROWS, _OTHER_ROWS = 1_000, 600  # the others chose the recipe
_FEWEST_OF_A_CLASS = 2
_SENTIMENT = {"negative": "bad", "neutral": "so-so", "positive": "good"}
_STARS = {"0": "thumbs down", "1": "thumbs up"}
_TOPICS = {
    "books": "book|novel",
    "music": "album|cd|band",
    "cameras": "camera|lens",
    "kitchen": "pan|knife|knives|oven|cooking",
    "baby": "baby|stroller|crib|son|daughter",
}
_MORE_TOPICS = {
    "films": "movie|film|dvd",
    "health": "vitamin|razor|skin|pill",
    "toys": "toy|lego",
    "sports": "bike|tent|ball|gym",
    "software": "software|windows|install",
    "magazines": "magazine|subscription|issue",
    "apparel": "shoe|shirt|bra|jean|boot",
    "audio": "headphone|speaker|ipod|radio",
}
_TICKETS = {
    "fault": "error|exception|bug|crash|fail|failed",
    "question": "how|what|which|why",
    "thanks": "thank|thanks|great|nice",
    "change": "patch|commit|merge|review|fix",
}
_BRANDS = {
    "phone": "iphone|phone|android",
    "tablet": "ipad|ipad2",
    "cars": "driverless|self-driving|self driving|autonomous|car",
    "search": "google",
}
# Each task: a file, and the words of its classes or the names of its labels.
TASKS: dict[str, tuple[str, Mapping[str, str]]] = {
    "5 topics": ("amazon_14_domains/train", _TOPICS),
    "13 topics": ("amazon_14_domains/train", {**_TOPICS, **_MORE_TOPICS}),
    "tickets": ("three/software_train", _TICKETS),
    "brands": ("three/brands_train", _BRANDS),
    "guests": ("three/hotel_restaurant_train", _SENTIMENT),
    "tweets": ("three/tweets_train", _SENTIMENT),
    "reviews": ("amazon_14_domains/train", _STARS),
    "verses": ("three/poems_train", _SENTIMENT),
}
Rows = list[tuple[str, str]]


def read(data: Path, name: str) -> tuple[Rows, Rows]:
    """Reads a task; returns the rows to learn from and those to measure by."""
    file, classes = TASKS[name]
    with gzip.open(data / f"{file}.tsv.gz", "rt", encoding="utf-8", newline="") as opened:
        lines = [row[:2] for row in csv.reader(opened, delimiter="\t", quoting=csv.QUOTE_NONE)][1:]
    if all(label in classes for _, label in lines):
        rows = {text_key(text): (text, classes[label]) for text, label in lines}
    else:
        rows = {text_key(text): row for text, _ in lines if (row := topic(text, classes))}
    shuffled = list(rows.values())
    random.Random(4711).shuffle(shuffled)  # noqa: S311 - not for secrets
    count = min(_TEST_ROWS, len(shuffled) // 4)
    return shuffled[count + min(_OTHER_ROWS, count) :], shuffled[:count]


def topic(text: str, classes: Mapping[str, str]) -> tuple[str, str] | None:
    """Finds the only class that a text has words of, and takes them out."""
    patterns = {name: rf"(?i)(?<!\w)(?:{words})(?:s|es)?(?!\w)" for name, words in classes.items()}
    found = [name for name, pattern in patterns.items() if re.search(pattern, text)]
    if len(found) != 1:
        return None
    left = " ".join(re.sub(patterns[found[0]], " ", text).split())
    return (left, found[0]) if len(left) >= len("fifteen letters") else None


def draw(rows: Rows, count: int, seed: int) -> Rows:
    """Draws rows, at least two of each class."""
    shuffled = random.Random(seed).sample(rows, len(rows))  # noqa: S311 - not for secrets
    seen: Counter[str] = Counter()
    first: list[bool] = []
    for _, label in shuffled:
        seen[label] += 1
        first.append(seen[label] <= _FEWEST_OF_A_CLASS)
    order = sorted(range(len(rows)), key=lambda at: not first[at])
    return [shuffled[at] for at in order[:count]]


def measure(known: Rows, unseen: Rows, seed: int, init_from: str) -> dict[str, Any]:
    """Fits the three ways, and measures them."""
    texts, truth = [text for text, _ in unseen], np.array([label for _, label in unseen])
    dataset = dataset_of([text for text, _ in known], [label for _, label in known])
    tfidf = fit_tfidf(dataset)
    labels = np.array(dataset.labels)
    words = 0.0 if tfidf is None else (labels[tfidf.predict(texts)] == truth).mean()
    encoder = load(init_from)
    ids = np.array(dataset.label_ids)
    head = logistic_regression(encoder.embed(dataset.texts), ids, seed, is_balanced=False)
    logits = encoder.embed(texts) @ head.weight.T + head.bias
    frozen = (labels[logits.argmax(axis=1)] == truth).mean()
    started = time.process_time()
    classifier = TextClassifier(init_from, random_state=seed, threads=1)
    classifier.fit(list(dataset.texts), [label for _, label in known])
    seconds = time.process_time() - started
    chances = classifier.predict_proba(texts)
    right = classifier.classes_[chances.argmax(axis=1)] == truth
    ece = expected_calibration_error(chances.max(axis=1), right)
    figures = {"tfidf": words, "frozen": frozen, "fit": right.mean(), "ece": ece}
    return {**{name: round(100 * x, 2) for name, x in figures.items()}, "seconds": round(seconds)}


def table(fits: Sequence[Mapping[str, Any]]) -> str:
    """Returns the means over seeds, a line for each task and number of rows."""
    lines = [
        "| rows | task | TF-IDF | frozen | `TextClassifier` | ECE | seeds |",
        "| --: " * 7 + "|",
    ]
    for rows, task in sorted({(fit["rows"], fit["task"]) for fit in fits}):
        same = [fit for fit in fits if (fit["rows"], fit["task"]) == (rows, task)]
        means = (np.mean([fit[x] for fit in same]) for x in ("tfidf", "frozen", "fit", "ece"))
        figures = " | ".join(f"{mean:.1f}" for mean in means)
        lines.append(f"| {rows:,} | {task} | {figures} | {len(same)} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures what is missing, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--results", type=Path, default=_RESULTS)
    parser.add_argument("--init-from", default="checkpoints/default")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--rows", nargs="+", type=int, default=[50, 100, 300, 1000])
    parser.add_argument("--seeds", type=int, default=2)
    parsed = parser.parse_args(arguments)
    warnings.simplefilter("ignore")  # of few rows
    parsed.results.touch()
    for rows, seed, task in (
        (r, s, t) for r in parsed.rows for s in range(parsed.seeds) for t in parsed.tasks
    ):
        lines = parsed.results.read_text(encoding="utf-8").splitlines()
        key = {"task": task, "rows": rows, "seed": seed}
        if any(key.items() <= json.loads(line).items() for line in lines):
            continue
        known, unseen = read(parsed.data, task)
        if rows <= len(known):
            fit = {**key, **measure(draw(known, rows, seed), unseen, seed, parsed.init_from)}
            with parsed.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(fit) + "\n")
    fits = map(json.loads, parsed.results.read_text(encoding="utf-8").splitlines())
    sys.stdout.write(table(list(fits)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
