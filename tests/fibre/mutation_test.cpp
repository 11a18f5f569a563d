// Shipped kernels with one operation left out or weakened, or with one slot too few: the scenarios
// of `explore kernels` notice, or it does no harm, for the reason that stands here.
#include "fibre/mutation.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "core/sampling.h"
#include "stretto/fibre/catalog.h"

namespace stretto::fibre {
namespace {

constexpr const char* kLossNames[] = {"",        "barrier", "fence", "signal",
                                      "release", "acquire", "wait",  "sentinel"};
// What is noticed is noticed by the fifth.
constexpr uint64_t kSeeds = all_or_sample(60, 8);

// The `number`-th line of a header that asks for an operation, from 1.
struct Place {
  std::string file;
  Loss loss;
  int number;
  friend auto operator<=>(const Place&, const Place&) = default;
};

const std::map<Place, const char*> kHarmless = {
    {{"all_to_all.h", Loss::kBarrier, 3},
     "only thread 0 looks whether sizes differ, and only thread 0 has anything to do behind it"},
    {{"dispatch_take.h", Loss::kBarrier, 2},
     "orders nothing; lets all threads leave where ranks disagree, with which the emulator ends"},
    {{"dispatch_take.h", Loss::kBarrier, 7},
     "what stands between this and the barrier before is an expert's own, and one thread's"},
    {{"dispatch_take.h", Loss::kBarrier, 8}, "the barrier before each part is taken stands behind"},
    {{"stream_signals.h", Loss::kRelease, 1},
     "the end of the kernel before has released all, and the begin of this one covers that"},
    {{"stream_signals.h", Loss::kAcquire, 1},
     "the end of a kernel acquires what its loads have seen, before the next one begins"},
};

class Planting {
 public:
  explicit Planting(Mutation planted) { mutation() = std::move(planted); }
  ~Planting() { mutation() = {}; }
  Planting(const Planting&) = delete;
};

// A scenario, as it is or where the last rank never comes: kernels then only have to leave.
struct Judge {
  CatalogEntry kernel;
  bool rank_is_absent = false;

  // The seeds until something is found; 0: nothing.
  uint64_t found_by(const Mutation& planted, uint64_t seeds) const {
    const Planting planting(planted);
    const auto scenario = [this](World& world) {
      if (rank_is_absent) world.make_absent(world.shape().ranks - 1);
      kernel.scenario(world);
    };
    for (uint64_t seed = 0; seed < seeds; ++seed) {
      const Exploration result =
          explore(kernel.shape, scenario, {.first_seed = seed, .num_seeds = 1, .shrink = false});
      if (!result.failure) continue;
      const FindingKind kind = result.failure->finding.kind;
      if (!rank_is_absent || kind == FindingKind::kDivergence || kind == FindingKind::kDeadlock) {
        return seed + 1;
      }
    }
    return 0;
  }
};

std::vector<Judge> judges() {
  std::vector<Judge> all;
  for (const bool rank_is_absent : {false, true}) {
    for (const CatalogEntry& entry : catalog()) {
      if (entry.kind == EntryKind::kKernel) all.push_back({entry, rank_is_absent});
    }
  }
  return all;
}

// What it asks for in the headers of the kernels.
std::set<Lost> asked_by(const Judge& judge) {
  std::set<Lost> asked;
  EXPECT_EQ(judge.found_by({{}, {}, &asked}, 4), 0u) << judge.kernel.name;
  std::erase_if(asked, [](const Lost& lost) {
    return !std::filesystem::exists(std::filesystem::path(STRETTO_KERNELS) / lost.file);
  });
  return asked;
}

std::string line_of(const Lost& lost) {
  std::ifstream file(std::filesystem::path(STRETTO_KERNELS) / lost.file);
  std::string line;
  for (int i = 0; i < lost.line; ++i) std::getline(file, line);
  return line.substr(std::min(line.size(), line.find_first_not_of(' ')));
}

TEST(MutatedKernels, AreNoticedOrHarmless) {
  std::map<Lost, std::vector<Judge>> mutants;
  for (const Judge& judge : judges()) {
    for (const Lost& lost : asked_by(judge)) mutants[lost].push_back(judge);
  }
  size_t noticed = 0, harmless = 0;
  std::map<std::pair<std::string, Loss>, int> numbers;
  for (const auto& [lost, its_judges] : mutants) {
    const int number = ++numbers[{lost.file, lost.loss}];
    const bool is_found =
        std::any_of(its_judges.begin(), its_judges.end(), [&, lost = lost](const Judge& judge) {
          return judge.found_by({lost, {}, {}}, kSeeds) != 0;
        });
    const bool is_listed = kHarmless.count({lost.file, lost.loss, number}) != 0;
    EXPECT_NE(is_found, is_listed)
        << lost.file << ":" << lost.line << ", " << kLossNames[size_t(lost.loss)] << " number "
        << number << (is_found ? " is noticed, and listed as harmless: " : " is not noticed: ")
        << line_of(lost);
    noticed += is_found;
    harmless += !is_found && is_listed;
  }
  EXPECT_GE(mutants.size(), 70u);
  EXPECT_EQ(harmless, kHarmless.size());
  fmt::print("{} of {} mutants noticed, {} harmless\n", noticed, mutants.size(), harmless);
}

struct SlotTooFew {
  const char* kernel;
  Fold fold;
  const char* harmless = nullptr;  // why
};

// For the shapes and sizes of the scenarios, which have three ranks.
const std::vector<SlotTooFew> kSlotsTooFew = {
    {"all_reduce_one_shot", {"slots", 2, 3 * 11}},
    {"all_reduce_one_shot", {"greetings", 3}},
    {"all_reduce_two_shot", {"slots", 2, 2 * 3 * 4}},
    {"all_gather_one_shot", {"slots"}},
    {"all_gather_one_shot", {"greetings", 3}},
    {"reduce_scatter_one_shot", {"slots"}},
    {"all_reduce_norm_one_shot", {"slots", 2, 3 * 14}},
    {"all_reduce_norm_two_shot", {"slots", 2, 2 * 3 * 6}},
    {"all_reduce_norm_own_rows", {"slots", 2, 2 * 3 * 6}},
    {"scatter_norm_gather", {"greetings", 3}},
    {"push_gather",
     {"greetings", 3},
     "its consumer has waited for all ranks, which greet no more in that run when they send"},
    {"slot_reduce", {"greetings", 3}},
    {"all_to_all", {"slots"}},
    {"all_to_all", {"scale_slots"}},
    {"all_to_all", {"signals"}},
    {"dispatch", {"slots"}},
    {"dispatch", {"entry_slots"}},
    {"dispatch", {"counts", 2, 3 * 32, 0, 6 * 32}},
    {"dispatch", {"counts", 2, 3 * 32, 6 * 32}},
    {"dispatch", {"parts", 2, 3 * 4}},
    {"dispatch_fp8", {"scale_slots"}},
    {"combine", {"sum_slots"}},
    // Rows of two calls, then notes of three: nothing comes back that would do for one of them.
    {"routed_rows_of_ids", {"slots", 2, 3 * 3 * 2, 0, 2 * 3 * 3 * 2}},
    {"routed_rows_of_ids", {"slots", 3, 3 * 3 * 2, 2 * 3 * 3 * 2}},
    {"routed_rows_of_ids", {"greetings", 3}},
};

TEST(MutatedKernels, NeedEverySlot) {
  const std::vector<Judge> all = judges();
  size_t noticed = 0;
  for (const SlotTooFew& mutant : kSlotsTooFew) {
    const auto judge = std::find_if(all.begin(), all.end(), [&](const Judge& each) {
      return each.kernel.name == mutant.kernel;
    });
    ASSERT_NE(judge, all.end()) << mutant.kernel;
    const bool is_found = judge->found_by({{}, {mutant.fold}, nullptr}, kSeeds) != 0;
    EXPECT_NE(is_found, mutant.harmless != nullptr)
        << mutant.kernel << ", " << mutant.fold.name << " from " << mutant.fold.begin
        << (is_found ? " is noticed" : " is not noticed");
    noticed += is_found;
  }
  fmt::print("{} of {} slots too few noticed\n", noticed, kSlotsTooFew.size());
}

}  // namespace
}  // namespace stretto::fibre
