// The word `fused` of lowered plans: none more can be put, and none is needed for what they
// compute.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "core/sampling.h"
#include "mutants/edits.h"
#include "mutants/judge.h"
#include "stretto/lower.h"
#include "stretto/schedule.h"

namespace stretto::mutants {
namespace {

// Plans that have every use of the word.
std::vector<Subject> fused_subjects() {
  std::vector<Subject> found;
  const auto add = [&](const char* operation, const char* schedules) {
    const Operator op = parse_operator(operation);
    Machine machine = default_machine(op.ranks);
    machine.sms = 7;
    found.push_back({std::string(operation) + " " + schedules,
                     lower(op, parse_schedules(schedules, op, machine), machine)});
  };
  add("gemm-rs m=64 n=32 k=64 ranks=2 dtype=bf16", "tiles,tile=16x16,comm-sms=0");
  add("gemm-rs m=40 n=32 k=256 ranks=2 dtype=bf16", "tiles,tile=16x16,comm-sms=0,split-k=2");
  add("ag-gemm m=40 n=64 k=256 ranks=2 dtype=bf16", "tiles,tile=16x16,comm-sms=1,k-phases=3");
  add("a2a-gemm m=40 n=32 k=184 ranks=3 dtype=bf16", "tiles,tile=16x16,comm-sms=1,k-phases=3");
  add("mlp m=40 h=64 f=96 ranks=2 dtype=bf16", "tiles,tile=16x32,comm-sms=1");
  add("mlp-gelu m=40 h=64 f=96 ranks=2 dtype=bf16", "tiles,tile=16x32,comm-sms=1");
  add("gemm-ar-norm m=40 n=64 k=64 ranks=2 dtype=bf16", "slices,tile=16x16,comm-sms=1");
  for (Subject& subject : subjects()) found.push_back(std::move(subject));
  return found;
}

TEST(FusedWords, NoneMoreCanBePut) {
  std::mt19937_64 random(static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed()));
  const size_t most = wants_all() ? SIZE_MAX : all_or_sample<size_t>(60, 15);
  Judge judge(1);
  int count = 0;
  for (const Subject& subject : fused_subjects()) {
    std::vector<Edit> edits = edits_of(subject.plan, EditKind::add_fused);
    std::shuffle(edits.begin(), edits.end(), random);
    edits.resize(std::min(edits.size(), most));
    for (const Edit& edit : edits) {
      Plan mutant = subject.plan;
      apply(mutant, edit);
      EXPECT_EQ(judge.judge(mutant), Verdict::refused) << subject.name << "\n"
                                                       << describe(subject.plan, edit);
      ++count;
    }
  }
  EXPECT_GT(count, 200);
}

TEST(FusedWords, NoneIsNeededForWhatAPlanComputes) {
  std::mt19937_64 random(static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed()));
  const size_t most = wants_all() ? SIZE_MAX : all_or_sample<size_t>(8, 2);
  Judge judge(2);
  int refused = 0, harmless = 0;
  for (const Subject& subject : fused_subjects()) {
    std::vector<Edit> edits = edits_of(subject.plan, EditKind::drop_fused);
    std::shuffle(edits.begin(), edits.end(), random);
    edits.resize(std::min(edits.size(), most));
    for (const Edit& edit : edits) {
      Plan mutant = subject.plan;
      apply(mutant, edit);
      const Verdict verdict = judge.judge(mutant);
      EXPECT_TRUE(verdict == Verdict::refused || verdict == Verdict::harmless)
          << subject.name << "\n"
          << describe(subject.plan, edit) << "\n"
          << judge.story();
      (verdict == Verdict::refused ? refused : harmless) += 1;
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(harmless, 0);
}

}  // namespace
}  // namespace stretto::mutants
