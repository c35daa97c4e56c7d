"""One shape measured over all contenders in turn, several rounds."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .contenders import MODES
from .peer import Peer
from .serving import STALLED_SHARE
from .shape_lists import Problem

_MAX_REPEATS = 1


@dataclass(frozen=True)
class Protocol:
    """How long a shape is measured.

    Attributes
    ----------
    sample_us
        Aimed duration of one timing loop.
    rounds
        Turns that every contender gets per shape.
    budget_us
        Longest time that the turns of one way of calling may take together; shapes that are longer
        get fewer rounds, at least one.
    """

    sample_us: float = 2_000.0
    rounds: int = 5
    budget_us: float = 100_000.0

    def rounds_for(self, call_us: float) -> int:
        """Rounds that fit the budget when the slowest way takes `call_us` per call."""
        return max(1, min(self.rounds, int(self.budget_us / max(call_us, self.sample_us))))


@dataclass
class Timing:
    """Samples of one way of calling one contender, µs per call."""

    modes: tuple[str, ...]
    error: float
    samples_us: list[float] = field(default_factory=list)

    @property
    def us(self) -> float:
        """Median over the rounds."""
        return statistics.median(self.samples_us)


@dataclass
class Result:
    """All timings of one shape: contender → way → timing."""

    problem: Problem
    timings: dict[str, dict[str, Timing]]
    disturbed: int

    def best_us(self, contender: str, mode: str) -> float:
        """The contender's fastest way in this mode."""
        return self.best_way(contender, mode)[1]

    def best_way(self, contender: str, mode: str) -> tuple[str, float]:
        """Name and µs of the contender's fastest way in this mode."""
        ways = {w: t.us for w, t in self.timings[contender].items() if mode in t.modes}
        name = min(ways, key=ways.__getitem__)
        return name, ways[name]

    def as_json(self) -> dict[str, Any]:
        """The samples of the shape in plain values."""
        return {
            "list": self.problem.source,
            "m": self.problem.m,
            "n": self.problem.n,
            "k": self.problem.k,
            "class": self.problem.kind,
            "disturbed": self.disturbed,
            "us": {
                mode: {c: round(self.best_us(c, mode), 4) for c in self.timings} for mode in MODES
            },
            "way": {mode: {c: self.best_way(c, mode)[0] for c in self.timings} for mode in MODES},
            "min_us": {
                mode: {
                    c: round(min(min(t.samples_us) for t in ways.values() if mode in t.modes), 4)
                    for c, ways in self.timings.items()
                }
                for mode in MODES
            },
            "error": {c: max(t.error for t in ways.values()) for c, ways in self.timings.items()},
        }


def contend(
    replies: Mapping[str, Mapping[str, Any]], peers: Sequence[Peer], protocol: Protocol
) -> tuple[dict[str, dict[str, Timing]], int]:
    """Give every prepared peer its turns; only one of them is active at a time.

    The order of the contenders rotates from round to round, so that none always follows the same
    neighbour. A turn that stayed disturbed by other programs is repeated once.

    Parameters
    ----------
    replies
        What each peer, by name, answered to ``prepare``.

    Returns
    -------
    timings, disturbed
        Contender → way → timing, and the number of turns that were repeated.
    """
    timings: dict[str, dict[str, Timing]] = {}
    longest_us = 0.0
    for name, reply in replies.items():
        timings[name] = {}
        for way_name, way in reply["ways"].items():
            timing = Timing(tuple(way["modes"]), way["error"])
            if way["dropped"]:
                timing.samples_us.append(way["us"])
            else:
                longest_us = max(longest_us, way["us"])
            timings[name][way_name] = timing
    disturbed = 0
    for round_index in range(protocol.rounds_for(longest_us)):
        shift = round_index % len(peers)
        for peer in (*peers[shift:], *peers[:shift]):
            for _ in range(_MAX_REPEATS + 1):
                reply = peer.ask("turn", sample_us=protocol.sample_us)
                if reply["stalled_share"] <= STALLED_SHARE:
                    break
                disturbed += 1
            for way_name, us in reply["us"].items():
                timings[peer.name][way_name].samples_us.append(us)
    return timings, disturbed


def measure(problem: Problem, peers: Sequence[Peer], protocol: Protocol) -> Result:
    """Measure a product through every peer."""
    replies = {
        peer.name: peer.ask(
            "prepare", m=problem.m, n=problem.n, k=problem.k, sample_us=protocol.sample_us
        )
        for peer in peers
    }
    timings, disturbed = contend(replies, peers, protocol)
    return Result(problem, timings, disturbed)
