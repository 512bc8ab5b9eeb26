"""Archives of arrays that are verified when they are read: references and sketches.

An archive is a zip file. Its JSON member holds the settings and the SHA-256 of every other member; these are `.npy`
arrays. The SHA-256 of the JSON member is the comment of the zip file. Nothing in it is compressed, pickled or executed.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from precall.files import open_atomically
from precall.headers import PARSING
from precall.samples import reading
from precall.samples.arrays import Numbers
from precall.samples.images import open_archive
from precall.samples.sampleset import shown
from precall.schemas import Schema, check

SUMS = {"type": "object", "additionalProperties": {"type": "string", "pattern": "[0-9a-f]{64}"}}


@dataclass(frozen=True)
class ArrayArchive:
    """A kind of archive."""

    what: str  # what a file of this kind is called, as in "reference"
    suffix: str  # how its name ends
    version: int  # of its format
    made_by: str  # the command that writes it

    @property
    def head(self) -> str:
        return f"{self.what}.json"

    def write(self, path: Path, arrays: Mapping[str, Numbers], about: Mapping[str, Any]) -> None:
        """Write an archive, atomically; its name must end in the suffix."""
        if path.suffix.lower() != self.suffix:
            expected = f"a {self.what} must be written to a file that ends in {self.suffix}"
            raise ValueError(f"{expected}; got `{shown(str(path))}`.")
        sums: dict[str, str] = {}
        with open_atomically(path) as file, zipfile.ZipFile(file, "w") as archive:
            for name, array in arrays.items():
                content = io.BytesIO()
                np.lib.format.write_array(content, np.ascontiguousarray(array), allow_pickle=False)
                sums[name] = hashlib.sha256(content.getvalue()).hexdigest()
                info = zipfile.ZipInfo(f"{name}.npy")  # without the time: equal archives are equal bytes
                archive.writestr(info, content.getvalue())
            known = {"format": f"precall {self.what}", "version": self.version, **about, "sha256": sums}
            head = json.dumps(known, indent=1).encode()
            archive.writestr(zipfile.ZipInfo(self.head), head)
            archive.comment = hashlib.sha256(head).hexdigest().encode()

    def about(self, path: Path, schema: Schema, arrays: Collection[str] = ()) -> dict[str, Any]:
        """The settings of an archive, and the checksums of its arrays under "sha256"."""
        place = f"`{shown(str(path))}`"
        expected = f"{place} must be a {self.what} of `{self.made_by}`"
        with open_archive(path) as archive:
            try:
                head = self._read(archive, self.head)
                found = reading.parse_json(head)
            except (KeyError, ValueError, zipfile.BadZipFile):
                raise ValueError(f"{expected}; it is not, or it is damaged.") from None
            sealed = archive.comment == hashlib.sha256(head).hexdigest().encode()
            held = [member.filename for member in archive.infolist()]
        if not isinstance(found, dict) or found.get("format") != f"precall {self.what}":
            raise ValueError(f"{expected}; it is not.")
        if found.get("version") != self.version:
            raise ValueError(f"{place} must have version {self.version}; got {found.get('version')!r}. Make it again.")
        if not sealed:
            raise ValueError(f"{place} is damaged: {self.head} does not have its checksum. {self._again}")
        check(found, schema, place)
        check(found, {"required": ["sha256"], "properties": {"sha256": SUMS | {"required": list(arrays)}}}, place)
        if sorted(held) != sorted([self.head, *(f"{name}.npy" for name in found["sha256"])]):
            raise ValueError(f"{place} is damaged: its members are not those that {self.head} names. {self._again}")
        return found

    def array(self, path: Path, name: str, sha256: str) -> Numbers:
        """An array of an archive, after its checksum is verified."""
        with open_archive(path) as archive:
            try:
                data = self._read(archive, f"{name}.npy")
            except (KeyError, zipfile.BadZipFile):
                data = b""
        if hashlib.sha256(data).hexdigest() != sha256:
            raise ValueError(f"`{shown(str(path))}` is damaged: `{name}` does not have its checksum. {self._again}")
        with reading.parsing(path, f"a {self.what} of arrays of numbers"), PARSING:
            found = np.asarray(np.lib.format.read_array(io.BytesIO(data), allow_pickle=False))
            if found.dtype.kind not in "fiub" or np.isnan(found).any():
                raise ValueError(f"`{name}` does not hold numbers.")
        return found

    def _read(self, archive: zipfile.ZipFile, name: str) -> bytes:
        member = archive.getinfo(name)
        if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1:
            raise zipfile.BadZipFile("it is compressed or encrypted")
        return archive.read(member)

    @property
    def _again(self) -> str:
        return f"Make the {self.what} again."
