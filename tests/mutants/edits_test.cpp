// Edited plans of every kind: none that the checker passes is stuck, races, or gives other bits
// from seed to seed on the emulator. Single edits, several at once, and walks from clean plan to
// clean plan that nobody lowered.
//
// A sample; STRETTO_EVERY_MUTANT=1 takes every single edit of every plan, and longer walks, as
// `./dev check` does. Other samples: test_mutants --gtest_shuffle --gtest_repeat=1000
#include "mutants/edits.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <optional>
#include <random>

#include "core/sampling.h"
#include "mutants/judge.h"

namespace stretto::mutants {
namespace {

using Random = std::mt19937_64;

uint64_t first_seed() {
  return static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed());
}

// How many of a kind came to what.
class Tally {
 public:
  void add(EditKind kind, Verdict verdict) {
    ++counts_[kind][static_cast<size_t>(verdict)];
    ++all_[static_cast<size_t>(verdict)];
  }
  int count(Verdict verdict) const { return all_[static_cast<size_t>(verdict)]; }
  int count() const { return count(Verdict::refused) + judged(); }
  int judged() const {
    return count(Verdict::reported) + count(Verdict::harmless) + count(Verdict::other);
  }
  void print() const {
    for (const auto& [kind, counts] : counts_) print(to_string(kind), counts);
    print("all", all_);
  }

 private:
  using Counts = std::array<int, 5>;
  static void print(std::string_view name, const Counts& c) {
    fmt::print("{:50} refused {:6}, reported {:6}, harmless {:6}, another function {:6}\n", name,
               c[0], c[1], c[2], c[3]);
  }
  std::map<EditKind, Counts> counts_;
  Counts all_{};
};

std::optional<Edit> any_edit(const Plan& plan, Random& random) {
  const EditKind kind = kEditKinds[random() % std::size(kEditKinds)];
  const std::vector<Edit> edits = edits_of(plan, kind);
  if (edits.empty()) return std::nullopt;
  return edits[random() % edits.size()];
}

TEST(Mutants, OfOneEditThatAreCleanAreRightUnderEverySeed) {
  Random random(first_seed());
  const size_t most = wants_all() ? SIZE_MAX : all_or_sample<size_t>(2, 1);
  Judge judge(wants_all() ? 20 : 5);
  Tally tally;
  for (const Subject& subject : subjects()) {
    ASSERT_EQ(judge.judge(subject.plan), Verdict::harmless) << subject.name << judge.story();
    for (const EditKind kind : kEditKinds) {
      std::vector<Edit> edits = edits_of(subject.plan, kind);
      if (edits.size() > most) std::shuffle(edits.begin(), edits.end(), random);
      edits.resize(std::min(edits.size(), most));
      for (const Edit& edit : edits) {
        Plan mutant = subject.plan;
        apply(mutant, edit);
        const Verdict verdict = judge.judge(mutant);
        tally.add(kind, verdict);
        ASSERT_NE(verdict, Verdict::missed) << subject.name << "\n"
                                            << describe(subject.plan, edit) << "\n"
                                            << judge.story();
      }
    }
  }
  tally.print();
  EXPECT_GT(tally.count(Verdict::reported), tally.count() / 3);
  EXPECT_GT(tally.count(Verdict::harmless), tally.count() / 50);
}

TEST(Mutants, OfSeveralEditsThatAreCleanAreRightUnderEverySeed) {
  Random random(first_seed() + 1);
  const int each = wants_all() ? 200 : all_or_sample(8, 2);
  Judge judge(wants_all() ? 20 : 5);
  Tally tally;
  for (const Subject& subject : subjects()) {
    for (int i = 0; i < each; ++i) {
      Plan mutant = subject.plan;
      std::string story = subject.name;
      EditKind last = EditKind::swap;
      for (uint64_t count = 2 + random() % 4; count > 0; --count) {
        const std::optional<Edit> edit = any_edit(mutant, random);
        if (!edit) continue;
        story += "\n" + describe(mutant, *edit);
        apply(mutant, *edit);
        last = edit->kind;
      }
      const Verdict verdict = judge.judge(mutant);
      tally.add(last, verdict);
      ASSERT_NE(verdict, Verdict::missed) << story << "\n" << judge.story();
    }
  }
  tally.print();
  EXPECT_GT(tally.count(Verdict::reported), tally.count() / 2);
}

// Edits that leave the plan clean add up to plans that are far from any that is lowered.
TEST(Mutants, OnWalksThroughCleanPlansAreRightUnderEverySeed) {
  Random random(first_seed() + 2);
  const int steps = wants_all() ? 800 : all_or_sample(40, 10);
  Judge judge(wants_all() ? 10 : 4);
  Tally tally;
  for (const Subject& subject : subjects()) {
    Plan plan = subject.plan;
    std::string story = subject.name;
    for (int i = 0; i < steps; ++i) {
      const std::optional<Edit> edit = any_edit(plan, random);
      if (!edit) continue;
      Plan next = plan;
      apply(next, *edit);
      const Verdict verdict = judge.judge(next);
      tally.add(edit->kind, verdict);
      ASSERT_NE(verdict, Verdict::missed) << story << "\n"
                                          << describe(plan, *edit) << "\n"
                                          << judge.story();
      if (verdict != Verdict::harmless) continue;
      story += "\n" + describe(plan, *edit);
      plan = std::move(next);
    }
  }
  tally.print();
  EXPECT_GT(tally.count(Verdict::harmless), tally.count() / 10);
}

}  // namespace
}  // namespace stretto::mutants
