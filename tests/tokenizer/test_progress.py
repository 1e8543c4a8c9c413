"""Journal entries and counts of running tasks → the progress of a run, its speed and its end."""

import numpy as np
import pytest

from tokenmill.progress import Progress, Tracker


def entry(task, tokens):
    return {"task": task, "tokens": tokens, "documents": 2, "bytes": 20, "quarantined": 1}


def test_speed_counts_only_the_work_of_this_run():
    now = Progress("tokenizing", 600, 1000, tokens=90, seconds=4.0, resumed=200, tokens_resumed=10)
    assert now.bytes_per_second == 100 and now.tokens_per_second == 20
    assert now.seconds_left == 4


def test_time_left_is_unknown_without_a_total_or_a_speed():
    assert Progress("counting", 600, None, seconds=4.0).seconds_left is None
    assert Progress("counting", 0, 600, seconds=4.0).seconds_left is None


def test_tracker_adds_finished_and_running_tasks():
    seen = []
    tracker = Tracker(np.array([100, 200, 400]), [entry(0, 7)], seen.append)
    tracker.update({"1": [150, 5, 1], "2": [999, 1, 0]}, memory=64)
    tracker.finish_task(entry(1, 9))
    tracker.end()
    assert [now.done for now in seen] == [100 + 150 + 400, 100 + 200 + 400, 300]
    assert [now.tokens for now in seen] == [13, 17, 16]
    assert [now.documents for now in seen] == [3, 4, 4]
    assert [now.tasks for now in seen] == [1, 2, 2]
    assert {(now.total, now.tasks_total, now.resumed, now.memory) for now in seen} == {
        (700, 3, 100, 64)
    }


@pytest.mark.parametrize(("share", "total", "tasks"), [(range(0, 3, 2), 500, 2), (None, 700, 3)])
def test_total_is_that_of_the_rank(share, total, tasks):
    seen = []
    Tracker(np.array([100, 200, 400]), [], seen.append, share).end()
    assert (seen[0].total, seen[0].tasks_total) == (total, tasks)
