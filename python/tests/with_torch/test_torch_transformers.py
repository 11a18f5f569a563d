"""Hugging Face's own models, small and with random weights, dealt to ranks: where transformers is installed."""

import importlib.util
import unittest

from ranks import Numbers

import torch

import stretto.torch as st

RANKS = 2
SIZES = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "vocab_size": 97, "max_position_embeddings": 64}


@unittest.skipUnless(importlib.util.find_spec("transformers"), "no transformers")
class Models(Numbers):
    def check(self, name, is_fused=False, vocabulary=None, served="mlp", stays=(), **more):
        import transformers
        config = getattr(transformers, f"{name}Config")(**{**SIZES, **more})

        def model():
            torch.manual_seed(4)
            return getattr(transformers, f"{name}ForCausalLM")(config).to(torch.bfloat16).eval()

        tokens = torch.randint(96, (2, 9), generator=torch.Generator().manual_seed(1))
        whole = model()
        with torch.no_grad():
            right, text = whole(tokens).logits, whole.generate(tokens, max_new_tokens=4, do_sample=False)
        models = [model() for _ in range(RANKS)]  # the generator of numbers is every thread's

        def program(group):
            dealt = st.parallelize(models[group.rank], group, vocabulary=vocabulary)
            logits = dealt(tokens).logits
            logits.float().square().mean().backward()
            with torch.no_grad():
                written = dealt.generate(tokens, max_new_tokens=4, do_sample=False)
            attention = dealt.model.layers[0].self_attn
            norms = {name: one.grad for name, one in attention.named_parameters() if "norm" in name}
            mlp = dealt.model.layers[0].mlp
            router = mlp.gate.weight.grad if served == "moe" else None
            part = mlp.experts.down_proj.grad if served == "moe" else mlp.down_proj.weight.grad
            return logits.detach(), written, part, router, norms

        st.reset_report()
        found = st.run_threads(program, RANKS, timeout_s=60)
        self.assertEqual({reason.partition(" ")[0] for _, reason in st.report().fallbacks}, set(stays))
        self.assertGreater(st.report().served["matmul_all_reduce" if is_fused else served],
                           RANKS * SIZES["num_hidden_layers"])
        whole(tokens).logits.float().square().mean().backward()
        mlp = whole.model.layers[0].mlp
        gradient = mlp.experts.down_proj.grad if served == "moe" else mlp.down_proj.weight.grad
        others = dict(whole.model.layers[0].self_attn.named_parameters())
        for rank, (logits, written, part, router, norms) in enumerate(found):
            self.assert_close(logits, right)
            self.assertEqual(tuple(written.shape), tuple(text.shape))
            largest = gradient.abs().max()
            self.assert_close(part / largest, gradient.chunk(RANKS, -1)[rank] / largest)
            if router is not None:
                largest, error = mlp.gate.weight.grad.abs().max(), (router - mlp.gate.weight.grad).abs().max()
                self.assertLess(error, 5e-2 * largest)  # of weights in bf16, behind experts and their sums
            for one, got in norms.items():
                right_one = others[one].grad / others[one].grad.abs().max()
                self.assert_close(got / others[one].grad.abs().max(), right_one)

    def test_llama(self):
        self.check("Llama")

    def test_qwen2_whose_projections_have_biases(self):
        self.check("Qwen2")

    def test_qwen3_that_norms_heads(self):
        self.check("Qwen3", head_dim=16)

    def test_vocabularies_that_are_dealt(self):
        for tied in (False, True):
            self.check("Llama", vocabulary="gathered", vocab_size=96, tie_word_embeddings=tied)

    def test_heads_and_vocabularies_that_ranks_do_not_divide(self):
        self.check("Llama", vocabulary="gathered", num_attention_heads=6, num_key_value_heads=3, hidden_size=96)
        self.check("Qwen2", num_attention_heads=6, num_key_value_heads=3, hidden_size=96, intermediate_size=100)

    def test_one_head_of_keys(self):
        self.check("Llama", num_key_value_heads=1)
        self.check("Phi3", is_fused=True, pad_token_id=0, num_key_value_heads=1)

    def test_phi3_whose_weights_are_fused(self):
        self.check("Phi3", is_fused=True, pad_token_id=0)

    def test_mixtures_of_experts(self):
        self.check("Mixtral", served="moe", num_local_experts=4)
        experts = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 48, "served": "moe"}
        self.check("Qwen3Moe", head_dim=16, norm_topk_prob=True, **experts)
        self.check("Qwen2Moe", shared_expert_intermediate_size=64, **experts)

    def test_mistral(self):
        self.check("Mistral")


if __name__ == "__main__":
    unittest.main()
