"""The shards of a run as actors of a Ray cluster, which send models directly to each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from coterie.cluster.shard_actor import Opened, Recipe, ShardActor
from coterie.cluster.worker_needs import WorkerNeeds
from coterie.errors import WorkerDied
from coterie.learning.trainer_choice import Tell
from coterie.simulation.shards.shard_group import ShardGroup
from coterie.simulation.shards.shard_plan import ShardPlan
from coterie.simulation.shards.shard_runtime import REACHES_OTHERS, WATCH, Kind

CLOSE_SECONDS = 2.0
"""How long shards may take to delete their temporary files."""
PATIENCE_SECONDS = 20.0
"""The user is told that shards wait for a node after this time."""


class ShardLost(WorkerDied):
    """A shard's process or node is gone; the run continues from its last checkpoint."""


class ShardActors:
    """Actors for shards, which stay for the next run: starting one takes seconds."""

    def __init__(self) -> None:
        self._idle: list[Any] = []
        self._needs: WorkerNeeds | None = None

    def take(self, count: int, needs: WorkerNeeds) -> list[Any]:
        """Return actors with these resources, which belong to the caller until they are kept."""
        import ray

        if self._needs != needs:
            self.close()
            self._needs = needs
        options = {**needs.options(), "scheduling_strategy": "SPREAD"}
        taken, self._idle = self._idle[:count], self._idle[count:]
        new = ray.remote(ShardActor).options(**options)
        return [*taken, *(new.remote() for _ in range(count - len(taken)))]

    def keep(self, actors: Sequence[Any]) -> None:
        """Keep actors for the next run."""
        self._idle += actors

    def close(self) -> None:
        """End all idle actors."""
        end_actors(self._idle)
        self._idle = []


def end_actors(actors: Sequence[Any]) -> None:
    """End actors, after they have deleted their temporary files."""
    import ray

    with suppress(ray.exceptions.RayError):
        answers = [actor.close.remote() for actor in actors]
        if answers:
            ray.wait(answers, num_returns=len(answers), timeout=CLOSE_SECONDS)
    for actor in actors:
        with suppress(ray.exceptions.RayError, ValueError):
            ray.kill(actor)


class RayShards(ShardGroup):
    """One actor per shard; use as a context."""

    def __init__(
        self, recipe: Recipe, plan: ShardPlan, needs: WorkerNeeds, actors: ShardActors, tell: Tell
    ) -> None:
        """Wait until all shards are open."""
        self.size = plan.num_shards
        self._all_actors = actors
        self._actors: list[Any] = actors.take(self.size, needs)
        try:
            self._open(recipe, plan, needs, tell)
        except BaseException:
            end_actors(self._actors)
            raise

    def _open(self, recipe: Recipe, plan: ShardPlan, needs: WorkerNeeds, tell: Tell) -> None:
        import ray

        shared = ray.put(recipe)
        answers = [
            actor.open.remote(shared, plan, place, needs.cpus)
            for place, actor in enumerate(self._actors)
        ]
        _, waiting = ray.wait(answers, num_returns=self.size, timeout=PATIENCE_SECONDS)
        if waiting:
            tell(
                f"Waiting for {len(waiting)} of {self.size} shards to start. Each needs {needs} on "
                "a node; press Ctrl-C to stop."
            )
        opened: list[Opened] = _results(answers)
        for message in dict.fromkeys(text for each in opened for text in each.messages):
            tell(message)
        trainers = sorted({each.trainer for each in opened})
        if len(trainers) > 1:
            tell(
                f"The nodes train with {' and '.join(trainers)}: the last digits of results differ "
                "from those of a run on one kind of computer."
            )

    def call(self, method: str, *arguments: Any, **named: Any) -> list[Any]:
        """Call a method of every shard at the same time; return the results in order."""
        import ray

        shared = [ray.put(argument) for argument in arguments]
        return _results([actor.call.remote(method, *shared, **named) for actor in self._actors])

    def call_one(self, place: int, method: str, *arguments: Any) -> Any:
        """Call a method of one shard."""
        (result,) = _results([self._actors[place].call.remote(method, *arguments)])
        return result

    def record_watched(self) -> None:
        """Let shards fetch all models for their watched peers, which then measure them."""
        served = self._serve(WATCH, range(self.size))
        _results(
            [
                actor.record_watched.remote(*each)
                for actor, each in zip(self._actors, served, strict=True)
            ]
        )

    def answer(self, kind: Kind, batch: int, places: Sequence[int]) -> list[Kind | None]:
        """Answer the requests of a kind of some shards; return the next kind of each."""
        served = self._serve(kind, places) if kind in REACHES_OTHERS else [[] for _ in places]
        answers = [
            self._actors[place]
            .answer.options(num_returns=self.size + 1)
            .remote(kind, batch, self.size, *each)
            for place, each in zip(places, served, strict=True)
        ]
        ends = _results([first for first, *_ in answers])
        _results(
            [
                self._actors[place].accept.remote(sent[place])
                for (_, receivers), (_, *sent) in zip(ends, answers, strict=True)
                for place in receivers
            ]
        )
        return [next_kind for next_kind, _ in ends]

    def _serve(self, kind: Kind, places: Sequence[int]) -> list[list[Any]]:
        """Return references of what other shards serve to each of some shards."""
        if self.size == 1:
            return [[] for _ in places]
        wanted = [
            self._actors[place].collect.options(num_returns=self.size + 1).remote(kind, self.size)
            for place in places
        ]
        needed = _results([first for first, *_ in wanted])
        return [
            [self._actors[other].serve.remote(each[other]) for other in others]
            for others, (_, *each) in zip(needed, wanted, strict=True)
        ]

    def close(self) -> None:
        """End the shards; their actors stay for the next run, unless one of them is lost."""
        try:
            _results([actor.end_shard.remote() for actor in self._actors])
        except WorkerDied:
            end_actors(self._actors)
        else:
            self._all_actors.keep(self._actors)
        self._actors = []


def _results(references: list[Any]) -> list[Any]:
    """Return results; errors of shards are raised as they are, and lost ones as `ShardLost`."""
    import ray

    with _explained():
        results: list[Any] = ray.get(references)
        return results


@contextmanager
def _explained() -> Iterator[None]:
    import ray

    try:
        yield
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        if isinstance(cause, ray.exceptions.RayError):
            raise ShardLost(_why_lost(cause)) from None
        raise cause from None
    except ray.exceptions.RayError as error:
        raise ShardLost(_why_lost(error)) from None


def _why_lost(error: Exception) -> str:
    text = str(error)
    if "node has died" in text or "Node" in type(error).__name__:
        return "A node with a shard of the run has died or was removed."
    if "OUT_OF_MEMORY" in text or isinstance(error, MemoryError):
        return "Memory ran out on a node with a shard of the run."
    return "The process of a shard died, most likely because memory ran out."
