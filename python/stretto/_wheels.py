"""CUDA's libraries as pip installs them (nvidia-*): the loader does not find them by itself."""

import ctypes
import importlib.util
import os
import pathlib

# What libstretto.so opens by name, and what NVRTC opens in turn.
TOOLKIT = ("libnvrtc-builtins.so.1*", "libnvrtc.so.1*", "libcublasLt.so.1*")
NCCL = ("libnccl.so.2",)


def folders():
    spec = importlib.util.find_spec("nvidia")
    roots = map(pathlib.Path, (spec.submodule_search_locations if spec else None) or [])
    return [folder for root in roots for folder in sorted(root.glob("*/lib"), reverse=True)]


def is_loaded(name):
    try:
        ctypes.CDLL(name, mode=os.RTLD_NOW | os.RTLD_NOLOAD)
        return True
    except OSError:
        return False


def preload(among=None):
    """Loads them, so that libstretto.so finds them by name: the files that PyTorch takes, too.

    What the process has already stays; CUDA_HOME and STRETTO_NCCL_PATH choose others.
    """
    wanted = () if os.environ.get("CUDA_HOME") else TOOLKIT
    wanted += () if os.environ.get("STRETTO_NCCL_PATH") else NCCL
    loaded = []
    for pattern in wanted:
        found = [path for folder in (folders() if among is None else among)
                 for path in sorted(folder.glob(pattern), reverse=True)
                 if ".alt." not in path.name]
        if not found or is_loaded(found[0].name):
            continue
        try:
            ctypes.CDLL(os.fspath(found[0]))
            loaded.append(found[0])
        except OSError:
            pass  # libstretto.so says what is missing, if it needs it
    return loaded
