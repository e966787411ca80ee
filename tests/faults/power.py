"""A model of a disk after a power cut: the contents that a file may have.

The calls of a write are recorded. After each of them the power may fail. Then a file whose data
was not flushed has the data that was flushed before, or none, half or all of its data. Any of
the changes to the folder since it was flushed may be done, in their order.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

NAMES = ("open", "write", "fsync", "replace", "unlink", "close")


@dataclass
class _File:
    data: bytes = b""
    flushed: bytes = b""

    def possible(self) -> set[bytes]:
        if self.data == self.flushed:
            return {self.data}
        return {self.flushed, b"", self.data[: len(self.data) // 2], self.data}


@dataclass
class Disk:
    """One folder, as processes see it and as it is on the disk."""

    folder: Path
    names: dict[str, _File] = field(default_factory=dict)
    _flushed: dict[str, _File] = field(default_factory=dict)
    _unflushed: list[tuple[str, _File | None]] = field(default_factory=list)
    _open: dict[int, _File | None] = field(default_factory=dict)
    states: list[set[bytes | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for path in self.folder.iterdir():
            content = path.read_bytes()
            self.names[path.name] = self._flushed[path.name] = _File(content, content)

    def after_a_power_cut(self, name: str) -> set[bytes | None]:
        """Return the possible contents of a file after a power cut now; None for no file."""
        found: set[bytes | None] = set()
        changes = self._unflushed
        for kept in itertools.product([True, False], repeat=len(changes)):
            names = dict(self._flushed)
            for (changed, file), happened in zip(changes, kept, strict=True):
                if happened and file is not None:
                    names[changed] = file
                elif happened:
                    names.pop(changed, None)
            found |= names[name].possible() if name in names else {None}
        return found

    def open(self, fd: int, path: str, flags: int) -> None:
        """Note the descriptor of a file or of the folder."""
        if Path(path) == self.folder:
            self._open[fd] = None
        elif Path(path).parent == self.folder:
            name = Path(path).name
            if name not in self.names:
                self._link(name, _File())
            if flags & os.O_TRUNC:
                self.names[name].data = b""
            self._open[fd] = self.names[name]

    def write(self, fd: int, data: bytes) -> None:
        """Append to a file."""
        file = self._open.get(fd)
        if file is not None:
            file.data += data

    def fsync(self, fd: int) -> None:
        """Flush the data of a file, or the names in the folder."""
        if fd not in self._open:
            return
        file = self._open[fd]
        if file is not None:
            file.flushed = file.data
        else:
            self._flushed, self._unflushed = dict(self.names), []

    def replace(self, old: str, new: str) -> None:
        """Rename a file over another one."""
        file = self.names.pop(Path(old).name)
        # One atomic change of the folder: the new name decides.
        self._link(Path(new).name, file)

    def unlink(self, path: str) -> None:
        """Remove a name."""
        del self.names[Path(path).name]
        self._unflushed.append((Path(path).name, None))

    def close(self, fd: int) -> None:
        """Forget a descriptor."""
        self._open.pop(fd, None)

    def _link(self, name: str, file: _File) -> None:
        self.names[name] = file
        self._unflushed.append((name, file))


@contextmanager
def recorded(disk: Disk, name: str) -> Iterator[None]:
    """Record all calls on files for a block; `disk.states` gets the possible contents.

    Args:
        disk: the model of the disk.
        name: the file whose possible contents are recorded after each call.
    """

    def wrapped(call: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def instead(*arguments: Any, **options: Any) -> Any:
            on = arguments[0] if isinstance(arguments[0], int) else -1
            result = real(*arguments, **options)
            if call == "open":
                disk.open(result, str(arguments[0]), arguments[1])
            elif call == "write":
                disk.write(on, bytes(arguments[1][:result]))
            else:
                getattr(disk, call)(*arguments)
            disk.states.append(disk.after_a_power_cut(name))
            return result

        return instead

    patches = [patch.object(os, call, wrapped(call, getattr(os, call))) for call in NAMES]
    for one in patches:
        one.start()
    try:
        yield
    finally:
        for one in patches:
            one.stop()
