// Plans with clusters: pairs of blocks whose tasks share B and wait alike.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "launch/gemm_choice.h"
#include "launch/lane_pairs.h"
#include "launch/rank_program.h"
#include "plan_fixture.h"
#include "stretto/device/gemm_mover.h"
#include "tables/kernel_set.h"
#include "tables/plan_limits.h"
#include "tables/plan_tables.h"

namespace stretto::cuda {
namespace {

using device::GemmConfig;
using device::GemmTask;
using device::Shared;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

void expect_same_waits(const GemmTable& table, const GemmTask& a, const GemmTask& b) {
  ASSERT_EQ(a.num_waits, b.num_waits);
  EXPECT_EQ(a.num_late_waits + b.num_late_waits, 0);
  for (uint32_t w = 0; w < a.num_waits; ++w) {
    const device::WaitEntry &x = table.waits[a.first_wait + w], &y = table.waits[b.first_wait + w];
    EXPECT_EQ(x.signal, y.signal);
    EXPECT_EQ(x.amount, y.amount);
    EXPECT_EQ(x.lag, y.lag);
    EXPECT_EQ(x.before, y.before);
  }
}

TEST(Clusters, PairsOfBlocksAgreeInBAndInWhatTheyAwait) {
  for (const int ranks : {1, 2, 4, 8}) {
    for (const auto& [sizes, schedule] : std::vector<std::pair<std::string, std::string>>{
             {"m=1024 n=1024 k=512", "tiles,tile=128x128,comm-sms=4,cluster=2"},
             {"m=1000 n=1088 k=832", "tiles,tile=64x128,comm-sms=4,k-phases=3,cluster=2"},
             {"m=2048 n=4096 k=1024", "tiles,tile=128x256,comm-sms=8,k-phases=8,cluster=2"},
             {"m=2048 n=4096 k=1024",
              "tiles,tile=128x256,comm-sms=8,k-phases=4,start=wave,cluster=2"},
             {"m=2000 n=1600 k=576",
              "tiles,tile=128x192,comm-sms=2,order=interleaved,own=gathered,cluster=2"},
             {"m=47 n=512 k=64", "tiles,tile=8x64,comm-sms=8,swizzle=1,cluster=2"},
             {"m=512 n=1024 k=520", "tiles,tile=128x224,comm-sms=6,reuse=ack,cluster=2"}}) {
      const Plan plan =
          plan_of(fmt::format("ag-gemm {} ranks={} dtype=bf16", sizes, ranks), schedule);
      SCOPED_TRACE(to_string(plan.op) + " " + schedule);
      ASSERT_THAT(why_not_on_cuda(plan), IsEmpty());
      const auto programs = programs_of(plan);
      const SignalLayout signals(plan, programs, true);
      for (int rank = 0; rank < ranks; ++rank) {
        const RankProgram& program = programs[static_cast<size_t>(rank)];
        const RankTables tables = tables_for(plan, rank, program, places_of(plan), signals);
        EXPECT_EQ(tables.gemms.front().config.shared, Shared::b);
        EXPECT_EQ(tables.gemms.front().config.moves, ranks > 1);
        EXPECT_EQ(why_illegal(tables.gemms.front().config), "");
        ASSERT_EQ(tables.gemms.size(), 1u);
        const GemmTable& table = tables.gemms[0].table;
        ASSERT_EQ(table.blocks.size() % 2, 0u);
        for (size_t block = 0; block < table.blocks.size(); block += 2) {
          const std::vector<GemmTask>&first = table.blocks[block],
                &second = table.blocks[block + 1];
          ASSERT_EQ(first.size(), second.size());
          for (size_t i = 0; i < first.size(); ++i) {
            EXPECT_EQ(first[i].b_row, second[i].b_row);
            EXPECT_EQ(first[i].b_map, second[i].b_map);
            EXPECT_EQ(first[i].first_k, second[i].first_k);
            EXPECT_EQ(first[i].num_k, second[i].num_k);
            EXPECT_NE(std::pair(first[i].a_map, first[i].a_row),
                      std::pair(second[i].a_map, second[i].a_row));
            expect_same_waits(table, first[i], second[i]);
          }
        }
      }
    }
  }
}

TEST(Clusters, AreInTheNamesOfKernels) {
  const Plan plan = plan_of("ag-gemm m=1024 n=1024 k=2048 ranks=4 dtype=bf16",
                            "tiles,tile=128x256,comm-sms=4,k-phases=2,cluster=2");
  const std::vector<KernelEntry> kernels = kernels_of(plan, "sm_90a");
  EXPECT_THAT(kernels.front().name, HasSubstr("shared b"));
  EXPECT_THAT(kernels.front().name, HasSubstr("phases moves"));
}

TEST(Clusters, MoversFillWholeOnes) {
  GemmConfig config;
  config.shared = Shared::b;
  EXPECT_EQ(device::mover_blocks(config, 0), 0u);
  EXPECT_EQ(device::mover_blocks(config, 7), 8u);
  EXPECT_EQ(device::mover_blocks(config, 8), 8u);
  config.shared = Shared::none;
  EXPECT_EQ(device::mover_blocks(config, 7), 7u);
}

// Two lanes of one rank with a tile each; what stands around them.
struct Text {
  std::string header = "cluster 2\n";
  std::string first = "  gemm #0 a[0:128,0:128] b[0:64,0:128] -> out[0:128,0:64]\n";
  std::string second = "  gemm #1 a[128:256,0:128] b[0:64,0:128] -> out[128:256,0:64]\n";
  std::string elsewhere;
};

std::vector<std::string> why(const Text& text, bool serves = false) {
  const Plan plan = parse_plan(fmt::format(R"(stretto-plan 1
operator ag-gemm m=256 n=64 k=128 ranks=1 dtype=bf16
{}sms 132
buffer a bf16 256x128 input
buffer b bf16 64x128 input
buffer out bf16 256x64 output
buffer copied bf16 256x128 local
buffer ranges fp32 256x64 local
signals done 2
lane 0 compute 0
{}lane 0 compute 1
{}{}end
)",
                                           text.header, text.first, text.second, text.elsewhere));
  return why_not_on_cuda(plan, TileSums(plan), serves);
}

TEST(Clusters, RunInOneKernelOfWholeTiles) {
  EXPECT_THAT(why({}), IsEmpty());
  EXPECT_THAT(why({}, true), ElementsAre(HasSubstr("a plan with cluster=1 serves fewer")));
  // Comm lanes that copy single elements, or copy engines, are no blocks of it.
  Text text;
  text.elsewhere = "lane 0 comm 0\n  copy #0 a[0:256,0:120] -> copied[0:256,0:120]\n";
  EXPECT_THAT(why(text), IsEmpty());
  text.elsewhere = "lane 0 comm 0\n  copy #0 a[0:256,0:9] -> copied[0:256,0:9]\n";
  EXPECT_THAT(why(text), ElementsAre(HasSubstr("is one kernel")));
  text.elsewhere = "lane 0 copy 0\n  copy #0 a[0:256,0:128] -> copied[0:256,0:128]\n";
  EXPECT_THAT(why(text), ElementsAre(HasSubstr("is one kernel")));
  text.header.clear();
  EXPECT_THAT(why(text), IsEmpty());
  text = {};
  text.first = "  notify done.0@0 += 1\n" + text.first;
  EXPECT_THAT(why(text), ElementsAre(HasSubstr("is one kernel")));
}

// Sums that other ranks or lanes left would be awaited behind a tile, without the partner.
TEST(Clusters, AddInRegistersOnly) {
  Text text;
  text.first =
      "  gemm #0 a[0:128,0:64] b[0:64,0:64] -> ranges[0:128,0:64]\n"
      "  reduce #0 ranges[0:128,0:64] ranges[128:256,0:64] -> out[0:128,0:64]\n";
  text.second =
      "  gemm #1 a[128:256,0:64] b[0:64,0:64] -> ranges[128:256,0:64]\n"
      "  reduce #1 ranges[0:128,0:64] ranges[128:256,0:64] -> out[128:256,0:64]\n";
  EXPECT_FALSE(why(text).empty());
  text.first =
      "  gemm #0 a[0:128,0:128] b[0:64,0:128] -> out[0:128,0:64]\n"
      "  reduce #0 a[0:128,0:64] a[128:256,0:64] -> copied[0:128,0:64]\n";
  text.second =
      "  gemm #1 a[128:256,0:128] b[0:64,0:128] -> out[128:256,0:64]\n"
      "  reduce #1 a[0:128,0:64] a[128:256,0:64] -> copied[128:256,0:64]\n";
  EXPECT_THAT(why(text), ElementsAre(HasSubstr("add nothing but ranges of K")));
}

}  // namespace
}  // namespace stretto::cuda
