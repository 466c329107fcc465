"""The SQL functions of resemblance in a session of Python's package `datafusion`.

    import datafusion, resemblance.functions

    ctx = datafusion.SessionContext()
    resemblance.functions.register(ctx)
    ctx.sql("SELECT jaccard([1, 2, 3], [2, 3, 4])")

They come from a shared library, which wheels carry: the functions run in this process, without the command.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datafusion import SessionContext

__all__ = ["library", "register"]

#: The environment variable that names the shared library to load.
VARIABLE = "RESEMBLANCE_FUNCTIONS"

#: The name of capsules with a function, which `datafusion` expects. A capsule keeps the address of this text.
CAPSULE = b"datafusion_scalar_udf"


def register(ctx: SessionContext) -> None:
    """Registers every SQL function of resemblance in the session `ctx`: `shingles`, `minhash`, `jaccard` and others.

    Raises:
        FileNotFoundError: the shared library was not found.
        ImportError: `datafusion` is not installed, or has another version than the library was built for.
    """
    import datafusion

    loaded = _load(library())
    built_for, installed = loaded.resemblance_functions_version(), version("datafusion")
    # A struct of another version would be read wrongly, without an error.
    if installed.split(".")[0] != str(built_for):
        raise ImportError(
            f"the functions of resemblance are built for datafusion {built_for}, and {installed} is installed: "
            f"pip install 'datafusion>={built_for},<{built_for + 1}'"
        )
    number = 0
    while address := loaded.resemblance_function(number):
        ctx.register_udf(datafusion.udf(_Function(address)))
        number += 1


def library() -> Path:
    """The path of the shared library: the one in the environment variable RESEMBLANCE_FUNCTIONS, or else the one that was
    installed with this package.

    Raises:
        FileNotFoundError: there is no file of this path.
    """
    name = {
        "darwin": "libresemblance_functions.dylib",
        "win32": "resemblance_functions.dll",
    }.get(sys.platform, "libresemblance_functions.so")
    path = Path(os.environ.get(VARIABLE) or Path(__file__).parent / name)
    if not path.is_file():
        raise FileNotFoundError(
            f"there is no {path}: build it with `cargo build --release -p resemblance-functions --features foreign "
            f"--example resemblance_functions`, and set {VARIABLE} to its path"
        )
    return path.absolute()


class _Function:
    """A function for `datafusion.udf`, by the address of its struct."""

    def __init__(self, address: int) -> None:
        self._address = address

    def __datafusion_scalar_udf__(self) -> object:
        # Without a destructor: the struct belongs to the library, which stays loaded.
        return _new_capsule()(self._address, CAPSULE, None)


@functools.lru_cache(maxsize=None)
def _load(path: Path) -> ctypes.CDLL:
    loaded = ctypes.CDLL(str(path))
    loaded.resemblance_functions_version.argtypes = []
    loaded.resemblance_functions_version.restype = ctypes.c_uint64
    loaded.resemblance_function.argtypes = [ctypes.c_size_t]
    loaded.resemblance_function.restype = ctypes.c_void_p
    return loaded


@functools.lru_cache(maxsize=None)
def _new_capsule() -> ctypes._FuncPointer:
    create = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return create(("PyCapsule_New", ctypes.pythonapi))
