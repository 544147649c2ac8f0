"""Resolve libraries with all their dependencies, as one process does that opens them one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tfgpu_doctor.collect.ldso.search_path import Place, SearchPath, folder_of
from tfgpu_doctor.collect.ldso.shared_object import OtherArchitecture, SharedObject, Unloadable, read_shared_object


@dataclass(frozen=True)
class Loaded:
    """A loaded library, and the object that needs it; None if it was opened with dlopen."""

    place: Place
    real_path: str
    words: SharedObject
    needed_by: Loaded | None = None


@dataclass(frozen=True)
class Taken:
    """The first file that the loader found for a name, and the object that asked for it; and why it was refused."""

    name: str
    place: Place
    asker: Loaded | None
    error: str = ""


@dataclass(frozen=True)
class Outcome:
    """The result for one name: the library, or the chain of names down to what is missing or cannot be loaded."""

    loaded: Loaded | None
    chain: tuple[str, ...] = ()
    error: str = ""
    refused: str = ""  # the file that exists but cannot be loaded


@dataclass
class Resolver:
    """A simulated process: the libraries loaded so far, by the names under which they are known.

    `program` is the main program's own RPATH, which applies if an object has no RUNPATH.
    """

    search: SearchPath
    program_rpath: Sequence[str] = ()
    _loaded: dict[str, Loaded] = field(default_factory=dict)
    _read: dict[str, SharedObject | Unloadable] = field(default_factory=dict)
    taken: dict[str, Taken] = field(default_factory=dict)  # by name, in the order of the search

    def preload(self, names: Iterable[str]) -> None:
        """Load the libraries that LD_PRELOAD names; the loader skips those that it cannot load."""
        for name in names:
            self.open(name, None)

    def load_file(self, path: str) -> Loaded | None:
        """An object that is already loaded, by its path; None if it cannot be read."""
        return self._take(Place(self.search.target_files, path, "its path"), None)

    def open(self, name: str, asker: Loaded | None) -> Outcome:
        """dlopen(name), called by an object: the library is loaded with all its dependencies, or nothing is loaded."""
        batch: dict[str, Loaded] = {}
        outcome = self._open(name, asker, batch)
        if outcome.loaded:
            self._loaded.update(batch)
        return outcome

    def candidates(self, name: str, asker: Loaded | None) -> list[Place]:
        """Every file in the loader's path that matches a name, the loader's choice first."""
        rpath, runpath = self._paths_of(asker)
        return [place for place in self.search.places(name, rpath, runpath) if place.files.exists(place.path)]

    def next_after(self, taken: Taken) -> Place | None:
        """The file that the loader would take for the name if the one that it takes were gone; None if there is none."""
        first = taken.place.files.real_path(taken.place.path)
        for place in self.candidates(taken.name, taken.asker):
            try:
                if place.files.real_path(place.path) != first and self._take(place, None):
                    return place
            except Unloadable:
                continue
        return None

    def _open(self, name: str, asker: Loaded | None, batch: dict[str, Loaded], heir: Loaded | None = None) -> Outcome:
        """`heir` is the asker if its RPATH is inherited: it applies to dependencies, but not to libraries opened with dlopen."""
        known = self._loaded.get(name) or batch.get(name)
        if known:
            return Outcome(known)
        refused = None
        for place in self.candidates(name, asker):
            try:
                loaded = self._take(place, heir)
            except OtherArchitecture:
                continue
            except Unloadable as error:
                if name not in self.taken or not self.taken[name].error:
                    self.taken[name] = Taken(name, place, asker, str(error))
                refused = Outcome(None, (name,), str(error), place.path)
                break  # the loader stops at the first damaged file of that name
            if loaded:
                self.taken.setdefault(name, Taken(name, place, asker))
                return self._with_needs(name, loaded, batch)
        return refused or Outcome(None, (name,))

    def _with_needs(self, name: str, loaded: Loaded, batch: dict[str, Loaded]) -> Outcome:
        batch[name] = loaded
        if loaded.words.soname:
            batch.setdefault(loaded.words.soname, loaded)
        for needed in loaded.words.needed:
            outcome = self._open(needed, loaded, batch, heir=loaded)
            if not outcome.loaded:
                return Outcome(None, (name, *outcome.chain), outcome.error, outcome.refused)
        return Outcome(loaded)

    def _take(self, place: Place, needed_by: Loaded | None) -> Loaded | None:
        """The object in a place, None if it cannot be opened. Raises Unloadable."""
        try:
            real = place.files.real_path(place.path)
            if real not in self._read:
                self._read[real] = self._read_one(place)
        except OSError:
            return None
        found = self._read[real]
        if isinstance(found, Unloadable):
            raise found
        return Loaded(place, real, found, needed_by)

    def _read_one(self, place: Place) -> SharedObject | Unloadable:
        try:
            opened = place.files.open_binary(place.path)
        except IsADirectoryError:
            return Unloadable("it is a folder")  # the loader opens it, and then cannot read from it
        with opened as file:
            try:
                size = place.files.status(place.path).size_bytes
                return read_shared_object(file, size, self.search.architecture)
            except Unloadable as error:
                return error

    def holder_of(self, folder: str, asker: Loaded | None) -> str:
        """The path of the object whose RUNPATH or RPATH contains a folder; empty if it is the program itself."""
        while asker:
            listed = asker.words.runpath or asker.words.rpath
            if folder in self.search.expand(listed, folder_of(asker.place.path)):
                return asker.place.path
            asker = asker.needed_by
        return ""

    def _paths_of(self, asker: Loaded | None) -> tuple[list[str], list[str]]:
        """RPATH folders (of the asker, of the objects that need it, and of the program), and RUNPATH folders.

        If the asker has a RUNPATH, no RPATH applies.
        """
        if asker and asker.words.runpath:
            return [], self.search.expand(asker.words.runpath, folder_of(asker.place.path))
        rpath: list[str] = []
        while asker:
            if not asker.words.runpath:
                rpath += self.search.expand(asker.words.rpath, folder_of(asker.place.path))
            asker = asker.needed_by
        return list(dict.fromkeys([*rpath, *self.program_rpath])), []
