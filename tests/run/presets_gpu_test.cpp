// Every preset and operator on GPUs: right, the same bits again, from a graph too.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "gpu_plans.h"
#include "lower/plan_of.h"
#include "measure/gpu_check.h"
#include "plan_cases.h"

namespace stretto::runtime {
namespace {

class PresetsOnGpus : public PlanOnGpus {};

TEST_P(PresetsOnGpus, AreRight) {
  const auto& [op_text, schedule, ranks] = GetParam();
  const Plan plan = plan_here(op_text, schedule);
  PlanRunner runner(plan, shared_fabric(ranks), shared_compiler());
  const GpuCheckResult result = check_on_gpus(runner, shared_fabric(ranks), {});
  EXPECT_EQ(result.fault, "");
  EXPECT_EQ(result.wrong_elements, 0) << result.first_wrong;
  EXPECT_LT(result.worst_error, 1);
  // NCCL may add in another order from run to run.
  const Segment op = parse_segment(op_text);
  if (is_deterministic(parse_schedule(schedule, op, machine_here(ranks)))) {
    EXPECT_TRUE(result.reproducible);
  }
}

// Right on every rank and the same again, but with bits of its own on rank 1.
TEST(ChecksOnGpus, FindARankThatAddsInAnotherOrder) {
  constexpr int kRanks = 4;
  if (const std::string why = why_not_here(kRanks); !why.empty()) STRETTO_SKIP(why);
  Plan plan = plan_here("gemm-ar m=1024 n=512 k=1024 ranks=4 dtype=bf16",
                        "tiles,reduction=one-shot,partials=fp32");
  const auto is_alike = [&] {
    PlanRunner runner(plan, shared_fabric(kRanks), shared_compiler());
    const GpuCheckResult result = check_on_gpus(runner, shared_fabric(kRanks), {});
    EXPECT_TRUE(result.verified()) << result.fault << result.first_wrong;
    return result.reproducible;
  };
  EXPECT_TRUE(is_alike());
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (lane.rank != 1 || instr.op != Opcode::reduce) continue;
      std::swap(plan.operands[instr.first_operand],
                plan.operands[instr.first_operand + instr.num_reads - 1]);
    }
  }
  EXPECT_FALSE(is_alike());
}

std::vector<PlanCase> cases() {
  constexpr const char* kOperators[] = {"ag-gemm", "gemm-rs", "gemm-ar"};
  constexpr const char* kPresets[] = {"sequential", "library", "decomposed", "two-chunk",
                                      "waves",      "tiles",   "slices"};
  std::vector<PlanCase> all;
  for (const int ranks : {2, 4, 8}) {
    const auto add = [&](const char* kind, const char* sizes, const char* dtype,
                         const std::string& schedule) {
      all.push_back(
          {fmt::format("{} {} ranks={} dtype={}", kind, sizes, ranks, dtype), schedule, ranks});
    };
    for (const char* kind : kOperators) {
      for (const char* preset : kPresets) {
        add(kind, "m=1024 n=1024 k=1024", "bf16", preset);
        add(kind, "m=1000 n=1088 k=832", "fp16", preset);  // ragged tiles, even shards
        add(kind, "m=517 n=960 k=576", "bf16", preset);    // ragged shards too
        add(kind, "m=261 n=448 k=320", "fp16", preset);
        if (ranks > 2) add(kind, "m=3 n=1024 k=1024", "bf16", preset);  // fewer rows than ranks
      }
      // One row, and about the rows of a tile.
      for (const int m : {1, 7, 63, 127, 129}) {
        for (const char* preset : {"tiles", "slices", "decomposed"}) {
          add(kind, fmt::format("m={} n=512 k=512", m).c_str(), m % 4 == 3 ? "fp16" : "bf16",
              preset);
        }
      }
      add(kind, "m=2048 n=2048 k=2048", "bf16", "tiles,mover=copy-engine,reuse=ack");
      // Copy engines signal tile by tile and slice by slice, to kernels that run.
      for (const char* reuse : {"ack", "double"}) {
        for (const char* preset : {"tiles,tile=64x128", "slices,tile=64x128", "decomposed"}) {
          add(kind, "m=1024 n=1024 k=512", "bf16",
              fmt::format("{},mover=copy-engine,comm-sms=0,reuse={}", preset, reuse));
        }
      }
      add(kind, "m=517 n=960 k=576", "bf16", "slices,mover=copy-engine,comm-sms=0,tile=64x128");
      add(kind, "m=1024 n=1024 k=1024", "bf16", "decomposed,sync=flag");
      add(kind, "m=2048 n=2048 k=2048", "bf16", "decomposed,reuse=double");
      add(kind, "m=2048 n=2048 k=2048", "bf16", "decomposed,chunks=2");
    }
    for (const char* kind : kOperators) {
      // cuBLAS on parts too, into buffers that alternate, and rows that TMA cannot read.
      add(kind, "m=16 n=2560 k=8192", "bf16", "library");
      add(kind, "m=517 n=952 k=520", "fp16", "library");
      add(kind, "m=1000 n=1088 k=832", "fp16", "two-chunk,gemm=library");
      add(kind, "m=517 n=960 k=576", "bf16", "decomposed,gemm=library");
      add(kind, "m=1024 n=1024 k=1024", "bf16", "decomposed,gemm=library,chunks=2,reuse=double");
      // Few products, beside copy engines and beside blocks that push.
      add(kind, "m=517 n=960 k=576", "bf16", "decomposed,gemm=library,groups=1+1");
      add(kind, "m=1000 n=1088 k=832", "fp16",
          "decomposed,gemm=library,groups=1+8,reuse=double,mover=comm-blocks,comm-sms=8");
      add(kind, "m=517 n=960 k=576", "bf16", "decomposed,groups=2,mover=comm-blocks,comm-sms=8");
    }
    add("gemm-rs", "m=1024 n=1024 k=1024", "bf16", "decomposed,gemm=library,partials=fp32");
    for (const char* kind : kOperators) {
      // One hop and two, fewer rows than ranks, short last rows, our tiles and a library's.
      add(kind, "m=16 n=2560 k=8192", "bf16", "low-latency");
      add(kind, "m=1 n=1024 k=1024", "fp16", "low-latency");
      add(kind, "m=517 n=952 k=1024", "fp16", "low-latency");
      add(kind, "m=261 n=448 k=320", "bf16", "low-latency");
      add(kind, "m=2048 n=2048 k=1024", "bf16", "low-latency");
      add(kind, "m=2600 n=2048 k=512", "bf16", "low-latency");  // in two hops between two ranks
      add(kind, "m=100 n=1024 k=4096", "bf16",
          "sequential,collectives=low-latency,tile=64x64,split-k=4");
    }
    for (const char* kind : kOperators) {
      // Rows that are sent as they are multiplied, or stored behind a gather: tiles as high as they
      // are, ragged ones, ranges of K, fewer rows than ranks.
      add(kind, "m=16 n=2560 k=8192", "bf16", "few-rows");
      add(kind, "m=1 n=1024 k=1024", "fp16", "few-rows");
      add(kind, "m=125 n=832 k=1088", "fp16", "few-rows");
      add(kind, "m=100 n=448 k=320", "bf16", "few-rows");
      add(kind, "m=128 n=8192 k=2048", "bf16", "few-rows");
      // More: wide tiles and narrow ones, by themselves and in clusters, in one round and in two.
      add(kind, "m=344 n=8192 k=1024", "bf16", "few-rows");
      add(kind, "m=402 n=3584 k=2048", "fp16", "few-rows");
      add(kind, "m=213 n=5440 k=576", "bf16", "few-rows");
      add(kind, "m=512 n=7168 k=512", "bf16", "few-rows");
      // Of sums, one tile beside the next: parts of rows that end within a tile, short last ones.
      add(kind, "m=813 n=5120 k=1024", "bf16", "few-rows");
      add(kind, "m=1937 n=3072 k=320", "fp16", "few-rows");
      add(kind, "m=510 n=5440 k=1088", "bf16", "few-rows");
    }
    for (const char* kind : kOperators) {
      // Few tiles with a long K; ragged tiles and ranges; every mover and kind of signal.
      add(kind, "m=256 n=1024 k=8192", "bf16", "tiles,tile=128x128,split-k=4");
      add(kind, "m=200 n=1088 k=4160", "fp16", "tiles,tile=64x128,split-k=3");
      add(kind, "m=517 n=960 k=4672", "bf16", "sequential,tile=128x128,split-k=2");
      add(kind, "m=1024 n=1024 k=4096", "bf16", "waves,tile=128x128,split-k=2");
      add(kind, "m=1024 n=1024 k=4096", "bf16", "slices,tile=128x128,split-k=2");
      add(kind, "m=1024 n=1024 k=4096", "bf16", "decomposed,tile=128x128,split-k=2");
      add(kind, "m=2048 n=2048 k=8192", "bf16", "tiles,tile=128x192,split-k=2");  // several waves
    }
    // Kernels with register budgets of their own.
    add("ag-gemm", "m=256 n=4096 k=8192", "bf16", "tiles,tile=64x256,comm-sms=8,split-k=2");
    add("ag-gemm", "m=256 n=4096 k=8192", "fp16", "sequential,tile=64x256,split-k=2");
    // Rows that arrive in ranges of K: both movers, ragged tiles and ranges, waves behind the
    // first.
    const char* gather = "ag-gemm";
    add(gather, "m=1024 n=1024 k=4096", "bf16", "tiles,tile=128x128,comm-sms=8,k-phases=4");
    add(gather, "m=1000 n=1088 k=832", "fp16", "tiles,tile=64x128,comm-sms=3,k-phases=13");
    add(gather, "m=517 n=960 k=4672", "bf16", "tiles,tile=128x128,mover=copy-engine,k-phases=8");
    add(gather, "m=1024 n=4096 k=8192", "bf16", "tiles,tile=128x256,comm-sms=12,k-phases=16");
    add(gather, "m=2048 n=4096 k=1024", "bf16", "tiles,tile=64x64,comm-sms=8,k-phases=2");
    add(gather, "m=1024 n=1024 k=2048", "bf16", "slices,tile=128x192,k-phases=3");
    add(gather, "m=2000 n=1088 k=832", "fp16", "tiles,tile=64x128,comm-sms=3,order=interleaved");
    add(gather, "m=1024 n=1024 k=1024", "bf16",
        "tiles,tile=64x128,comm-sms=4,k-phases=4,order=interleaved,own=gathered");
    // Tiles that begin with those of all lanes: alone, in phases, beside copy engines.
    add(gather, "m=2000 n=1088 k=832", "fp16", "tiles,tile=64x128,comm-sms=3,start=wave");
    add(gather, "m=1024 n=4096 k=4096", "bf16",
        "tiles,tile=128x192,comm-sms=8,k-phases=4,start=wave");
    add(gather, "m=517 n=960 k=4672", "bf16",
        "tiles,tile=128x128,mover=copy-engine,k-phases=8,start=wave");
    add(gather, "m=1024 n=1024 k=2048", "bf16",
        "tiles,tile=128x128,comm-sms=8,split-k=2,reuse=ack,start=wave");
    // Own rows among those that movers write.
    add(gather, "m=517 n=960 k=4672", "bf16",
        "tiles,tile=128x192,comm-sms=4,k-phases=8,own=gathered");
    add(gather, "m=1000 n=1088 k=832", "fp16", "tiles,tile=64x128,comm-sms=3,own=gathered");
    add(gather, "m=1024 n=1024 k=1024", "bf16", "slices,mover=copy-engine,comm-sms=0,own=gathered");
    add(gather, "m=1024 n=1024 k=2048", "bf16",
        "tiles,tile=128x128,mover=copy-engine,reuse=ack,k-phases=4");
    add(gather, "m=512 n=1024 k=4096", "bf16",
        "tiles,tile=128x128,comm-sms=8,split-k=2,k-phases=4");
    // Clusters: whole rows and phases, tiles of two owners and ragged ones, one wave and several,
    // an own row beside others', movers that are no whole cluster after rows have run out.
    add(gather, "m=1024 n=1024 k=1024", "bf16", "tiles,tile=128x128,comm-sms=4,cluster=2");
    add(gather, "m=2048 n=4096 k=1024", "bf16", "tiles,tile=128x256,comm-sms=8,cluster=2");
    add(gather, "m=1000 n=1088 k=832", "fp16", "tiles,tile=64x128,comm-sms=4,cluster=2");
    add(gather, "m=2000 n=1088 k=832", "fp16",
        "tiles,tile=128x160,comm-sms=2,k-phases=5,order=own-first,cluster=2");
    add(gather, "m=1024 n=2048 k=4096", "bf16",
        "tiles,tile=128x256,comm-sms=8,k-phases=8,sync=counter,cluster=2");
    add(gather, "m=2048 n=4096 k=1024", "bf16",
        "tiles,tile=64x64,comm-sms=8,k-phases=2,reuse=ack,cluster=2");
    add(gather, "m=2048 n=8192 k=1024", "bf16",
        "tiles,tile=128x256,comm-sms=8,k-phases=4,start=wave,cluster=2");
    add(gather, "m=2000 n=2112 k=576", "bf16",
        "tiles,tile=128x224,comm-sms=4,order=interleaved,own=gathered,k-phases=3,cluster=2");
    add(gather, "m=47 n=512 k=64", "bf16", "tiles,tile=8x64,comm-sms=8,swizzle=1,cluster=2");
    // Columns of every rank one after the other, the own ones where they lie.
    const char* exchange = "a2a-gemm";
    add(exchange, "m=2048 n=1024 k=4096", "bf16", "tiles,tile=128x256,comm-sms=4");
    add(exchange, "m=1003 n=1088 k=1024", "fp16", "tiles,tile=128x192,comm-sms=3,sync=counter");
    add(exchange, "m=4100 n=2048 k=1024", "bf16", "slices,tile=64x128,comm-sms=8,reuse=ack");
    add(exchange, "m=2048 n=1024 k=4096", "bf16", "slices,mover=copy-engine,comm-sms=0");
    add("gemm-ar", "m=512 n=1024 k=1024", "bf16", "tiles,reduction=one-shot");
    add("gemm-rs", "m=1024 n=1024 k=1024", "bf16", "tiles,partials=fp32");
    // Sums of others in pieces of 32 columns, and of tiles of 256 rows.
    add("gemm-rs", "m=1000 n=1088 k=832", "bf16", "tiles,comm-sms=0,tile=128x224");
    add("gemm-rs", "m=2048 n=512 k=1024", "fp16", "tiles,comm-sms=0,tile=256x64");
  }
  // Shards that no power of two divides, and ragged ones.
  for (const int ranks : {3, 5, 6, 7}) {
    for (const char* kind : kOperators) {
      const std::string op = fmt::format("{} m={} n={} k={} ranks={} dtype=bf16", kind,
                                         100 * ranks + 17, 168 * ranks, 192 * ranks, ranks);
      for (const char* schedule :
           {"tiles", "slices", "tiles,tile=64x128,comm-sms=4", "tiles,mover=copy-engine,reuse=ack",
            "decomposed,reuse=double", "tiles,tile=128x128,split-k=2"}) {
        all.push_back({op, schedule, ranks});
      }
    }
  }
  for (const char* kind : kOperators) {
    all.push_back({fmt::format("{} m=300 n=264 k=200 ranks=1 dtype=bf16", kind), "sequential", 1});
    all.push_back({fmt::format("{} m=300 n=264 k=200 ranks=1 dtype=bf16", kind), "library", 1});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Gpu, PresetsOnGpus, testing::ValuesIn(cases_here(cases())),
                         [](const auto& i) { return name_of_case(i); });

// Also those that are yet to be written.
TEST(PresetsOfTheTests, AreAllThereAreWithEveryOperatorAndTypeOnRaggedShapes) {
  std::set<std::tuple<std::string, ProductKind, DType, int>> ragged;
  for (const PlanCase& one : cases()) {
    const Segment op = parse_segment(one.op);
    if (op.m > 64 && op.m % 64 != 0) ragged.insert({one.schedule, op.kind, op.dtype, one.ranks});
  }
  for (const Preset& preset : presets()) {
    for (const ProductKind kind : {kAgGemm, kGemmRs, kGemmAr}) {
      for (const DType dtype : {DType::bf16, DType::fp16}) {
        for (const int ranks : {2, 4, 8}) {
          EXPECT_TRUE(ragged.contains({std::string(preset.name), kind, dtype, ranks}))
              << preset.name << " " << to_string(kind) << " " << to_string(dtype) << " " << ranks;
        }
      }
    }
  }
}

}  // namespace
}  // namespace stretto::runtime
