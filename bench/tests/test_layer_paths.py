"""layer_paths.py, expert_paths.py and moved_paths.py on CPU tensors: every sequence that needs no GPU gives the reference's numbers on
two ranks of gloo, and so does Stretto by the emulator, of the tensors that they give it. Skips without PyTorch."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "python"), str(ROOT / "python" / "tests" / "with_torch")]

import ranks  # noqa: E402,F401  (PyTorch, or no tests)

SMALL = {"mlp": {"m": 8, "h": 32, "f": 64}, "gemm-ar-norm": {"m": 6, "n": 32, "k": 64},
         "gemm-rs-norm": {"m": 6, "n": 32, "k": 64}, "gemm-rs-norm-ag": {"m": 6, "n": 32, "k": 64},
         "gemm-a2a": {"m": 6, "n": 32, "k": 32}, "a2a-gemm": {"m": 6, "n": 32, "k": 32},
         "layer": {"m": 8, "h": 32, "f": 64, "heads": 4, "kv-heads": 2, "head-dim": 16},
         "moe-tp": {"t": 10, "h": 32, "f": 64, "experts": 6, "k": 2},
         "moe-tp-up": {"t": 10, "h": 32, "f": 64, "experts": 6, "k": 2},
         "moe-tp-down": {"t": 10, "h": 32, "f": 64, "experts": 6, "k": 2},
         "moe-ep": {"t": 10, "h": 32, "f": 64, "experts": 6, "k": 2},
         "dispatch": {"t": 10, "h": 32, "experts": 6, "k": 2}, "combine": {"t": 10, "h": 32, "experts": 6, "k": 2},
         "dispatch-combine": {"t": 10, "h": 32, "experts": 6, "k": 2}}


def one_rank(rank, meeting):
    """What is wrong, a line each; what ran."""
    import torch
    import torch.distributed as dist

    import stretto
    import stretto.torch as st
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    from bench.rivals import expert_paths, layer_paths, moved_paths, one_pass, path_base
    one_pass.checked()
    st.init(timeout_s=60)
    place = path_base.Place(rank, 2, "cpu", dist.group.WORLD.group_name)
    for name, sizes in SMALL.items():
        torch.manual_seed(5 + rank)
        kind = (layer_paths.PATHS | expert_paths.PATHS | moved_paths.PATHS)[name]
        paths = kind(place, **{key.replace("-", "_"): size for key, size in sizes.items()})
        right = paths.reference()
        paths.parts()  # whoever has none says so
        assert 0 < paths.link_bytes() <= 8 * 8 * 32 * 2, (name, paths.link_bytes())
        infos = stretto.tensors(name, ranks=2, rank=rank, sizes=sizes)
        given = {**paths.inputs, **paths.outputs}
        assert set(infos) == set(given), (name, set(infos) ^ set(given))
        for one, info in infos.items():
            assert given[one].numel() == info.shape[0] * info.shape[1] and given[one].is_contiguous(), (name, one)
            assert given[one].data_ptr() % 16 == 0, f"{name}: {one} begins at no multiple of 16 bytes"

        def close(what, got):
            error = (got.float() - right.float()).norm() / right.float().norm()
            assert error <= paths.most_error, f"{name} {what}: {error:.1e}"  # noqa: B023
            print(name, what)
        for call in paths.alone().values():
            call()
        for what, call in paths.theirs().items():
            look = paths.look_of(call) if hasattr(paths, "look_of") else paths.look
            call().fill_(float("nan"))
            close(what, look(call()))
        inputs = {one: tensor.reshape(infos[one].shape) if one not in ("wg", "wu", "wd") else tensor
                  for one, tensor in paths.inputs.items()}
        made = st.run_graph(name, inputs, sizes=sizes)
        close("stretto", paths.look(made[paths.result]))
        if name == "dispatch":
            assert made["counts"].flatten().tolist() == paths.counts.tolist()
    os._exit(0)


class Paths(unittest.TestCase):
    def test_all_give_the_same_numbers(self):
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "TRITON_INTERPRET": "1",
                           "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "python")])}
            jobs = [subprocess.Popen([sys.executable, __file__, str(rank), f"{folder}/meet"], text=True, cwd=ROOT,
                                     env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(2)]
            for job in jobs:
                out, err = job.communicate(timeout=200)
                self.assertEqual(job.returncode, 0, err[-3000:])
                told = out.splitlines()
                for name in SMALL:
                    self.assertIn(f"{name} stretto", told)
                self.assertIn("moe-ep nccl torch", told)
                self.assertIn("dispatch-combine nccl a2a", told)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        one_rank(int(sys.argv[1]), sys.argv[2])
    unittest.main()
