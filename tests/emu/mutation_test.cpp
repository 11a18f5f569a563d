// The emulator and the checker judge the same broken plans: a plan less one wait or notify, with a
// threshold lowered by one, or with two neighbouring instructions of a lane exchanged. They share
// no code. What goes wrong in the emulator must be reported by the checker; what the checker
// reports should go wrong here within a few seeds, mostly.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "stretto/check.h"
#include "stretto/emulate.h"
#include "stretto/lower.h"
#include "stretto/schedule.h"

namespace stretto::emu {
namespace {

constexpr int kSeeds = 24;

struct Tally {
  int mutants = 0, reported = 0, caught = 0;
};

class Mutants {
 public:
  Mutants(const Plan& plan, std::string name) : plan_(plan), name_(std::move(name)) {}

  void run() {
    for (Lane& lane : plan_.lanes) {
      for (size_t pos = 0; pos < lane.instrs.size(); ++pos) {
        const Instr instr = lane.instrs[pos];
        if (instr.is_sync()) {
          lane.instrs.erase(lane.instrs.begin() + static_cast<std::ptrdiff_t>(pos));
          judge(deleted, lane, pos, instr);
          lane.instrs.insert(lane.instrs.begin() + static_cast<std::ptrdiff_t>(pos), instr);
        }
        if (instr.op == Opcode::wait && instr.amount > 1) {
          --lane.instrs[pos].amount;
          judge(lowered, lane, pos, instr);
          ++lane.instrs[pos].amount;
        }
        if (pos + 1 < lane.instrs.size() && (instr.is_sync() || lane.instrs[pos + 1].is_sync())) {
          std::swap(lane.instrs[pos], lane.instrs[pos + 1]);
          judge(exchanged, lane, pos, instr);
          std::swap(lane.instrs[pos], lane.instrs[pos + 1]);
        }
      }
    }
  }

  Tally deleted, lowered, exchanged;

 private:
  void judge(Tally& tally, const Lane& lane, size_t pos, const Instr& instr) {
    const CheckReport report = check(plan_);
    const bool caught = goes_wrong();
    ++tally.mutants;
    tally.reported += !report.clean();
    tally.caught += !report.clean() && caught;
    EXPECT_FALSE(report.clean() && caught)
        << name_ << "\nthe checker finds no fault, but the plan goes wrong: " << describe(lane)
        << " instruction " << pos << " (" << to_string(instr.op) << ")\n"
        << story_;
  }

  bool goes_wrong() {
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      const EmulateResult result = emulate(
          plan_, {.seed = seed, .fill = Fill::integers, .runs = 3, .reference = reference_});
      if (result.finished && result.verified && result.faults.empty()) continue;
      story_ = fmt::format("seed {}: {}", seed,
                           !result.finished        ? "stuck: " + result.stuck.at(0).lane
                           : result.faults.empty() ? result.first_wrong
                                                   : result.faults[0].text);
      return true;
    }
    return false;
  }

  Plan plan_;
  std::string name_, story_;
  std::shared_ptr<SharedReference> reference_ = make_shared_reference();
};

class Mutation : public testing::TestWithParam<ProductKind> {};
INSTANTIATE_TEST_SUITE_P(, Mutation, testing::Values(kAgGemm, kGemmRs, kGemmAr),
                         [](const auto& tested) {
                           std::string name(to_string(tested.param));
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

TEST_P(Mutation, EmulatorAndCheckerAgree) {
  const Segment op{GetParam(), 21, 24, 12, 3, DType::bf16};
  Machine machine = default_machine(op.ranks);
  machine.sms = 6;  // a few lanes with several tiles each, not one tile a lane
  Tally all;
  for (const char* schedule :
       {"sequential,tile=8x16", "two-chunk,tile=8x16", "decomposed,tile=8x16",
        "decomposed,tile=8x16,reuse=ack", "waves,tile=8x16", "tiles,tile=8x16,comm-sms=2",
        "tiles,tile=8x16,comm-sms=2,reuse=ack", "slices,tile=8x16,comm-sms=2"}) {
    const Schedule point = parse_schedule(schedule, op, machine);
    if (const auto why = legal(op, point, machine); !why.empty()) {
      std::printf("%-40s not legal: %s\n", schedule, why[0].c_str());
      continue;
    }
    Mutants mutants(lower(op, point, machine), to_string(op) + " " + schedule);
    mutants.run();
    std::printf("%-40s", schedule);
    for (const auto& [what, tally] : {std::pair{"deleted", &mutants.deleted},
                                      {"lowered", &mutants.lowered},
                                      {"exchanged", &mutants.exchanged}}) {
      std::printf("  %s %d, reported %d, caught %d;", what, tally->mutants, tally->reported,
                  tally->caught);
      all.mutants += tally->mutants;
      all.reported += tally->reported;
      all.caught += tally->caught;
    }
    std::printf("\n");
  }
  ASSERT_GT(all.reported, 100);
  const double rate = 100.0 * all.caught / all.reported;
  std::printf(
      "%s: %d mutants, the checker reports %d; the emulator catches %.1f %% of these in %d "
      "seeds\n",
      std::string(to_string(op.kind)).c_str(), all.mutants, all.reported, rate, kSeeds);
  EXPECT_GE(rate, 90);
}

}  // namespace
}  // namespace stretto::emu
