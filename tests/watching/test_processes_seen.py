"""Which processes of a program used TensorFlow, and which were recorded."""

from __future__ import annotations

from made_agent import MadeAgent

from tfgpu_doctor.watching.agent import Look, recording_under_way
from tfgpu_doctor.watching.processes_seen import ProcessesSeen


class Asked(MadeAgent):
    times = 0
    rank = ""

    def ask(self, *, others: bool) -> None:
        self.times += 1
        self.look = Look(0.0, (), "", rank=self.rank)


def test_one_process_is_no_news() -> None:
    seen = ProcessesSeen()
    seen.look([MadeAgent()])
    seen.recorded(7)
    assert seen.in_words() == ""


def test_ranks_are_asked_for_once_and_named() -> None:
    agents = [Asked(pid=each) for each in (10, 11, 12)]
    agents[1].rank = "SLURM_PROCID 3"
    seen = ProcessesSeen()
    for _ in range(3):
        seen.look(agents)
    seen.recorded(11)
    seen.recorded(11)
    assert [each.times for each in agents] == [1, 1, 1]
    assert seen.in_words() == (
        "3 processes used TensorFlow, and one at a time is recorded: 11 (SLURM_PROCID 3, recorded 2 times), "
        "10 (not recorded), 12 (not recorded)"
    )


def test_of_many_the_first_are_named() -> None:
    seen = ProcessesSeen()
    seen.look([MadeAgent(pid=each) for each in range(20)])
    assert seen.in_words().endswith(", 12 more")


def test_what_is_under_way_is_said() -> None:
    agent = MadeAgent()
    assert recording_under_way(agent, 10.0) == ""
    for state, words in {
        "running": "the doctor records it at this moment",
        "asked": "the doctor's part in it has waited for 8 s for TensorFlow to begin a recording",
        "ending": "the doctor's part in it has waited for 8 s for TensorFlow to write a recording",
    }.items():
        agent.recording, agent.changed_s = state, 2.0
        assert recording_under_way(agent, 10.0) == words
