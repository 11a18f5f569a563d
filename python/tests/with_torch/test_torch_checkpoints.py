"""Whole checkpoints in layers that are dealt to ranks: each rank takes its part."""

import unittest

from ranks import Numbers, normal, run  # first: without PyTorch it skips

import torch

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
