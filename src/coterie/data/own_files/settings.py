"""The settings of a user's own files: where they are, and what their columns mean."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from coterie.settings import Settings

Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class TableFile(Settings):
    """A table (.csv, .csv.gz or .parquet) whose rows belong to peers."""

    kind: Literal["table"] = "table"
    path: Path
    """The file; a relative path is looked for in the data root."""
    sha256: Digest | None = None
    """The digest of the file when the run was created; another file is refused."""
    peers_by: str
    """The column that names the owner of each row: each value is one peer."""
    label: str
    """The column to predict. Texts, true/false and whole numbers with at most 20 values are
    classes; other numbers are values (regression)."""
    features: tuple[str, ...] | None = None
    """The columns to predict from; when not given, all others."""
    ignore: tuple[str, ...] = ()
    """Columns that are not used."""
    time: tuple[str, ...] = ()
    """The column of the time, or year, month, day … in order. Without it, rows have no order."""
    windows: int = Field(10, ge=2)
    """Windows of time with equally many rows: peers train on one and are tested on the next. On the
    command line at most 10, and fewer if peers have few rows."""
    most_training: int | None = Field(None, ge=1)
    """At most this many training samples per peer, to see how peers with little data do. When not
    given, all."""
    min_rows: int = Field(20, ge=5)
    """Peers with fewer rows (in each window of time, if there are any) are left out."""

    @model_validator(mode="after")
    def _no_limit_with_time(self) -> TableFile:
        if self.time and self.most_training is not None:
            raise ValueError("most_training cannot be used with time: use more windows instead")
        return self

    @model_validator(mode="after")
    def _each_column_once(self) -> TableFile:
        """Refuse a column with two roles, which would give the answer away."""
        roles = {"peers_by": (self.peers_by,), "label": (self.label,), "time": self.time}
        roles["features"] = self.features or ()
        named: dict[str, str] = {}
        for role, columns in roles.items():
            for column in columns:
                if column in named:
                    again = named[column] if named[column] != role else "it"
                    raise ValueError(
                        f"the column '{column}' is named twice, in {again} and {role}"
                        if again != "it"
                        else f"the column '{column}' is named twice in {role}"
                    )
                named[column] = role
        return self


class ArrayFile(Settings):
    """A .npz file with inputs, labels, and the peer of each sample."""

    kind: Literal["arrays"] = "arrays"
    path: Path
    """The file; a relative path is looked for in the data root."""
    sha256: Digest | None = None
    """The digest of the file when the run was created; another file is refused."""
    most_training: int | None = Field(None, ge=1)
    """At most this many training samples per peer, to see how peers with little data do. When not
    given, all."""
    min_rows: int = Field(20, ge=5)
    """Peers with fewer samples are left out."""


class ImageFolder(Settings):
    """A folder with FOLDER/PEER/CLASS/*.png or *.jpg."""

    kind: Literal["images"] = "images"
    path: Path
    """The folder; a relative path is looked for in the data root."""
    sha256: Digest | None = None
    """The digest of all images when the run was created; other images are refused."""
    image_size: int = Field(32, ge=4, le=1024)
    """Images are resized to this width and height, in pixels."""
    most_training: int | None = Field(None, ge=1)
    """At most this many training samples per peer, to see how peers with little data do. When not
    given, all."""
    min_rows: int = Field(20, ge=5)
    """Peers with fewer images are left out."""


class PlayText(Settings):
    """A play as text, whose speaking roles are the peers: predict the next character.

    Speeches are separated by empty lines; the first line of each is the role and a colon.
    """

    kind: Literal["play"] = "play"
    path: Path
    """The file; a relative path is looked for in the data root."""
    sha256: Digest | None = None
    """The digest of the file when the run was created; another file is refused."""
    length: int = Field(20, ge=1)
    """Characters that the next one is predicted from."""
    stride: int = Field(3, ge=1)
    """Characters between the beginnings of two samples."""
    min_characters: int = Field(10_000, ge=100)
    """Roles that say less are left out."""


AnyFile = TableFile | ArrayFile | ImageFolder | PlayText
OwnFiles = Annotated[AnyFile, Field(discriminator="kind")]
