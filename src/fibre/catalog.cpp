#include "stretto/fibre/catalog.h"

#include "fibre/planted/addresses.h"
#include "fibre/planted/groups.h"
#include "fibre/planted/notify.h"
#include "fibre/planted/relaxed.h"
#include "fibre/planted/reuse.h"
#include "fibre/planted/sentinels.h"
#include "fibre/planted/teams.h"
#include "fibre/planted/two_kernels.h"
#include "fibre/planted/waits.h"
#include "fibre/scenarios/all_reduce.h"
#include "fibre/scenarios/all_reduce_norm.h"
#include "fibre/scenarios/all_to_all.h"
#include "fibre/scenarios/chosen_rows.h"
#include "fibre/scenarios/experts.h"
#include "fibre/scenarios/gather_scatter.h"
#include "fibre/scenarios/movers.h"
#include "fibre/scenarios/routed_rows.h"
#include "fibre/scenarios/stream_signals.h"

namespace stretto::fibre {
namespace {

const Shape kUsual{.ranks = 3, .blocks = 2, .threads = 4};

void add_norms(std::vector<CatalogEntry>& all) {
  const auto add = [&](const char* name, const char* about, NormKernel kernel, bool fp8) {
    all.push_back({name, about, EntryKind::kKernel, kUsual, {}, [=](World& world) {
                     all_reduce_norm_calls(world, kernel, fp8);
                   }});
  };
  add("all_reduce_norm_one_shot", "all-reduce, residual and RMSNorm: all rows to everyone",
      NormKernel::kOneShot, false);
  add("all_reduce_norm_received",
      "the same in two kernels, one that sends and one that only receives",
      NormKernel::kOneShotInTwo, false);
  add("all_reduce_norm_two_shot", "the same, rows summed by their owner, normed by everyone",
      NormKernel::kTwoShot, false);
  add("all_reduce_norm_own_rows", "the same, rows summed and normed by their owner, sent as fp8",
      NormKernel::kTwoShotOwnRows, true);
  add("scatter_norm_gather", "reduce-scatter, residual, RMSNorm and all-gather by chunks",
      NormKernel::kScatterGather, false);
}

void add_experts(std::vector<CatalogEntry>& all) {
  const Shape usual{.ranks = 3, .blocks = 2, .threads = 8, .warp_size = 4, .shared_bytes = 16384};
  Shape halves = usual;
  halves.blocks = 3;  // one sends, one takes, one is left over
  halves.threads = 4;
  const auto add = [&](const char* name, const char* about, const ExpertCase& c, Shape shape) {
    all.push_back({name, about, EntryKind::kKernel, shape, {}, [=](World& world) {
                     expert_calls(world, c);
                   }});
  };
  add("dispatch_combine", "tokens to their experts and back, bf16", {}, usual);
  add("dispatch_combine_fp8", "the same with fp8 and scales on the way there",
      {.hidden = 256, .fp8 = 1, .tokens = 2}, usual);
  add("dispatch_combine_skewed", "the same when all tokens go to one rank's experts",
      {.pattern = Pattern::kOneRank}, usual);
  add("dispatch_combine_in_parts", "the same with more tokens, some blocks sending and some taking",
      {.hidden = 8, .tokens = 13}, halves);
  add("dispatch", "dispatch alone, again and again", {.kernels = ExpertKernels::kDispatches},
      usual);
  add("dispatch_fp8", "the same with fp8 and scales",
      {.hidden = 128, .fp8 = 1, .tokens = 2, .kernels = ExpertKernels::kDispatches}, usual);
  add("combine", "combine alone, of one dispatch", {.kernels = ExpertKernels::kCombines}, usual);
}

void add_kernels(std::vector<CatalogEntry>& all) {
  const auto add = [&](const char* name, const char* about, Scenario scenario) {
    all.push_back({name, about, EntryKind::kKernel, kUsual, {}, std::move(scenario)});
  };
  add("all_reduce_one_shot", "all-reduce by sentinels: everyone sends everything to everyone",
      [](World& world) { all_reduce_calls<Bf16x8>(world, all_reduce_one_shot<Bf16x8, Block>); });
  add("all_reduce_received", "the same in two kernels, one that sends and one that only receives",
      [](World& world) {
        const AllReduceKernel receives =
            all_reduce_one_shot<Bf16x8, Block, kBatch, SentBy::kBefore>;
        all_reduce_calls<Bf16x8>(world, all_reduce_one_shot<Bf16x8, Block>, all_reduce_sizes(),
                                 {receives, true});
      });
  add("all_reduce_two_shot", "all-reduce by sentinels: owners add up slices",
      [](World& world) { all_reduce_calls<Bf16x8>(world, all_reduce_two_shot<Bf16x8, Block>); });
  add("all_gather_one_shot", "all-gather by sentinels: everyone sends its part to everyone",
      [](World& world) { gather_calls<Bf16x8>(world, all_gather_one_shot<Bf16x8, Block>); });
  add("reduce_scatter_one_shot", "reduce-scatter by sentinels: everyone sends each rank its part",
      [](World& world) { scatter_calls<Bf16x8>(world, reduce_scatter_one_shot<Bf16x8, Block>); });
  add("reduce_scatter_received",
      "the same in two kernels, one that sends and one that only receives", [](World& world) {
        const PartsKernel receives =
            reduce_scatter_one_shot<Bf16x8, Block, kBatch, SentBy::kBefore>;
        scatter_calls<Bf16x8>(world, reduce_scatter_one_shot<Bf16x8, Block>,
                              parts_of_calls(uint32(world.shape().ranks)), {receives});
      });
  add("copy_rows", "as many rows as stand in memory, out of what holds more", copy_rows_calls);
  add_norms(all);
  add("all_to_all", "low-latency all-to-all of tokens with scales", all_to_all_calls);
  add_experts(all);
  add("chosen_rows", "few rows to the ranks of their experts and back, each a row for a choice",
      [](World& world) { chosen_rows_calls(world, {}); });
  add("chosen_rows_by_token", "the same, a row for a token, of which only its rank knows the ids",
      [](World& world) { chosen_rows_calls(world, {.by_choice = false, .top_k = 5}); });
  add("chosen_rows_early", "the same, whose sums look up what they are of while rows are made",
      [](World& world) {
        chosen_rows_calls(world, {.by_choice = false, .top_k = 5, .early = true});
      });
  add("chosen_rows_behind_two", "the same behind two products, the second tile by tile",
      [](World& world) {
        chosen_rows_calls(world,
                          {.by_choice = false, .top_k = 5, .early = true, .behind_two = true});
      });
  Shape wide = kUsual;  // so that the block that greets counts ids
  wide.threads = 8;
  all.push_back({"round_trip_rows",
                 "the same there and back by one kernel, which keeps no rows",
                 EntryKind::kKernel,
                 wide,
                 {},
                 [](World& world) {
                   chosen_rows_calls(world, {.by_choice = false, .top_k = 5, .round_trip = true});
                 }});
  Shape sums = kUsual;  // terms of tokens that are looked up together
  sums.shared_bytes = NamedTerms::kBytes;
  all.push_back(
      {"sum_many_rows",
       "rows by token to all ranks, and back by the kernel of many rows' sums",
       EntryKind::kKernel,
       sums,
       {},
       [](World& world) {
         chosen_rows_calls(
             world,
             {.by_choice = false, .top_k = 5, .of_all_experts = true, .many = true, .vectors = 3});
       }});
  Shape counts = kUsual;  // choices by expert
  counts.shared_bytes = 1024;
  all.push_back({"routed_rows",
                 "rows by token, and the partition of all choices by the same kernel",
                 EntryKind::kKernel,
                 counts,
                 {},
                 routed_rows_calls});
  counts.blocks = 4;
  all.push_back({"routed_rows_by_blocks",
                 "the same, and two blocks make the partition",
                 EntryKind::kKernel,
                 counts,
                 {},
                 routed_rows_calls});
  all.push_back({"routed_rows_of_ids",
                 "the same, of parts of experts, whose rows nobody weighs: nothing comes back",
                 EntryKind::kKernel,
                 counts,
                 {},
                 routed_rows_of_ids});
  add("push_gather", "all-gather mover: each tile loaded once, stored to all ranks",
      push_gather_calls);
  add("slot_reduce", "reduction mover: follows the producers tile by tile",
      slot_reduce_calls<Bf16x8>);
  add("stream_signals", "what a stream waits for and raises between its kernels",
      stream_signal_calls);
}

}  // namespace

std::vector<CatalogEntry> catalog() {
  std::vector<CatalogEntry> all;
  add_kernels(all);
  for (auto make : {notify_bugs, wait_bugs, reuse_bugs, group_bugs, address_bugs, sentinel_bugs,
                    team_bugs, relaxed_bugs, two_kernel_bugs}) {
    for (const Planted& planted : make()) {
      all.push_back({planted.name, planted.origin, EntryKind::kBug, planted.shape, planted.kinds,
                     planted.with(true)});
      all.push_back({std::string(planted.name) + ":fixed",
                     "without the bug",
                     EntryKind::kTwin,
                     planted.shape,
                     {},
                     planted.with(false)});
    }
  }
  return all;
}

}  // namespace stretto::fibre
