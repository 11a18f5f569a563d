"""Whole checkpoints in layers that are dealt to ranks: each rank takes its part."""

import copy
import io
import unittest

from ranks import Numbers, normal, run  # first: without PyTorch it skips

import torch
from torch import nn

from job_common import H
from job_modules import Model, model_of

import stretto.torch as st

RANKS = 2


def on_meta():
    with torch.device("meta"):
        return Model().to(torch.bfloat16)


class Checkpoints(Numbers):
    def setUp(self):
        self.whole = model_of()
        self.state = self.whole.state_dict()
        self.x = normal(1, 2, 6, H)

    def dealt(self, load):
        """What every rank's model computes, made of an empty one by load(model), and its parameters."""
        models = [on_meta() for _ in range(RANKS)]

        def program(group):
            model = load(st.parallelize(models[group.rank], group))
            with torch.no_grad():
                return model(self.x), {name: one.detach() for name, one in model.named_parameters()}

        return run(RANKS, program)

    def check(self, found):
        for rank, (y, parameters) in enumerate(found):
            self.assertEqual(list(parameters), list(self.state))
            self.assert_close(y, self.whole(self.x))
            for name, cut in (("self_attn.q_proj.weight", 0), ("self_attn.k_proj.bias", 0), ("mlp.up_proj.weight", 0),
                              ("self_attn.o_proj.weight", 1), ("mlp.down_proj.weight", 1)):
                own = parameters[name]
                self.assertTrue(torch.equal(own, self.state[name].chunk(RANKS, cut)[rank]), name)
                self.assertTrue(own.is_contiguous())
                # Nothing keeps the whole tensor alive; gate and up lie together.
                together = 2 if name == "mlp.up_proj.weight" else 1
                self.assertEqual(own.untyped_storage().nbytes(), together * own.numel() * own.element_size())

    def test_a_model_on_meta_is_filled(self):
        def load(model):
            model.to_empty(device="cpu").load_state_dict(self.state)
            return model

        self.check(self.dealt(load))

    def test_a_model_on_meta_is_assigned(self):
        def load(model):
            said = model.load_state_dict(self.state, assign=True)
            self.assertEqual((said.missing_keys, said.unexpected_keys), ([], []))
            self.assertTrue(all(one.requires_grad for one in model.parameters()))
            return model

        self.check(self.dealt(load))
        self.assertEqual(self.state["mlp.up_proj.weight"].shape, (64, H))  # the caller's is as it was

    def test_files_of_a_checkpoint_one_by_one(self):
        def load(model):
            for name, tensor in self.state.items():
                model.load_state_dict({name: tensor}, strict=False, assign=True)
            return model

        self.check(self.dealt(load))

    def test_parts_are_taken_as_they_are(self):
        def load(model):
            model.load_state_dict(self.state, assign=True)
            other = st.parallelize(on_meta(), model.mlp.up_proj.group).to_empty(device="cpu")
            other.load_state_dict(model.state_dict())
            return other

        self.check(self.dealt(load))

    def test_there_and_back(self):
        """Whole tensors of dealt layers, also where ranks have the same heads, and of a head and an embedding that are
        one: a checkpoint of the model as it was.
        """
        def made():
            torch.manual_seed(5)
            model = nn.Module()
            model.embed_tokens, model.lm_head = nn.Embedding(24, H), nn.Linear(H, 24, bias=False)
            model.lm_head.weight = model.embed_tokens.weight
            model.layer = model_of(kv_heads=1)
            model.register_buffer("steps", torch.arange(3))
            return model

        whole, dealt = made(), [made() for _ in range(RANKS)]
        state = whole.state_dict()

        def program(group):
            model = st.parallelize(dealt[group.rank], group, vocabulary="gathered")
            found = st.full_state_dict(model)
            first = st.full_state_dict(model, device="cpu", rank0_only=True)
            other = st.parallelize(made().to_empty(device="cpu"), group, vocabulary="gathered")
            other.load_state_dict(found)
            return found, first, model.state_dict(), other.state_dict()

        for rank, (found, first, own, loaded) in enumerate(run(RANKS, program)):
            self.assertEqual(list(found), list(state))
            self.assertEqual(list(first), list(state) if rank == 0 else [])
            for name, tensor in state.items():
                self.assertTrue(torch.equal(found[name], tensor), name)
                self.assertTrue(torch.equal(own[name], loaded[name]), name)
            self.assertIs(found["lm_head.weight"], found["embed_tokens.weight"])
            self.assertLess(own["layer.self_attn.q_proj.weight"].numel(), state["layer.self_attn.q_proj.weight"].numel())

    def test_parts_of_one_weight_come_back_in_their_order(self):
        linear = nn.Linear(H, 48 + 16 + 8)

        def program(group):
            layer = st.ColumnParallelLinear.from_linear(linear, group, parts=(48, 16, 8), replicas=(1, 1, RANKS))
            return st.full_state_dict(layer)

        for found in run(RANKS, program):
            for name, tensor in linear.state_dict().items():
                self.assertTrue(torch.equal(found[name], tensor), name)

        with self.assertRaisesRegex(ValueError, "self_attn.q_proj.weight is on meta: it has a shape, and no data"):
            st.full_state_dict(on_meta())

    def test_parts_that_are_filled_up_are_none_of_a_whole_tensors_size(self):
        """Of 8 columns 3 ranks have 3, which are filled up: to 16, since a checkpoint has 8."""
        x = torch.randn(4, H)
        for width, ranks in ((8, 3), (8, 5), (16, 3)):
            whole = nn.Sequential(nn.Linear(H, width), nn.Linear(width, H)).requires_grad_(False)

            def program(group):
                up, down = nn.Linear(H, width), nn.Linear(width, H)
                dealt = nn.Sequential(st.ColumnParallelLinear.from_linear(up, group, sequence_parallel=False),
                                      st.RowParallelLinear.from_linear(down, group, sequence_parallel=False))
                dealt.load_state_dict(whole.state_dict())
                with torch.no_grad():
                    return dealt(x)

            for y in run(ranks, program):
                self.assert_close(y, whole(x))

        stack = torch.randn(2, H, 8)

        def loaded(group):
            experts = st.ParallelExperts.from_stacks(torch.zeros(2, 16, H), torch.zeros(2, H, 8), group)
            experts.load_state_dict({"gate_up_proj": torch.zeros(2, 16, H), "down_proj": stack})
            return experts.down_proj.detach()

        for rank, own in enumerate(run(RANKS, loaded)):
            self.assertTrue(torch.equal(own[..., :4], stack.chunk(RANKS, -1)[rank]))
            self.assertFalse(own[..., 4:].any())

    def test_modules_whose_gradients_are_summed_are_copied_and_saved(self):
        def program(group):
            attention = Model().self_attn
            attention.q_norm = nn.LayerNorm(8)
            st.parallelize(nn.Sequential(attention), group)
            kept = io.BytesIO()
            torch.save(attention, kept)
            kept.seek(0)
            found = [copy.deepcopy(attention), torch.load(kept, weights_only=False)]
            nn.init.constant_(dict(attention.named_parameters())["q_norm.weight"], 7)
            gradients = []
            for one in (*found, attention):
                self.assertIs(type(one.q_norm).__base__, nn.LayerNorm)
                (one.q_norm(torch.eye(8)) * (group.rank + 1)).square().sum().backward()
                gradients.append(dict(one.named_parameters())["q_norm.weight"].grad)
            return [one.q_norm.weight.detach() for one in found], gradients

        for weights, gradients in run(RANKS, program):
            self.assertTrue(all(torch.equal(one, torch.ones(8)) for one in weights))  # they are their own
            self.assertTrue(torch.equal(gradients[0], gradients[1]))
            self.assert_close(gradients[2] / gradients[2].abs().max(), gradients[0] / gradients[0].abs().max())
        self.assertTrue(torch.equal(*(gradients[0] for _, gradients in run(RANKS, program))))

    def test_what_does_not_fit_is_named(self):
        self.state["mlp.up_proj.weight"] = torch.zeros(48, H)

        def program(group):
            model = st.parallelize(on_meta(), group).to_empty(device="cpu")
            with self.assertRaises(RuntimeError) as caught:
                model.load_state_dict(self.state)
            return str(caught.exception)

        for rank, said in enumerate(run(RANKS, program)):
            self.assertIn(f"size mismatch for mlp.up_proj.weight: the checkpoint has [48, {H}], where the whole tensor "
                          f"is [64, {H}] and the part of rank {rank} of {RANKS} [32, {H}]", said)
            self.assertEqual(said.count("mlp.up_proj"), 1)


if __name__ == "__main__":
    unittest.main()
