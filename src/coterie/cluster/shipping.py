"""What a node needs to build the data and the model of a run; nodes need no files of the user.

Samples are put into Ray's object store once, however many runs share them. On a node, all processes
read them from shared memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.cluster.source_files import SourceFiles, collect_source_files
from coterie.data.dataset_catalogue import load_dataset
from coterie.data.labelled_dataset import Dataset
from coterie.data.own_files.load import read_own_files
from coterie.data.own_files.owned_samples import OwnedSamples
from coterie.data.own_files.settings import AnyFile
from coterie.data.peer_datasets import PeerDatasets
from coterie.errors import ConfigError
from coterie.experiments.config import LINEAR, RunConfig, make_datasets, require_files
from coterie.storage.files import explain_errors, write_bytes

if TYPE_CHECKING:
    from ray import ObjectRef

SAME_PACKAGES = ("coterie", "torch", "numpy")
"""The packages whose versions must be the same on all nodes."""
KEPT = 4
"""How many datasets stay in the object store while no run uses them."""
_shipped: OrderedDict[str, ObjectRef[Any]] = OrderedDict()


@dataclass(frozen=True)
class RunParcel:
    """The configuration of a run, and references to its data and code."""

    config: RunConfig
    versions: dict[str, str]
    """Of the packages that must be the same on all nodes."""
    source: SourceFiles
    datasets: dict[str, ObjectRef[Dataset]] = field(default_factory=dict)
    """By their names in the configuration."""
    own_samples: ObjectRef[OwnedSamples] | None = None
    """Of a run on a user's own files."""
    weights: ObjectRef[bytes] | None = None
    """The content of the file with pretrained weights."""

    def make_datasets(self) -> PeerDatasets:
        """Return the data of the run, on a node; `open_on_node` must have been called before."""
        return make_datasets(self.config, self._load, self._read)

    def open_on_node(self, folder: Path) -> RunParcel:
        """Check the versions, load the user's code, and return the parcel with files of the node.

        Files are written below `folder`.
        """
        check_versions(self.versions, "This node")
        self.source.load(folder)
        if self.weights is None or self.config.model.pretrained is None:
            return self
        file = folder / f"weights-{self.config.model.pretrained.name}"
        if not file.exists():
            import ray

            write_bytes(file, ray.get(self.weights), durable=False)
        model = self.config.model.model_copy(update={"pretrained": file})
        config = self.config.model_copy(update={"model": model})
        return replace(self, config=config)

    def _load(self, name: str, root: Path | None) -> Dataset:
        import ray

        dataset: Dataset = ray.get(self.datasets[name])
        return dataset

    def _read(self, settings: AnyFile, root: Path | None) -> OwnedSamples:
        import ray

        if self.own_samples is None:
            raise RuntimeError(f"The parcel has no samples of {settings.path}.")
        samples: OwnedSamples = ray.get(self.own_samples)
        return samples


def pack_run(config: RunConfig) -> RunParcel:
    """Return what a node needs to build a run; the data are read here, where the user's files are.

    The data and the code are those of this process. A connection to a cluster must be open.
    """
    require_files(config)
    return RunParcel(
        config=config,
        versions=software_versions(),
        source=collect_source_files(config),
        datasets=_ship_datasets(config),
        own_samples=_ship_own_samples(config),
        weights=_ship_weights(config),
    )


def _ship_datasets(config: RunConfig) -> dict[str, ObjectRef[Dataset]]:
    root = config.data.root
    if config.data.files is not None:
        return {}
    return {
        name: _ship(f"{name} in {root}", partial(load_dataset, name, root))
        for name in dict.fromkeys(config.data.datasets)
        if name != LINEAR
    }


def _ship_own_samples(config: RunConfig) -> ObjectRef[OwnedSamples] | None:
    files, root = config.data.files, config.data.root
    if files is None:
        return None
    return _ship(f"{files.model_dump_json()} in {root}", partial(read_own_files, files, root))


def _ship_weights(config: RunConfig) -> ObjectRef[bytes] | None:
    path = config.model.pretrained
    return None if path is None else _ship(f"weights in {path}", partial(_read_bytes, path))


def forget_shipped_data() -> None:
    """Let the object store free the data; to be called at the end of a connection."""
    _shipped.clear()


@cache
def software_versions() -> dict[str, str]:
    """Return the versions of the packages that must be the same on all nodes."""
    return {name: metadata.version(name) for name in SAME_PACKAGES}


def check_versions(expected: dict[str, str], where: str) -> None:
    """Refuse a process with other versions of packages than those of the command."""
    found = software_versions()
    if found != expected:
        raise ConfigError(f"{where} has {describe_difference(found, expected)}.")


def describe_difference(found: dict[str, str], expected: dict[str, str]) -> str:
    """Return which versions differ, such as "torch 2.5 instead of 2.6"."""
    differing = [name for name in expected if found.get(name) != expected[name]]
    return ", ".join(
        f"{name} {found.get(name, 'missing')} instead of {expected[name]}" for name in differing
    )


def _ship(key: str, make: Callable[[], Any]) -> ObjectRef[Any]:
    """Return the reference of an object in the object store, which is put there once."""
    import ray

    if key not in _shipped:
        _shipped[key] = ray.put(make())
        while len(_shipped) > KEPT:
            _shipped.popitem(last=False)
    _shipped.move_to_end(key)
    return _shipped[key]


def _read_bytes(path: Path) -> bytes:
    with explain_errors(f"read {path}"):
        return path.read_bytes()
