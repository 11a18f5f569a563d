// What `stretto model` says of a model: measured where a tuning file knows it, else predicted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "stub_environment.h"

namespace stretto {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kConfig = R"({"model_type": "llama", "hidden_size": 256,
  "intermediate_size": 512, "num_attention_heads": 4, "num_key_value_heads": 2,
  "num_hidden_layers": 3})";

class ModelVerb : public StubEnvironment {
 protected:
  json estimated(const std::vector<std::string>& more) const {
    const Said said = stretto_says(std::vector<std::string>{"model", "--json"} + more);
    EXPECT_EQ(said.exit_code, 0) << said.err;
    return json::parse(said.out);
  }

  ScratchFolder folder_;
  const std::string config_ = folder_.file("config.json", kConfig);
};

TEST_F(ModelVerb, PredictsEveryLinearAndAddsUpTheLayer) {
  const json said = estimated({config_, "--tp", "2", "--rows", "64,1K"});
  ASSERT_EQ(said.at("results").size(), 2u);
  for (const json& layer : said.at("results")) {
    double library = 0;
    for (const json& linear : layer.at("linears")) {
      EXPECT_EQ(linear.at("from"), "predicted");
      library += linear.at("library_us").get<double>();
    }
    EXPECT_EQ(layer.at("linears").size(), 4u);
    EXPECT_DOUBLE_EQ(layer.at("library_us").get<double>(), library);
    EXPECT_GT(layer.at("prediction_error").at("measurements").get<int>(), 100);
  }
  EXPECT_EQ(said.at("results")[1].at("rows"), 1024);
}

TEST_F(ModelVerb, TakesWhatWasMeasured) {
  const std::string down = "gemm-rs m=1024 n=256 k=512 ranks=2 dtype=bf16";
  const json simulated = json::parse(
      stretto_says({"simulate", "gemm-rs", "1024x256x512@2", "--strategy", "tiles", "--json"}).out);
  const json tuning = {{"stretto_tuning", 1},
                       {"operators",
                        {{{"operator", down},
                          {"machine", "h200x8"},
                          {"library_us", 50.0},
                          {"measured",
                           {{{"schedule", simulated.at("results")[0].at("schedule")},
                             {"time_us", 20.0},
                             {"low_us", 19.0},
                             {"high_us", 21.0}}}}}}}};
  set("STRETTO_TUNING_FILE", folder_.file("tuning.json", tuning.dump()));
  const json linears =
      estimated({config_, "--tp", "2", "--rows", "1K"}).at("results")[0].at("linears");
  EXPECT_EQ(linears[2].at("from"), "predicted");
  EXPECT_EQ(linears[3].at("from"), "measured");
  EXPECT_DOUBLE_EQ(linears[3].at("gain").get<double>(), 2.5);
}

// A file that was written by hand has a schedule in short; and where the library was faster it is
// what auto takes.
TEST_F(ModelVerb, TakesTheTimeOfWhatAutoTakes) {
  const auto down_where = [&](double library_us) {
    const json tuning = {
        {"stretto_tuning", 1},
        {"operators",
         {{{"operator", "gemm-rs m=1024 n=256 k=512 ranks=2 dtype=bf16"},
           {"machine", "h200x8"},
           {"library_us", library_us},
           {"measured",
            {{{"schedule", "tiles"}, {"time_us", 20.0}, {"low_us", 19.0}, {"high_us", 21.0}}}}}}}};
    set("STRETTO_TUNING_FILE", folder_.file("tuning.json", tuning.dump()));
    return estimated({config_, "--tp", "2", "--rows", "1K"}).at("results")[0].at("linears")[3];
  };
  const json fused = down_where(50);
  EXPECT_EQ(fused.at("from"), "measured");
  EXPECT_EQ(fused.at("schedule"), "tiles");
  EXPECT_DOUBLE_EQ(fused.at("stretto_us").get<double>(), 20);
  const json library = down_where(10);
  EXPECT_EQ(library.at("from"), "measured");
  EXPECT_EQ(library.at("schedule"), "library");
  EXPECT_DOUBLE_EQ(library.at("stretto_us").get<double>(), 10);
}

TEST_F(ModelVerb, ExpertsAreEstimatedAsTheirPlan) {
  const std::string config = folder_.file("experts.json", R"({"hidden_size": 256,
    "intermediate_size": 512, "num_attention_heads": 4, "num_hidden_layers": 3,
    "num_local_experts": 4, "num_experts_per_tok": 2})");
  for (const std::string kind : {"moe-tp", "moe-ep"}) {
    std::vector<std::string> line = {config, "--tp", "2", "--rows", "256"};
    if (kind == "moe-ep") line.push_back("--ep");
    const json said = estimated(line);
    const json layer = said.at("results")[0], experts = layer.at("linears").back();
    EXPECT_EQ(experts.at("linear"), "experts");
    EXPECT_EQ(experts.at("operator").at("kind"), kind);
    EXPECT_EQ(experts.at("from"), "predicted");
    // What goes by ids lies in slots that all plans share.
    const auto schedule = experts.at("schedule").get<std::string>();
    const bool by_ids = schedule.find("low-latency") != std::string::npos;
    EXPECT_EQ(experts.at("symmetric_bytes").get<size_t>() == 0, by_ids);
    EXPECT_TRUE(by_ids);
    EXPECT_EQ(layer.at("runs_on_gpus"), experts.at("runs_on_gpus"));
    EXPECT_EQ(said.at("not_served")[0].at("part"), "attention");
  }
  const json none =
      estimated({config, "--tp", "2", "--rows", "256", "--all-reduce"}).at("results")[0];
  EXPECT_THAT(none.at("linears").back().at("refused"), HasSubstr("every rank has all rows"));
  EXPECT_FALSE(none.contains("gain"));
}

// One rank was measured, of the sizes of published models only.
TEST_F(ModelVerb, SaysWhichExpertsWereMeasured) {
  const auto measured = [&](const std::string& model) {
    return estimated({model, "--tp", "2", "--rows", "16"})
        .at("experts_measured")
        .get<std::string>();
  };
  const std::string results = measured("qwen3-30b-a3b");
  EXPECT_THAT(results, HasSubstr("bench/results/moe_"));
  EXPECT_EQ(measured(folder_.file("experts.json", R"({"hidden_size": 256,
      "intermediate_size": 512, "num_attention_heads": 4, "num_hidden_layers": 3,
      "num_local_experts": 4, "num_experts_per_tok": 2})")),
            "");
  EXPECT_EQ(measured(config_), "");
  const std::string said = stretto_says({"model", "mixtral-8x7b", "--rows", "16"}).out;
  EXPECT_THAT(said, HasSubstr(results));
  EXPECT_THAT(said, testing::Not(HasSubstr("No layer of")));
}

TEST_F(ModelVerb, WithoutSequenceParallelismGathersNothing) {
  const json linears = estimated({config_, "--tp", "2", "--rows", "64", "--all-reduce"})
                           .at("results")[0]
                           .at("linears");
  EXPECT_EQ(linears[0].at("operator").at("kind"), "col-gemm");
  EXPECT_EQ(linears[1].at("operator").at("kind"), "gemm-ar");
}

TEST_F(ModelVerb, LinearsThatCannotBeSharedSayWhyAndTheOthersStay) {
  const Said said = stretto_says({"model", config_, "--tp", "3", "--rows", "96"});
  EXPECT_EQ(said.exit_code, 0);
  EXPECT_THAT(said.out, HasSubstr("not estimated: "));
  EXPECT_THAT(said.out, HasSubstr("4 heads are no multiple of 3 ranks"));
  EXPECT_THAT(said.out, testing::Not(HasSubstr("3 layers:")));
  EXPECT_NE(estimated({config_, "--tp", "3", "--rows", "96"})
                .at("results")[0]
                .at("linears")[0]
                .at("refused"),
            "");
}

// Planning it would take minutes, and end with more signals than can be simulated.
TEST_F(ModelVerb, LinearsOfTooLargePlansAreRefusedUnplannedAndTheOthersStay) {
  const auto begin = std::chrono::steady_clock::now();
  const json layer = estimated({"llama-3-8b", "--tp", "1024", "--rows", "64"}).at("results")[0];
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  ASSERT_EQ(layer.at("linears").size(), 4u);
  EXPECT_THAT(layer.at("linears")[3].at("refused"),
              testing::AllOf(HasSubstr("its plans on 1024 ranks have about 18.0 million "
                                       "instructions, and at most 5 million are estimated"),
                             HasSubstr("take --tp 256")));
  EXPECT_THAT(layer.at("linears")[0].at("refused"), HasSubstr("take 32 ranks"));
  EXPECT_EQ(layer.at("linears")[3].at("operator").at("kind"), "gemm-rs");
}

// Their columns nobody can choose.
TEST_F(ModelVerb, ExpertsThatCannotBeDealtSayForHowManyRanksTheyCan) {
  const json experts = estimated({"mixtral-8x7b", "--tp", "6", "--rows", "64"})
                           .at("results")[0]
                           .at("linears")
                           .back();
  EXPECT_EQ(experts.at("refused"),
            "14336 columns of an expert cannot be dealt to 6 ranks: take --tp 4 or 7");
}

TEST_F(ModelVerb, SharedExpertsHaveAnOperator) {
  const json parts = estimated({"deepseek-v3", "--rows", "16"}).at("not_served");
  EXPECT_THAT(parts.dump(), HasSubstr("moe-ep-shared has them, and these figures are without"));
}

TEST_F(ModelVerb, BadLinesAreRefused) {
  const auto refusal = [](const std::vector<std::string>& more) {
    const Said said = stretto_says(std::vector<std::string>{"model"} + more);
    EXPECT_EQ(said.exit_code, 2) << said.out;
    return said.err;
  };
  EXPECT_THAT(refusal({"llama-3-71b"}), HasSubstr("unknown model 'llama-3-71b'"));
  EXPECT_THAT(refusal({config_, "--rows", "64,"}), HasSubstr("empty number"));
  EXPECT_THAT(refusal({config_, "--rows", "many"}), HasSubstr("--rows 'many'"));
  EXPECT_THAT(refusal({config_, "--tp", "0"}), HasSubstr("--tp '0'"));
  EXPECT_THAT(refusal({config_, "--ep"}), HasSubstr("has none"));
  EXPECT_THAT(refusal({config_, "--dtype", "fp32"}), HasSubstr("fp32 is for the emulator"));
  EXPECT_THAT(refusal({folder_.file("broken.json", "{}")}), HasSubstr("'hidden_size' is missing"));
}

// Eight heads of K and V on 16 ranks: each is on two.
TEST_F(ModelVerb, LayersOfOtherVerbsAreThoseOfTheirRanks) {
  const json model = estimated({"llama-3.2-1b", "--tp", "16", "--rows", "64"});
  const json plan = json::parse(
      stretto_says({"plan", "--layer", "llama-3.2-1b:qkv", "--m", "64", "--ranks", "16", "--json"})
          .out);
  EXPECT_EQ(plan.at("operator").at("n"), 2048 + 2 * 16 * 64);
  EXPECT_EQ(plan.at("operator"), model.at("results")[0].at("linears")[0].at("operator"));
}

TEST_F(ModelVerb, WithoutAModelListsThoseThatArePublished) {
  EXPECT_GE(estimated({}).at("models").size(), 20u);
  EXPECT_THAT(stretto_says({"model"}).out, HasSubstr("llama-3-70b"));
}

}  // namespace
}  // namespace stretto
