"""Claims: which of several processes on one machine measures which product of the record that they share."""

import hashlib
import tempfile
from pathlib import Path

import filelock


class Claims:
    """The claims of this process on products of the record at `path`.

    A claim is a lock of the operating system's, so it ends with its process, however that ends. Each lock has a file in
    the folder for temporary files, where none of them is in the way.
    """

    def __init__(self, path: Path):
        place = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]
        self._folder = Path(tempfile.gettempdir()) / f"tilewright-bench-{place}"
        self._folder.mkdir(exist_ok=True)
        self._held: dict[str, filelock.BaseFileLock] = {}
        self.exclusive = self._lock("record")
        """Held while the record is read and replaced; for a `with` block, also within another one."""

    def take(self, product: str) -> bool:
        """Claim a product; False if another process has claimed it."""
        lock = self._lock(product)
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            return False
        self._held[product] = lock
        return True

    def give_back(self, product: str) -> None:
        """Let others claim the product, if this process has claimed it."""
        if (lock := self._held.pop(product, None)) is not None:
            lock.release()

    def give_all_back(self) -> None:
        """Let others claim all products of this process."""
        for product in tuple(self._held):
            self.give_back(product)

    def _lock(self, name: str) -> filelock.BaseFileLock:
        return filelock.FileLock(self._folder / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.lock")
