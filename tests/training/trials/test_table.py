"""What people read of a search, word by word."""

from training.trials.search import Trial, ranked
from training.trials.table import best_line, cautions, table_lines, trial_line

TRIALS = (
    Trial(1, {"learning_rate": 1e-5, "epochs": 3}, 0.75, None, 0.5, 0.25, 3, 61.6),
    Trial(2, {"learning_rate": 1e-3, "epochs": 3}, None, None, None, None, None, 0.0),
    Trial(3, {"learning_rate": 1e-4, "epochs": 6}, 0.5, None, 0.625, 0.5, 4, 7.0),
)
TRIED = {"learning_rate": (1e-5, 1e-4, 1e-3), "epochs": (3, 6)}


def test_the_least_loss_is_first_and_what_diverged_is_last() -> None:
    assert [trial.trial for trial in ranked(TRIALS)] == [3, 1, 2]
    assert table_lines(TRIALS) == [
        "trial  learning rate  epochs  validation loss  accuracy  macro F1  epoch  seconds",
        "    3         0.0001       6           0.5000    62.50%    0.5000      4        7",
        "    1          1e-05       3           0.7500    50.00%    0.2500      3       62",
        "    2          0.001       3         diverged         -         -      -        0",
    ]


def test_a_trial_has_a_line() -> None:
    assert trial_line(TRIALS[0], 3) == (
        "trial 1 of 3: learning rate 1e-05, epochs 3: validation loss 0.7500, accuracy 50.00%, "
        "macro F1 0.2500"
    )
    assert trial_line(TRIALS[1], 3) == (
        "trial 2 of 3: learning rate 0.001, epochs 3: the run diverged"
    )


def test_of_folds_the_deviation_is_told() -> None:
    folded = Trial(1, {"epochs": 2}, 0.5, 0.0625, 0.75, 0.5, None, 9.0)

    assert best_line(folded) == (
        "best: trial 1, epochs 2: log-loss of the folds 0.5000 ± 0.0625, accuracy 75.00%, macro F1 "
        "0.5000"
    )
    assert table_lines([folded]) == [
        "trial  epochs  log-loss of the folds  accuracy  macro F1  epoch  seconds",
        "    1       2        0.5000 ± 0.0625    75.00%    0.5000      -        9",
    ]


def test_the_best_is_optimistic_and_may_lie_at_an_edge() -> None:
    optimistic, edge = cautions(TRIALS, TRIALS[2], TRIED)

    assert optimistic == (
        "the best of 3 trials is chosen by the rows that measure it, so its figures are "
        "optimistic: measure it on rows that chose nothing, with --evaluate FILE"
    )
    assert edge == "epochs: the best value, 6, is the highest that was tried: try higher ones too"
    assert cautions(TRIALS, TRIALS[0], TRIED)[1:] == [
        "learning rate: the best value, 1e-05, is the lowest that was tried: try lower ones too",
        "epochs: the best value, 3, is the lowest that was tried: try lower ones too",
    ]
