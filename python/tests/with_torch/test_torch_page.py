"""The lines of docs/torch.md work as they stand there, on one rank, whose parts are the whole tensors."""

import contextlib
import importlib.util
import io
import os
import pathlib
import re
import tempfile
import textwrap
import unittest

import ranks  # noqa: F401: skips without PyTorch
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import loss_parallel, parallelize_module

import stretto.torch as st

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "torch.md"
HIDDEN, INNER, ROWS, EXPERTS = 64, 128, 8, 4


def block_of(heading, number=0):
    text = PAGE.read_text(encoding="utf-8")
    begin = text.index(f"\n{heading}\n") + len(heading) + 2
    section = text[begin:text.find("\n## ", begin)]
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", section, re.MULTILINE)
    return textwrap.dedent(blocks[number]).strip("\n")


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj = nn.Linear(HIDDEN, INNER, bias=False)
        self.up_proj = nn.Linear(HIDDEN, INNER, bias=False)
        self.down_proj = nn.Linear(INNER, HIDDEN, bias=False)
        self.act_fn = nn.functional.silu

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = Mlp()

    def forward(self, x):
        return self.mlp(x)


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens, self.mlp, self.lm_head = nn.Embedding(ROWS, HIDDEN), Mlp(), nn.Linear(HIDDEN, ROWS)

    def forward(self, ids):
        return self.lm_head(self.mlp(self.embed_tokens(ids)))


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        dist.init_process_group("gloo", init_method=f"file://{os.path.join(cls.folder.name, 'meet')}", rank=0,
                                world_size=1)
        cls.mesh = init_device_mesh("cpu", (1,), mesh_dim_names=("tp",))

    @classmethod
    def tearDownClass(cls):
        dist.destroy_process_group()
        cls.folder.cleanup()

    def run_block(self, block, **names):
        names = {"st": st, "torch": torch, "mesh": self.mesh, **names}
        exec(compile(block, str(PAGE), "exec"), names)
        return names

    def test_operators(self):
        x = torch.randn(ROWS, HIDDEN)
        weight, wq, wk, wv = (torch.randn(HIDDEN, HIDDEN) / 8 for _ in range(4))
        bias, bq, bk, bv, norm_weight = (torch.randn(HIDDEN) for _ in range(5))
        gate, up = (torch.randn(INNER, HIDDEN) / 8 for _ in range(2))
        names = self.run_block(
            block_of("## Operators"), x=x, weight=weight, wq=wq, wk=wk, wv=wv, bias=bias, bq=bq, bk=bk, bv=bv,
            norm_weight=norm_weight, residual=torch.randn(ROWS, HIDDEN), gate=gate, up=up,
            down=torch.randn(HIDDEN, INNER) / 8, ids=torch.randint(EXPERTS, (ROWS, 2), dtype=torch.int32),
            weights=torch.rand(ROWS, 2), router=torch.randn(EXPERTS, HIDDEN),
            gates=torch.randn(EXPERTS, INNER, HIDDEN) / 8,
            ups=torch.randn(EXPERTS, INNER, HIDDEN) / 8, downs=torch.randn(EXPERTS, HIDDEN, INNER) / 8,
            indices=torch.randint(-1, ROWS, (ROWS, EXPERTS, 3)), tables=torch.randn(EXPERTS, ROWS, HIDDEN))
        torch.testing.assert_close(names["k"], x @ wk.T + bk, rtol=1e-3, atol=1e-3)
        self.assertEqual(names["y"].shape, x.shape)
        self.assertEqual(names["sums"].shape, (ROWS, EXPERTS, HIDDEN))

    def test_own_graphs(self):
        x, w = torch.randn(64, 256), torch.randn(512, 256) / 8
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "own.graph"
            path.write_text("graph own m n k\ninput x [m, k] rows\ninput w [n, k] rows\ny = gemm x w\n"
                            "output y cols\n")
            names = self.run_block(block_of("## Graphs").replace("own.graph", str(path)), x=x, w=w, pathlib=pathlib)
        torch.testing.assert_close(names["y"], x @ w.T, rtol=1e-3, atol=1e-3)

    def test_groups(self):
        x, w = torch.randn(ROWS, HIDDEN), torch.randn(HIDDEN, HIDDEN)
        lines = block_of("## Groups").splitlines()
        self.run_block("\n".join([lines[-1], *lines[:-1]]), x=x, w=w)  # options come before the first call

    def test_modules(self):
        def linear(rows, columns):
            return nn.Linear(columns, rows, bias=False)
        names = self.run_block(block_of("## Modules").split("mlp = ")[0], linear=linear(INNER, HIDDEN))
        self.assertEqual(names["up"].weight.shape, (INNER, HIDDEN))
        last = "mlp = " + block_of("## Modules").split("mlp = ")[1]
        mlp = self.run_block(last, gate=linear(INNER, HIDDEN), up=linear(INNER, HIDDEN),
                             down=linear(HIDDEN, INNER))["mlp"]
        self.assertEqual(mlp(torch.randn(ROWS, HIDDEN)).shape, (ROWS, HIDDEN))

    def test_norms_of_gradients(self):
        model = st.parallelize(Model(), self.mesh)
        model(torch.randn(ROWS, HIDDEN)).square().sum().backward()
        right = torch.cat([one.grad.flatten() for one in model.parameters()]).norm()
        norm = self.run_block(block_of("## Gradients"), model=model)["norm"]
        torch.testing.assert_close(norm, right)

    def test_whole_models(self):
        x = torch.randn(ROWS, HIDDEN)
        for number in range(2):
            model = Model()
            expected = model(x)
            names = self.run_block(block_of("## A whole model", number), model=model,
                                   parallelize_module=parallelize_module)
            torch.testing.assert_close(names["model"](x), expected, rtol=1e-3, atol=1e-3)

    def test_models_from_checkpoints(self):
        right, x = Model(), torch.randn(ROWS, HIDDEN)
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for number, (name, tensor) in enumerate(right.state_dict().items()):
                files.append(os.path.join(folder, f"{number}.pt"))
                torch.save({name: tensor}, files[-1])
            model = self.run_block(block_of("## Checkpoints"), Model=Model, files=files)["model"]
            torch.testing.assert_close(model(x), right(x), rtol=1e-3, atol=1e-3)
            text = block_of("## Checkpoints", 1).replace("checkpoint.pt", files[0])
            self.run_block(text, model=model, dist=dist)
            right.load_state_dict(torch.load(files[0]))

    def test_whole_models_with_their_vocabularies(self):
        model, ids = Language(), torch.arange(ROWS).view(1, ROWS)
        expected = model(ids)
        dealt = self.run_block(block_of("## A whole model", 2), model=model)["model"]
        self.assertIsInstance(dealt.lm_head, st.ColumnParallelLinear)
        torch.testing.assert_close(dealt(ids), expected, rtol=1e-3, atol=1e-3)
        try:
            from torch.distributed.tensor import DTensor, Shard
        except ImportError:  # another name in PyTorch before 2.5
            return
        self.run_block(block_of("## A whole model", 3), model=dealt, ids=ids, labels=ids, DTensor=DTensor, Shard=Shard,
                       F=nn.functional, loss_parallel=loss_parallel)
        self.assertEqual(dealt.lm_head.weight.grad.shape, (ROWS, HIDDEN))

    def test_threads(self):
        x, w = torch.randn(4, ROWS, HIDDEN), torch.randn(4, HIDDEN, HIDDEN) / 8
        results = self.run_block(block_of("## Ranks as threads"), x=x, w=w)["results"]
        torch.testing.assert_close(results[3], sum(x[r] @ w[r].T for r in range(4)), rtol=1e-3, atol=1e-2)

    def test_what_was_served_is_told(self):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            self.run_block(block_of("## What is not served").splitlines()[0])

    def test_a_model_need_not_change(self):
        block = block_of("## Without changing a model")
        if importlib.util.find_spec("torch.distributed._symmetric_memory") is None:
            self.assertRaisesRegex(RuntimeError, "no torch.ops.symm_mem; 2.5 has", self.run_block, block)
            return
        self.run_block(block)
        st.disable_symm_mem()


if __name__ == "__main__":
    unittest.main()
