// Plans on GPUs whose edges a kernel of a user's own makes: the example's ring, beside our GEMM and
// cuBLAS, alone in a plan and beside NCCL; run after run; and one that does not compile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/file.h"
#include "gpu_plans.h"
#include "measure/gpu_check.h"

namespace stretto::runtime {
namespace {

using testing::HasSubstr;

constexpr const char* kGraph =
    "graph ring m h f n\n"
    "kernel ring_sum all-reduce \"ring_sum.h\" slots=2*ranks signals=16 blocks=16\n"
    "input x [m, h] rows\n"
    "input wu [f, h] rows\n"
    "input wd [h, f] cols\n"
    "input wv [n, h] rows\n"
    "u = gemm x wu\n"
    "a = gelu u\n"
    "y = gemm a wd\n"
    "z = gemm y wv\n"
    "output z cols\n"
    "output y whole\n";

struct RingCase {
  int ranks;
  int64_t rows;
  DType dtype;
  const char* schedule;
  friend void PrintTo(const RingCase& c, std::ostream* out) {
    *out << c.ranks << " ranks, " << c.rows << " rows, " << to_string(c.dtype) << " " << c.schedule;
  }
};

Operator ring(const RingCase& of, const std::string& header) {
  const Operator op =
      make_graph(parse_graph(kGraph), {{"m", of.rows}, {"h", 512}, {"f", 1408}, {"n", 1024}},
                 of.ranks, of.dtype);
  return with_kernel_sources(
      op, [&](const EdgeKernel&) { return std::make_shared<const std::string>(header); });
}

std::string header_of_example() {
  return read_file(std::string(STRETTO_TEST_DIR) + "/../../examples/ring_sum.h", 1 << 20);
}

class EdgeKernelsOnGpus : public testing::TestWithParam<RingCase> {};

TEST_P(EdgeKernelsOnGpus, AreRight) {
  const RingCase& of = GetParam();
  if (const std::string why = why_not_here(of.ranks); !why.empty()) STRETTO_SKIP(why);
  const Operator op = ring(of, header_of_example());
  const Machine machine = machine_here(of.ranks);
  const Plan plan = lower(op, parse_schedules(of.schedule, op, machine), machine);
  if (cuda::ranks_a_gpu() > 1) {
    if (const std::string why = why_not_shared_here(plan); !why.empty()) STRETTO_SKIP(why);
  }
  PlanRunner runner(plan, shared_fabric(of.ranks), shared_compiler());
  const GpuCheckResult result = check_on_gpus(runner, shared_fabric(of.ranks), {});
  EXPECT_EQ(result.fault, "");
  EXPECT_EQ(result.wrong_elements, 0) << result.first_wrong;
  EXPECT_LT(result.worst_error, 1);
}

// The gather is by movers, by NCCL beside the kernel, or of tiles.
constexpr const char* kSchedules[] = {
    "a:tiles/y:sequential,kernel=ring_sum/z:sequential",
    "a:sequential/y:sequential,kernel=ring_sum/z:sequential",
    "a:decomposed/y:library,kernel=ring_sum/z:library",
    "a:library/y:library,kernel=ring_sum/z:library",
};

std::vector<RingCase> cases() {
  std::vector<RingCase> all;
  for (const int ranks : {2, 4}) {
    for (const char* schedule : kSchedules) {
      for (const int64_t rows : {1, 64, 517, 2048}) {
        all.push_back({ranks, rows, DType::bf16, schedule});
      }
      all.push_back({ranks, 203, DType::fp16, schedule});
    }
  }
  all.push_back({3, 203, DType::bf16, kSchedules[0]});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Cuda, EdgeKernelsOnGpus, testing::ValuesIn(cases_here(cases())));

TEST(WrongEdgeKernelsOnGpus, AreNamed) {
  const RingCase of{2, 64, DType::bf16, kSchedules[0]};
  if (const std::string why = why_not_here(of.ranks); !why.empty()) STRETTO_SKIP(why);
  const Operator op = ring(of, "template <class Format, class Block> void ring_sum(Block&) {}");
  const Machine machine = machine_here(of.ranks);
  const Plan plan = lower(op, parse_schedules(of.schedule, op, machine), machine);
  try {
    PlanRunner runner(plan, shared_fabric(of.ranks), shared_compiler());
    FAIL() << "it was compiled";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("ring_sum<Bf16x8, GpuBlock> does not compile for GPUs"));
  }
}

}  // namespace
}  // namespace stretto::runtime
