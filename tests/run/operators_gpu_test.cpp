// Operators of several stages on GPUs: products with followers and rows that are normed, under
// every preset.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "gpu_plans.h"
#include "measure/gpu_check.h"

namespace stretto::runtime {
namespace {

struct OperatorCase {
  std::string op, schedule;
  friend void PrintTo(const OperatorCase& c, std::ostream* out) {
    *out << c.op << " " << c.schedule;
  }
};

class OperatorsOnGpus : public testing::TestWithParam<OperatorCase> {};

TEST_P(OperatorsOnGpus, AreRight) {
  const Operator op = parse_operator(GetParam().op);
  if (const std::string why = why_not_here(op.ranks); !why.empty()) STRETTO_SKIP(why);
  const Machine machine = machine_here(op.ranks);
  const Plan plan = lower(op, parse_schedules(GetParam().schedule, op, machine), machine);
  if (cuda::ranks_a_gpu() > 1) {
    if (const std::string why = why_not_shared_here(plan); !why.empty()) STRETTO_SKIP(why);
  }
  PlanRunner runner(plan, shared_fabric(op.ranks), shared_compiler());
  const GpuCheckResult result = check_on_gpus(runner, shared_fabric(op.ranks), {});
  EXPECT_EQ(result.fault, "");
  EXPECT_EQ(result.wrong_elements, 0) << result.first_wrong;
  EXPECT_LT(result.worst_error, 1);
}

std::vector<OperatorCase> cases() {
  std::vector<OperatorCase> all;
  for (const int ranks : {2, 4}) {
    const auto add = [&](const char* op, const char* dtype, const char* schedule) {
      all.push_back({fmt::format("{} ranks={} dtype={}", op, ranks, dtype), schedule});
    };
    for (const char* preset :
         {"sequential", "decomposed", "two-chunk", "waves", "tiles", "slices"}) {
      add("mlp m=1003 h=512 f=1408", "bf16", preset);
      add("mlp-gelu m=200 h=512 f=1408", "fp16", preset);
      add("mlp-ar m=517 h=512 f=1408", "fp16", preset);
      add("gemm-ar-norm m=1003 n=512 k=512", "bf16", preset);
      add("gemm-rs-norm m=517 n=960 k=512", "bf16", preset);
      add("gemm-rs-norm-ag m=203 n=512 k=512", "fp16", preset);
      add("layer m=1000 h=512 f=1408 heads=8 kv-heads=4 head-dim=64", "bf16", preset);
    }
    // cuBLAS multiplies, movers norm.
    add("gemm-ar-norm m=1003 n=512 k=512", "bf16", "library");
    add("gemm-rs-norm-ag m=203 n=512 k=512", "fp16", "low-latency");
    // Products that send what they multiply, and collectives that only receive, norms too.
    add("gemm-ar-norm m=64 n=512 k=512", "bf16", "few-rows");
    add("gemm-ar-norm m=7 n=8192 k=1024", "bf16", "few-rows");
    add("gemm-ar-norm m=500 n=4096 k=1024", "bf16", "few-rows");
    add("mlp m=1003 h=512 f=1408", "bf16", "split=2/tiles");
    add("gemm-rs-norm-ag m=300 n=512 k=1024", "bf16", "split=2/sequential");
    for (const char* op : {"gemv-ar m=1 n=1024 k=2048", "gemv-ar m=16 n=1024 k=2048"}) {
      add(op, "bf16", "low-latency");
      add(op, "fp16", "few-rows");
    }
    add("mlp m=22 h=512 f=1408", "bf16", "few-rows");
    // Gates and rows of bias in their kernel: in ranges of K, a tile an SM, and two; of rows that
    // are there.
    add("mlp m=128 h=512 f=8192", "bf16", "few-rows");
    add("mlp m=61 h=1024 f=16384", "bf16", "few-rows");
    add("mlp m=1 h=520 f=1088", "fp16", "few-rows");
    add("mlp-ar m=125 h=512 f=1408", "fp16", "few-rows");
    add("mlp-gelu m=100 h=512 f=1408", "bf16", "few-rows");
    add("mlp-gelu m=300 h=512 f=4096", "fp16", "few-rows");
    add("col-gemm m=77 n=960 k=520", "bf16", "few-rows");
    add("layer m=100 h=512 f=1408 heads=8 kv-heads=4 head-dim=64", "bf16", "few-rows");
    // Activations of sums over ranges of K, from memory and from registers.
    add("mlp-gelu m=200 h=2048 f=1024", "bf16", "sequential,tile=128x128,split-k=2");
    // A gate's product in ranges of K, the other one beside it.
    for (const char* up : {"tiles,tile=128x128,comm-sms=8,k-phases=4",
                           "tiles,tile=128x224,comm-sms=4,k-phases=8,start=wave",
                           "tiles,tile=128x256,mover=copy-engine,comm-sms=0,k-phases=2"}) {
      add("mlp m=517 h=2048 f=1408", "bf16", fmt::format("up:{}/down:tiles", up).c_str());
    }
    // Residuals of several waves of tiles, of parts of a tile behind ranges of K, and of sums that
    // every rank makes.
    add("gemm-ar-norm m=2000 n=2048 k=256", "fp16", "tiles,tile=128x128");
    add("gemm-rs-norm m=200 n=512 k=2048", "bf16", "tiles,tile=128x128,split-k=2");
    add("gemm-ar-norm m=200 n=512 k=512", "bf16", "tiles,reduction=one-shot");
    // An edge at no product, by another mover.
    for (const char* text : {"tiles/out:mover=copy-engine", "decomposed/out:mover=copy-engine",
                             "sequential/out:mover=nccl"}) {
      add("gemm-rs-norm-ag m=203 n=512 k=512", "bf16", text);
    }
    // Rows that the blocks of tiles norm: of both sorts of sums, in one wave and in several, and
    // longer than what a thread keeps.
    for (const char* sums : {"tile=128x128", "tile=128x256,reduction=one-shot,order=plain",
                             "tile=64x64,reduction=one-shot,order=plain,swizzle=2"}) {
      const std::string text =
          fmt::format("tiles,mover=epilogue,comm-sms=0,sync=flag,{}/out:mover=epilogue", sums);
      add("gemm-ar-norm m=1003 n=2048 k=512", "bf16", text.c_str());
      add("gemm-ar-norm m=37 n=512 k=512", "fp16", text.c_str());
      add("gemm-ar-norm m=200 n=12288 k=512", "bf16", text.c_str());
    }
    add("gemm-rs-norm m=517 n=960 k=512", "bf16",
        "tiles,mover=epilogue,comm-sms=0,sync=flag,tile=128x128/out:mover=epilogue");
    // Rows of more than a mover's stage.
    add("gemm-ar-norm m=40 n=8192 k=512", "bf16", "tiles");
  }
  // Columns that the ranks do not divide.
  for (const char* schedule : {"sequential", "tiles", "slices", "library"}) {
    for (const char* op : {"mlp m=203 h=512 f=1376 ranks=3", "gemm-ar m=300 n=512 k=1000 ranks=3",
                           "ag-gemm m=300 n=1000 k=512 ranks=3"}) {
      all.push_back({fmt::format("{} dtype=bf16", op), schedule});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Cuda, OperatorsOnGpus, testing::ValuesIn(cases_here(cases())),
                         [](const auto& tested) {
                           std::string name = fmt::format("{}_{}_{}", tested.index, tested.param.op,
                                                          tested.param.schedule);
                           std::replace_if(
                               name.begin(), name.end(),
                               [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

}  // namespace
}  // namespace stretto::runtime
