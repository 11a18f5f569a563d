// The standard that the checker is held to: every plan of a matrix is clean, and no single change
// that takes synchronisation away goes unreported.
#include <fmt/format.h>

#include <algorithm>

#include "check/mutations.h"
#include "check/random_plans.h"
#include "check/text_plan.h"
#include "core/sampling.h"
#include "lower/drafts.h"
#include "stretto/error.h"
#include "stretto/schedule.h"
#include "thorough.h"

namespace stretto {
namespace {

constexpr size_t kEvery = all_or_sample<size_t>(SIZE_MAX, 8);  // changes of a plan
constexpr ProductKind kAllKinds[] = {kAgGemm, kGemmRs, kGemmAr, kGemmA2a, kA2aGemm};
constexpr size_t kSmall = 2000;  // instructions; larger plans leave swaps of boundaries out

class KillRate {
 public:
  // Mutates `plan` in `sample` ways, or in all when there are no more.
  void add(const std::string& name, const Plan& plan, size_t sample = kEvery) {
    const CheckReport report = check(plan);
    ASSERT_TRUE(report.clean()) << name << "\n" << all_messages(report);
    std::vector<Mutation> mutations = mutations_of(plan, plan.num_instrs() < kSmall);
    if (mutations.size() > sample) {
      Random random(plans_ + 1);
      for (size_t i = 0; i < sample; ++i) {
        std::swap(mutations[i], mutations[i + random() % (mutations.size() - i)]);
      }
      mutations.resize(sample);
    }
    Plan mutant = plan;
    for (const Mutation& mutation : mutations) {
      std::vector<Instr>& lane = mutant.lanes[mutation.at.lane].instrs;
      apply(mutant, mutation);
      ++tried_;
      if (reported(mutant)) {
        ++reported_;
      } else if (survivors_.size() < 20) {
        survivors_.push_back(name + ": " + describe(plan, mutation));
      }
      lane = plan.lanes[mutation.at.lane].instrs;
    }
    ++plans_;
  }

  void expect_all() const {
    fmt::print("mutations of {} plans: {} of {} reported ({:.2f} %)\n", plans_, reported_, tried_,
               100.0 * static_cast<double>(reported_) / static_cast<double>(tried_));
    EXPECT_GT(tried_, 0u);
    EXPECT_EQ(reported_, tried_) << fmt::format("survivors:\n  {}", fmt::join(survivors_, "\n  "));
  }

 private:
  static bool reported(const Plan& mutant) {
    CheckOptions first_one;
    first_one.max_diagnostics = 1;
    try {
      return !check(mutant, first_one).clean();
    } catch (const UsageError&) {
      return true;  // refused before it is checked: a threshold of 0
    }
  }

  size_t plans_ = 0, tried_ = 0, reported_ = 0;
  std::vector<std::string> survivors_;
};

// The preset as the small machine can run it: tiles of 16 x 16, two SMs for movers where it has
// any.
Schedule small_preset(const Preset& preset, const Segment& op, const Machine& machine) {
  Schedule schedule = preset.make(op, machine);
  schedule.tile_m = schedule.tile_n = 16;
  schedule.comm_sms = std::min(schedule.comm_sms, 2);
  return schedule;
}

TEST(Mutation, EveryChangeOfEverySmallPresetPlanIsReported) {
  KillRate rate;
  for (const ProductKind kind : kAllKinds) {
    for (const int ranks : {2, 4, 8}) {
      const Machine machine = small_machine(ranks, 5);
      for (const int64_t m : {int64_t{16} * ranks, int64_t{9} * ranks + 5, int64_t{3}}) {
        const Segment op{kind,      m,     32 * (kind == kAgGemm ? ranks : 1),
                         8 * ranks, ranks, DType::bf16};
        for (const Preset& preset : presets()) {
          const Schedule schedule = small_preset(preset, op, machine);
          if (op.exchanges() && schedule.mover == Mover::nccl) continue;  // not served
          ASSERT_TRUE(legal(op, schedule, machine).empty()) << preset.name;
          rate.add(fmt::format("{} {}", to_string(op), preset.name), lower(op, schedule, machine));
        }
      }
    }
  }
  rate.expect_all();
}

TEST(Mutation, EveryChangeOfEveryPlanThatSplitsKIsReported) {
  KillRate rate;
  for (const ProductKind kind : {kAgGemm, kGemmRs, kGemmAr}) {
    for (const int ranks : {1, 2, 4}) {
      const Machine machine = small_machine(ranks, 5);
      const Segment op{kind,
                       int64_t{9} * ranks + 5,
                       32 * (kind == kAgGemm ? ranks : 1),
                       200 * (kind == kAgGemm ? 1 : ranks),
                       ranks,
                       DType::bf16};
      for (const Preset& preset : presets()) {
        for (const int splits : {2, 4}) {
          Schedule schedule = small_preset(preset, op, machine);
          if (schedule.gemm != GemmBy::tiles) continue;  // who splits K by itself
          schedule.split_k = splits;
          ASSERT_TRUE(legal(op, schedule, machine).empty()) << preset.name;
          rate.add(fmt::format("{} {} split-k={}", to_string(op), preset.name, splits),
                   lower(op, schedule, machine));
        }
      }
    }
  }
  rate.expect_all();
}

TEST(Mutation, EveryChangeOfEveryPlanWithPhasesOfKIsReported) {
  KillRate rate;
  for (const int ranks : {2, 4}) {
    const Machine machine = small_machine(ranks, 7);
    const Segment op{kAgGemm, int64_t{9} * ranks + 5, 32 * ranks, 200, ranks, DType::bf16};
    for (const char* point :
         {"tiles", "tiles,split-k=2", "tiles,sync=counter,order=own-first,reuse=ack",
          "tiles,mover=copy-engine,order=plain", "slices,order=node-then-local"}) {
      for (const int phases : {2, 4}) {
        const std::string text = fmt::format("{},tile=16x16,comm-sms=2,k-phases={}", point, phases);
        const Schedule schedule = parse_schedule(text, op, machine);
        ASSERT_TRUE(legal(op, schedule, machine).empty()) << text;
        rate.add(fmt::format("{} {}", to_string(op), text), lower(op, schedule, machine));
      }
    }
  }
  rate.expect_all();
}

TEST(Mutation, ChangesOfPlansOfAnyLegalScheduleAreReported) {
  KillRate rate;
  for (const ProductKind kind : kAllKinds) {
    const Segment op{kind, 50, 96, 24, 4, DType::bf16};
    const Machine machine = small_machine(4, 6, 2);
    const std::vector<Schedule> schedules = legal_schedules(op, machine);
    for (size_t i = 0; i < schedules.size(); i += sweep_step(3)) {
      rate.add(fmt::format("{} {}", to_string(op), to_string(schedules[i])),
               lower(op, schedules[i], machine), all_or_sample(4, 1));
    }
  }
  rate.expect_all();
}

TEST(Mutation, SampledChangesOfLargePlansAreReported) {
  KillRate rate;
  for (const ProductKind kind : {kAgGemm, kGemmRs, kGemmAr}) {
    const Segment op{kind, 2048 + 77, 4096, 4096, 8, DType::bf16};
    const Machine machine = small_machine(8, 132);
    for (const Preset& preset : presets()) {
      rate.add(fmt::format("{} {}", to_string(op), preset.name),
               lower(op, preset.make(op, machine), machine), all_or_sample(25, 4));
    }
  }
  rate.expect_all();
}

}  // namespace
}  // namespace stretto
