// A config.json becomes linears; one that is wrong is refused by file and key.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/model.h"
#include "stretto/error.h"

namespace stretto {
namespace {

using testing::HasSubstr;

std::string refusal(std::string_view text) {
  try {
    parse_model(text, "config.json");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

constexpr std::string_view kLlama = R"({"model_type": "llama", "hidden_size": 4096,
  "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8,
  "num_hidden_layers": 32, "rope_scaling": {"factor": 8.0}})";

TEST(ModelConfig, GatedModelHasFourLinears) {
  const Model model = parse_model(kLlama, "config.json");
  EXPECT_EQ(model.head_dim, 128);
  EXPECT_EQ(model.layers, 32);
  const std::vector<Linear> linears = linears_of(model);
  ASSERT_EQ(linears.size(), 4u);
  const auto is = [](const Linear& linear, std::string_view name, Cut cut, int64_t n, int64_t k) {
    return linear.name == name && linear.cut == cut && linear.n == n && linear.k == k;
  };
  EXPECT_TRUE(is(linears[0], "qkv", Cut::by_outputs, 4096 + 2 * 1024, 4096));
  EXPECT_TRUE(is(linears[1], "out", Cut::by_inputs, 4096, 4096));
  EXPECT_TRUE(is(linears[2], "gate_up", Cut::by_outputs, 28672, 4096));
  EXPECT_TRUE(is(linears[3], "down", Cut::by_inputs, 4096, 14336));
}

TEST(ModelConfig, HeadsOfKAndVAreOnSeveralOfManyRanks) {
  const Model model = parse_model(kLlama, "config.json");
  EXPECT_EQ(linears_of(model, 8)[0].n, 4096 + 2 * 1024);
  EXPECT_EQ(linears_of(model, 16)[0].n, 4096 + 2 * 2048);
}

TEST(ModelConfig, OlderNamesAndDefaultsAreRead) {
  const Model model = parse_model(
      R"({"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12, "n_inner": null})",
      "config.json");
  const std::vector<Linear> linears = linears_of(model);
  ASSERT_EQ(linears.size(), 4u);
  EXPECT_EQ(linears[0].n, 3 * 768);
  EXPECT_EQ(linears[2].name, "up");
  EXPECT_EQ(linears[2].n, 4 * 768);
}

TEST(ModelConfig, ExpertsAreCountedAndHaveNoLinears) {
  const Model model = parse_model(
      R"({"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4,
          "num_hidden_layers": 2, "num_local_experts": 8, "num_experts_per_tok": 2})",
      "config.json");
  EXPECT_EQ(linears_of(model).size(), 2u);
  EXPECT_TRUE(model.is_routed());
  EXPECT_EQ(model.experts_a_row, 2);
  EXPECT_EQ(model.intermediate, 96);
}

std::string parts_of(const Model& model) {
  std::string parts;
  for (const Unserved& one : unserved_parts(model)) parts += one.part + " ";
  return parts;
}

TEST(ModelConfig, WhatNoOperatorServesIsNamed) {
  EXPECT_EQ(parts_of(parse_model(kLlama, "config.json")), "attention the rest ");
  const Model deep = parse_model(
      R"({"hidden_size": 64, "intermediate_size": 96, "moe_intermediate_size": 32,
          "num_attention_heads": 4, "num_hidden_layers": 5, "n_routed_experts": 8,
          "num_experts_per_tok": 2, "n_shared_experts": 1, "first_k_dense_replace": 2,
          "kv_lora_rank": 16, "v_head_dim": 24})",
      "config.json");
  EXPECT_EQ(parts_of(deep), "latent attention shared unrouted the rest ");
  EXPECT_EQ(deep.intermediate, 32);
  EXPECT_EQ(deep.unrouted_layers, 2);
  const std::vector<Linear> linears = linears_of(deep);
  ASSERT_EQ(linears.size(), 1u);
  EXPECT_EQ(linears[0].name, "out");
  EXPECT_EQ(linears[0].k, 4 * 24);
}

TEST(ModelConfig, CountsOfNoneAreRead) {
  const Model model = parse_model(
      R"({"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4,
          "num_hidden_layers": 2, "num_experts": 0, "n_shared_experts": 0})",
      "config.json");
  EXPECT_FALSE(model.is_routed());
  EXPECT_EQ(linears_of(model).size(), 4u);
}

// What a family says of heads of K and V in words of its own.
TEST(ModelConfig, OneHeadOfKAndVIsRead) {
  const auto kv_heads = [](const std::string& more) {
    return parse_model(
               R"({"hidden_size": 64, "n_head": 8, "n_layer": 2, "num_kv_heads": 4, )" + more + "}",
               "config.json")
        .kv_heads;
  };
  EXPECT_EQ(kv_heads(R"("model_type": "falcon", "multi_query": true)"), 1);
  EXPECT_EQ(kv_heads(R"("model_type": "falcon", "multi_query": false)"), 8);
  EXPECT_EQ(kv_heads(R"("model_type": "falcon", "new_decoder_architecture": true,
                        "multi_query": true)"),
            4);
  EXPECT_EQ(kv_heads(R"("model_type": "gpt_bigcode")"), 1);
  EXPECT_EQ(kv_heads(R"("model_type": "gpt_bigcode", "multi_query": false)"), 8);
  EXPECT_EQ(kv_heads(R"("model_type": "mpt", "attn_config": {"kv_n_heads": 2})"), 2);
  EXPECT_EQ(kv_heads(R"("ffn_hidden_size": 96, "multi_query_attention": true,
                        "multi_query_group_num": 2)"),
            2);
}

TEST(ModelConfig, KeysOfGptNeoAreRead) {
  const Model model = parse_model(
      R"({"model_type": "gpt_neo", "hidden_size": 2048, "num_heads": 16, "num_layers": 24,
          "intermediate_size": null})",
      "config.json");
  EXPECT_EQ(model.layers, 24);
  EXPECT_EQ(model.heads, 16);
  EXPECT_EQ(linears_of(model)[2].n, 4 * 2048);
}

TEST(ModelConfig, SizesOfModelsThatSeeAreBelow) {
  const Model model = parse_model(R"({"vision_config": {"hidden_size": 1},
      "text_config": {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4,
      "head_dim": 32, "num_hidden_layers": 2}})",
                                  "config.json");
  EXPECT_EQ(model.hidden, 64);
  EXPECT_EQ(linears_of(model)[1].k, 128);
}

TEST(ModelConfig, WhatIsWrongIsNamed) {
  EXPECT_THAT(refusal("[]"), HasSubstr("'config.json': it is no JSON object"));
  EXPECT_THAT(refusal("{\"hidden_size\": "), HasSubstr("not JSON at line 1"));
  EXPECT_THAT(refusal("{}"), HasSubstr("'hidden_size' is missing"));
  EXPECT_THAT(refusal(R"({"hidden_size": -1})"), HasSubstr("'hidden_size' must be a whole number"));
  EXPECT_THAT(refusal(R"({"hidden_size": "64"})"), HasSubstr("found '\"64\"'"));
  EXPECT_THAT(refusal(R"({"hidden_size": 1e30})"), HasSubstr("from 1 to 1048576"));
  EXPECT_THAT(refusal(R"({"hidden_size": 64, "num_attention_heads": 3, "num_hidden_layers": 1})"),
              HasSubstr("3 heads do not divide"));
  EXPECT_THAT(refusal(R"({"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 1,
                          "kv_lora_rank": 512})"),
              HasSubstr("'v_head_dim' is missing"));
  EXPECT_THAT(refusal(R"({"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 1,
                          "num_experts": 4, "num_experts_per_tok": 5})"),
              HasSubstr("'num_experts_per_tok' must be a whole number from 0 to 4"));
  EXPECT_THAT(refusal(std::string(5000, '[')), HasSubstr("nested too deeply"));
}

TEST(PublishedModels, EachHasLinearsAndASource) {
  ASSERT_GE(published_models().size(), 20u);
  for (const Model& model : published_models()) {
    EXPECT_THAT(model.source, testing::StartsWith("https://")) << model.name;
    const size_t of_attention = model.latent_v_dim > 0 ? 1 : 2;
    EXPECT_EQ(linears_of(model).size(), of_attention + (model.is_routed() ? 0 : 2)) << model.name;
  }
}

// Hidden size, inner columns, experts and how many a row takes, as benchmarks have them.
TEST(PublishedModels, HaveTheExpertsThatAreMeasured) {
  const auto sizes = [](const char* name) {
    const Model model = load_model(name);
    return std::vector<int64_t>{model.hidden, model.intermediate, model.experts,
                                model.experts_a_row, model.layers - model.unrouted_layers};
  };
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(sizes("mixtral-8x7b"), (Sizes{4096, 14336, 8, 2, 32}));
  EXPECT_EQ(sizes("qwen3-30b-a3b"), (Sizes{2048, 768, 128, 8, 48}));
  EXPECT_EQ(sizes("qwen3-235b-a22b"), (Sizes{4096, 1536, 128, 8, 94}));
  EXPECT_EQ(sizes("deepseek-v3"), (Sizes{7168, 2048, 256, 8, 58}));
  EXPECT_EQ(sizes("gpt-oss-120b"), (Sizes{2880, 2880, 128, 4, 36}));
  EXPECT_EQ(sizes("glm-4.5"), (Sizes{5120, 1536, 160, 8, 89}));
  EXPECT_TRUE(load_model("glm-4.5").has_shared_experts);
  EXPECT_EQ(linears_of(load_model("qwen3-30b-a3b"))[0].n, (32 + 2 * 4) * 128);
  EXPECT_EQ(linears_of(load_model("deepseek-v3"))[0].k, 128 * 128);
  for (const Model& model : published_models()) {
    EXPECT_EQ(!measured_experts(model).empty(), model.is_routed()) << model.name;
  }
  const std::string config = R"({"hidden_size": 2048, "num_attention_heads": 16,
      "num_hidden_layers": 2, "moe_intermediate_size": 768, "num_experts_per_tok": 8, "num_experts": )";
  EXPECT_NE(measured_experts(parse_model(config + "128}", "config.json")), "");
  EXPECT_EQ(measured_experts(parse_model(config + "64}", "config.json")), "");
}

TEST(PublishedModels, AreFoundByNameAndMissedWithASuggestion) {
  const Model model = load_model("llama-3-70b");
  const std::vector<Linear> linears = linears_of(model);
  EXPECT_EQ(find_linear(model, linears, "down").k, 28672);
  const auto miss = [&](auto action) -> std::string {
    try {
      action();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(miss([] { load_model("lama-3-70b"); }), HasSubstr("did you mean 'llama-3-70b'"));
  EXPECT_THAT(miss([&] { find_linear(model, linears, "downn"); }), HasSubstr("'down'"));
}

}  // namespace
}  // namespace stretto
