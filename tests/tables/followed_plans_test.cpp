// Operators of several stages on GPUs: their plans are accepted, their tables are built, and what
// the tables have kernels compute is what the plan says.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "gpu/compiler_fixture.h"
#include "lower/plan_of_operator.h"
#include "tables/kernel_set.h"
#include "tables/plan_limits.h"
#include "tables/table_walk.h"

namespace stretto::cuda {
namespace {

using device::Follower;
using testing::HasSubstr;
using testing::IsEmpty;

struct Case {
  std::string op, schedule;
};

class FollowedPlans : public testing::TestWithParam<Case> {};

bool has(const Plan& plan, Opcode op) {
  return std::any_of(plan.lanes.begin(), plan.lanes.end(), [&](const Lane& lane) {
    return std::any_of(lane.instrs.begin(), lane.instrs.end(),
                       [&](const Instr& instr) { return instr.op == op; });
  });
}

TEST_P(FollowedPlans, RunOnGpus) {
  const Plan plan = plan_of_operator(GetParam().op, GetParam().schedule);
  const TileSums sums(plan);
  ASSERT_THAT(why_not_on_cuda(plan, sums), IsEmpty());
  const std::vector<RankProgram> programs = programs_of(plan);
  const SignalLayout signals(plan, programs, true);
  const BufferPlaces places = places_of(plan);
  bool norms = false, follows = false;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    const RankProgram& program = programs[static_cast<size_t>(rank)];
    const RankTables tables = tables_for(plan, rank, program, places, signals);
    for (const MoverTable& table : tables.moves) norms = norms || table.norms;
    for (const GemmLaunch& launch : tables.gemms) {
      const bool two = launch.config.follower == Follower::swiglu;
      const bool acts = launch.config.follower != Follower::none;
      follows = follows || acts;
      for (size_t block = 0; block < launch.table.blocks.size(); ++block) {
        const auto& tasks = launch.table.blocks[block];
        if (two || launch.config.bias) {
          ASSERT_EQ(launch.table.follows[block].size(), tasks.size());
        }
        for (const device::GemmTask& task : tasks) EXPECT_GT(task.num_destinations, 0);
        for (size_t i = 0; two && i < tasks.size(); ++i) {
          EXPECT_EQ(launch.table.follows[block][i].b_row, tasks[i].b_row);
          EXPECT_NE(launch.table.follows[block][i].b_map, tasks[i].b_map);
        }
      }
    }
  }
  EXPECT_EQ(norms, has(plan, Opcode::norm));
  EXPECT_EQ(follows, has(plan, Opcode::swiglu) || has(plan, Opcode::gelu));
  // What stays in registers needs no memory.
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    const Buffer& buffer = plan.buffers[b];
    const bool is_kept = buffer.dtype == DType::fp32 && buffer.role == BufferRole::local;
    EXPECT_EQ(sums.needs_no_memory(static_cast<uint16_t>(b)), is_kept) << buffer.name;
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* op :
       {"mlp m=1003 h=512 f=1376", "mlp-gelu m=200 h=512 f=1376", "mlp-ar m=1003 h=512 f=1376",
        "gemm-ar-norm m=1003 n=512 k=512", "gemm-rs-norm-ag m=203 n=512 k=512",
        "layer m=1000 h=512 f=1408 heads=8 kv-heads=2 head-dim=64"}) {
    for (const char* preset : {"sequential", "decomposed", "two-chunk", "waves", "tiles", "slices",
                               "split=2/tiles", "split=3/sequential"}) {
      all.push_back({fmt::format("{} ranks=2 dtype=bf16", op), preset});
    }
  }
  for (const char* text :
       {"up:tiles,k-phases=4,comm-sms=3/down:tiles", "up:slices,k-phases=2/down:tiles"}) {
    all.push_back({"mlp m=1003 h=512 f=1376 ranks=2 dtype=bf16", text});
  }
  for (const char* text : {"tiles/out:mover=copy-engine", "sequential/out:mover=nccl"}) {
    all.push_back({"gemm-rs-norm-ag m=203 n=512 k=512 ranks=2 dtype=bf16", text});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Cuda, FollowedPlans, testing::ValuesIn(cases()), [](const auto& info) {
  const std::string& op = info.param.op;
  std::string name = op.substr(0, op.find(' ')) + "_" + info.param.schedule;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
});

// Activations are tasks of a mover kernel behind the library's products.
TEST(FollowedPlansOfLibraries, NormAndActivate) {
  for (const char* op :
       {"gemm-ar-norm m=1003 n=512 k=512", "mlp m=1003 h=512 f=1376", "mlp-gelu m=200 h=512 f=1376",
        "layer m=1000 h=512 f=1408 heads=8 kv-heads=2 head-dim=64"}) {
    for (const char* preset : {"library", "two-chunk,gemm=library", "split=2/library"}) {
      const Plan plan = plan_of_operator(fmt::format("{} ranks=2 dtype=bf16", op), preset);
      EXPECT_THAT(why_not_on_cuda(plan), IsEmpty()) << op << " " << preset;
      const auto kernels = kernels_of(plan, "sm_90a");
      EXPECT_TRUE(
          std::any_of(kernels.begin(), kernels.end(),
                      [](const KernelEntry& kernel) { return kernel.name == "mover that norms"; }))
          << op << " " << preset;
    }
  }
}

TEST(FollowedPlansKernels, AreListedWithTheirFollowersAndNorms) {
  std::string names;
  for (const KernelEntry& kernel : kernels_of(
           plan_of_operator("layer m=1000 h=512 f=1408 heads=8 kv-heads=2 head-dim=64 ranks=2 "
                            "dtype=bf16",
                            "tiles"),
           "sm_90a")) {
    names += kernel.name + "\n";
  }
  EXPECT_THAT(names, HasSubstr(" swiglu\n"));
  EXPECT_THAT(names, HasSubstr("mover that norms\n"));
}

class GpuCompileFollowed : public NeedsCompiler {};

TEST_F(GpuCompileFollowed, KernelsAndMoversDoNotSpill) {
  for (const char* op : {"mlp-gelu m=1003 h=512 f=1376 ranks=2 dtype=bf16",
                         "layer m=4096 h=4096 f=14336 heads=32 kv-heads=8 head-dim=128 ranks=8 "
                         "dtype=bf16"}) {
    for (const KernelEntry& kernel : kernels_of(plan_of_operator(op, "tiles"), "sm_90a")) {
      const bool is_new =
          kernel.name.find("lu") != std::string::npos || kernel.name == "mover that norms";
      if (is_new) expect_no_spills_in_time(kernel.name, kernel.source, "sm_90a");
    }
  }
}

// One rank, one lane: 100 rows, so that the tile hangs over, and both ways to name the products.
constexpr const char* kHead = R"(stretto-plan 1
operator gemm-rs m=100 n=96 k=128 ranks=1 dtype=bf16
sms 132
buffer a bf16 100x128 input
buffer bg bf16 96x128 input
buffer bu bf16 96x128 input
buffer row bf16 1x96 input
buffer g fp32 100x96 local
buffer u fp32 100x96 local
buffer q fp32 100x96 local
buffer ranges fp32 200x96 local
buffer y bf16 100x96 output
lane 0 compute 0
)";

class FollowedTables : public testing::Test {
 protected:
  // Of the only rank's walk over the plan's tables.
  void walk(const std::string& lane) {
    plan_ = parse_plan(kHead + lane + "end\n");
    ASSERT_THAT(why_not_on_cuda(plan_), IsEmpty());
    walk_ = std::make_unique<TableWalk>(plan_);
    ASSERT_TRUE(walk_->run());
  }
  float product(const char* weights, int row, int column) const {
    float sum = 0;
    for (int k = 0; k < 128; ++k) {
      sum += value("a", row * 128 + k) * value(weights, column * 128 + k);
    }
    return sum;
  }
  float value(const char* buffer, int at) const {
    return walk_->values(0, buffer)[static_cast<size_t>(at)];
  }
  // What the caller gets at every place.
  template <typename Expected>
  void expect(const Expected& expected) const {
    for (int row = 0; row < 100; ++row) {
      for (int column = 0; column < 96; ++column) {
        ASSERT_EQ(value("y", row * 96 + column), expected(row, column)) << row << " " << column;
      }
    }
  }

  Plan plan_;
  std::unique_ptr<TableWalk> walk_;
};

// Two tiles, of 64 and of 32 columns.
std::string two_tiles(std::string lane) {
  std::string second = lane;
  const auto replace_all = [&](const std::string& from, const std::string& to) {
    for (size_t at = second.find(from); at != std::string::npos; at = second.find(from, at)) {
      second.replace(at, from.size(), to);
      at += to.size();
    }
  };
  replace_all("0:64", "64:96");
  replace_all("#0", "#1");
  return lane + second;
}

TEST_F(FollowedTables, ComputeSwiglu) {
  walk(
      two_tiles("  gemm #0 a[0:100,0:128] bu[0:64,0:128] -> u[0:100,0:64]\n"
                "  gemm #0 a[0:100,0:128] bg[0:64,0:128] -> g[0:100,0:64]\n"
                "  swiglu #0 g[0:100,0:64] u[0:100,0:64] -> y[0:100,0:64]\n"));
  expect([&](int row, int column) {
    return tasks::silu_of(product("bg", row, column)) * product("bu", row, column);
  });
  EXPECT_EQ(walk_->tables()[0].gemms[0].table.blocks[0].size(), 2u);
}

TEST_F(FollowedTables, ComputeSwigluOfASumOfRangesOfKAndAWholeProduct) {
  walk(
      "  gemm #0 a[0:100,0:64] bg[0:96,0:64] -> ranges[0:100,0:96]\n"
      "  gemm #0 a[0:100,64:128] bg[0:96,64:128] -> ranges[100:200,0:96]\n"
      "  reduce #0 ranges[0:100,0:96] ranges[100:200,0:96] -> g[0:100,0:96]\n"
      "  gemm #0 a[0:100,0:128] bu[0:96,0:128] -> u[0:100,0:96]\n"
      "  swiglu #0 g[0:100,0:96] u[0:100,0:96] -> y[0:100,0:96]\n");
  expect([&](int row, int column) {
    return tasks::silu_of(product("bg", row, column)) * product("bu", row, column);
  });
  EXPECT_EQ(walk_->tables()[0].gemms[0].table.blocks[0].size(), 1u);
}

TEST_F(FollowedTables, AddBiasToTheProductThatHasIt) {
  walk(
      two_tiles("  gemm #0 a[0:100,0:128] bg[0:64,0:128] -> g[0:100,0:64]\n"
                "  gemm #0 a[0:100,0:128] bu[0:64,0:128] -> u[0:100,0:64]\n"
                "  bias #0 u[0:100,0:64] row[0:1,0:64] -> q[0:100,0:64]\n"
                "  swiglu #0 g[0:100,0:64] q[0:100,0:64] -> y[0:100,0:64]\n"));
  expect([&](int row, int column) {
    return tasks::silu_of(product("bg", row, column)) *
           (product("bu", row, column) + value("row", column));
  });
}

TEST_F(FollowedTables, ComputeGeluOfASumOfRangesOfKAndBias) {
  walk(
      "  gemm #0 a[0:100,0:64] bg[0:96,0:64] -> ranges[0:100,0:96]\n"
      "  gemm #0 a[0:100,64:128] bg[0:96,64:128] -> ranges[100:200,0:96]\n"
      "  reduce #0 ranges[0:100,0:96] ranges[100:200,0:96] -> g[0:100,0:96]\n"
      "  bias #0 g[0:100,0:96] row[0:1,0:96] -> q[0:100,0:96]\n"
      "  gelu #0 q[0:100,0:96] -> y[0:100,0:96]\n");
  expect([&](int row, int column) {
    return tasks::gelu_of(product("bg", row, column) + value("row", column));
  });
}

}  // namespace
}  // namespace stretto::cuda
