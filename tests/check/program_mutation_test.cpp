// The standard that the proof of programs is held to: no change of one that breaks what was proved
// of its plan goes unreported, and none that does no harm is reported.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "check/program.h"
#include "check/program_mutations.h"
#include "check/program_plans.h"
#include "core/sampling.h"
#include "thorough.h"

namespace stretto {
namespace {

struct Rate {
  size_t tried = 0, right = 0;
};

class Rates {
 public:
  void add(const std::string& name, const Plan& plan, size_t sample) {
    const std::vector<cuda::RankProgram> programs = cuda::programs_of(plan);
    ASSERT_TRUE(checker::check_programs(plan, programs).empty()) << name;
    std::vector<ProgramMutation> mutations = mutations_of(plan, programs);
    std::shuffle(mutations.begin(), mutations.end(), random_);
    if (mutations.size() > sample) mutations.resize(sample);
    for (const ProgramMutation& mutation : mutations) {
      std::vector<cuda::RankProgram> mutant = programs;
      mutation.apply(mutant);
      const std::vector<Diagnostic> found = checker::check_programs(plan, mutant);
      Rate& rate = rates_[mutation.kind];
      ++rate.tried;
      rate.right += found.empty() != mutation.harms;
      if (found.empty() != mutation.harms) continue;
      if (++wrong_ <= 20) {
        ADD_FAILURE() << name << "\n"
                      << mutation.what << "\n"
                      << (found.empty() ? "goes unreported" : found.front().message);
      }
    }
  }

  void print() const {
    for (const auto& [kind, rate] : rates_)
      fmt::print("{:34} {:6} of {:6}\n", kind, rate.right, rate.tried);
  }

 private:
  std::mt19937_64 random_{1};
  std::map<std::string, Rate> rates_;
  size_t wrong_ = 0;
};

TEST(ProgramMutation, EveryHarmfulChangeIsReportedAndNoOther) {
  const size_t each = is_thorough() ? SIZE_MAX : all_or_sample<size_t>(60, 10);
  Rates rates;
  for (const int ranks : {1, 2, 3}) {
    for_each_program_plan(
        ranks, [&](const std::string& name, const Plan& plan) { rates.add(name, plan, each); });
  }
  rates.print();
}

}  // namespace
}  // namespace stretto
