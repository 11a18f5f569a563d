"""parallelize() of what makes tokens' rows and their logits: gathered or cut, tied or not."""

import unittest

from parallelized import HIDDEN, RANKS, Titan, made
from ranks import Numbers, run

import torch
import torch.nn.functional as F
from torch import nn

import stretto.torch as st


class Language(nn.Module):
    """Tokens to logits, as torchtitan names them."""

    def __init__(self, tied, tokens=24):
        super().__init__()
        self.tok_embeddings, self.inner = nn.Embedding(tokens, HIDDEN, padding_idx=1), Titan()
        self.output = nn.Linear(HIDDEN, tokens, bias=not tied)
        if tied:
            self.output.weight = self.tok_embeddings.weight

    def forward(self, ids):
        return self.output(self.inner(self.tok_embeddings(ids)))


class Vocabulary(Numbers):
    IDS = torch.randint(24, (2, 9), generator=torch.Generator().manual_seed(1))

    def check(self, how, tied, ranks=RANKS, tokens=24):
        right, others = made(Language, tied, tokens), [made(Language, tied, tokens) for _ in range(ranks)]
        labels = self.IDS.roll(1, 1)
        expected = right(self.IDS)
        F.cross_entropy(expected.flatten(0, 1), labels.flatten()).backward()

        def program(group):
            model = st.parallelize(others[group.rank], group, vocabulary=how)
            y = model(self.IDS)
            if how == "gathered":
                F.cross_entropy(y.flatten(0, 1), labels.flatten()).backward()
            else:  # what a loss of logits that are cut would give: its part of the gradient
                whole = expected.detach().requires_grad_()
                slope, = torch.autograd.grad(F.cross_entropy(whole.flatten(0, 1), labels.flatten()), whole)
                y.backward(slope.chunk(ranks, -1)[group.rank])
            other = st.parallelize(made(Language, tied, tokens).to("meta"), group, vocabulary=how)
            other.load_state_dict(right.state_dict(), assign=True)
            for name, whole in st.full_state_dict(other).items():
                self.assertTrue(torch.equal(whole, right.state_dict()[name]), name)
            return y.detach(), other(self.IDS).detach(), st.clip_grad_norm_(model, 1e9)

        found = run(ranks, program)
        self.assertFalse(st.report().fallbacks, st.report())
        norm = torch.cat([one.grad.flatten() for one in right.parameters()]).norm()
        for rank, (y, again, got_norm) in enumerate(found):
            part = expected.detach() if how == "gathered" else expected.detach().chunk(ranks, -1)[rank]
            self.assert_close(y, part)
            self.assert_close(again, part)
            self.assert_close(got_norm / norm, torch.ones(()))
            model = others[rank]
            for name, whole in right.output.named_parameters():
                gradient = whole.grad.chunk(ranks)[rank]
                got, rest = getattr(model.output, name).grad.tensor_split([len(gradient)])
                self.assert_close(got / whole.grad.abs().max(), gradient / whole.grad.abs().max())
                self.assertFalse(rest.any())
            self.assertEqual(model.output.weight is model.tok_embeddings.weight, tied)
            if tokens % ranks == 0:
                self.assertEqual(len(model.tok_embeddings.weight), tokens // ranks if tied else tokens)
            if not tied:
                largest = right.tok_embeddings.weight.grad.abs().max()
                self.assert_close(model.tok_embeddings.weight.grad / largest,
                                  right.tok_embeddings.weight.grad / largest)

    def test_logits_that_are_gathered(self):
        self.check("gathered", tied=False)
        self.check("gathered", tied=True, ranks=2)

    def test_vocabularies_that_ranks_do_not_divide(self):
        for how, tied, ranks in (("gathered", False, 2), ("gathered", True, 3), ("cut", True, 2), ("cut", False, 3)):
            with self.subTest(how, tied=tied, ranks=ranks):
                self.check(how, tied, ranks, tokens=25)

    def test_logits_that_stay_cut(self):
        self.check("cut", tied=False, ranks=2)
        self.check("cut", tied=True)

    def test_what_stays_whole_and_what_is_refused(self):
        models = [made(Language, False), made(Titan)]

        def program(group):
            if group.rank == 0:
                return None
            with self.assertRaisesRegex(ValueError, "Titan has no vocabulary that is known: no nn.Linear called lm_"):
                st.parallelize(models[1], group, vocabulary="cut")
            self.assertIsInstance(models[1].layers[0]["attention"].wq, nn.Linear)  # as it was
            with self.assertRaisesRegex(ValueError, "vocabulary is 'whole'; it is one of 'gathered', 'cut', or None"):
                st.parallelize(models[1], group, vocabulary="whole")
            models[0].tok_embeddings.max_norm = 1.0
            models[0].output.weight = models[0].tok_embeddings.weight
            st.parallelize(models[0], group, vocabulary="gathered")
            self.assertIs(models[0].output.weight, models[0].tok_embeddings.weight)
            return None

        run(RANKS, program)
        self.assertIn("output stays whole: Embedding does more than to take rows", str(st.report()))


if __name__ == "__main__":
    unittest.main()
