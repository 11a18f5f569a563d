// The device language compiles alone for every architecture; its kernels without spills, and in
// time. Needs the CUDA run-time compiler, but no GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <vector>

#include "gpu/compiler.h"
#include "gpu/compiler_fixture.h"
#include "lang/lang_kernel.h"
#include "stretto/device/lang/kernels/all_reduce_norm.h"
#include "thorough.h"

namespace stretto::cuda {
namespace {

class GpuCompile : public NeedsCompiler, public testing::WithParamInterface<const char*> {
 protected:
  static void compile(const std::string& source) {
    EXPECT_FALSE(Compiler(JitCache("")).compile(source, GetParam()).cubin.empty());
  }
  static void expect_good(const LangKernelName& name, int threads) {
    expect_no_spills_in_time(fmt::format("{} with {} threads", name.kernel, threads),
                             lang_source(name, threads), GetParam());
  }
};

// Of kernels, which have as many registers on sm_89 as on sm_80, and the same instructions.
class GpuCompileKernels : public GpuCompile {};

TEST_P(GpuCompile, EveryHeaderAlone) {
  for (const char* header : {"words",
                             "gpu_words",
                             "gpu_world",
                             "gpu_copy",
                             "gpu_waits",
                             "gpu_block",
                             "team",
                             "meeting",
                             "collectives",
                             "shmem",
                             "channel",
                             "tile",
                             "numbers",
                             "kernels/all_to_all",
                             "kernels/greeting",
                             "kernels/tile_greeting",
                             "kernels/call",
                             "kernels/slots",
                             "kernels/all_reduce",
                             "kernels/parts_walk",
                             "kernels/send_rows",
                             "kernels/gather_scatter",
                             "kernels/norm",
                             "kernels/norm_greeting",
                             "kernels/all_reduce_norm_args",
                             "kernels/two_shot_norm",
                             "kernels/all_reduce_norm",
                             "kernels/scatter_norm_gather",
                             "kernels/experts",
                             "kernels/dispatch_args",
                             "kernels/dispatch_places",
                             "kernels/dispatch_send",
                             "kernels/dispatch_take",
                             "kernels/dispatch",
                             "kernels/combine",
                             "kernels/stream_signals",
                             "kernels/movers",
                             "kernels/rows_of_call",
                             "kernels/copy_rows",
                             "kernels/chosen_rows",
                             "kernels/chosen_pieces",
                             "kernels/chosen_sender",
                             "kernels/chosen_sums",
                             "kernels/chosen_terms",
                             "kernels/round_trip_rows",
                             "kernels/send_and_route",
                             "kernels/send_chosen_rows",
                             "kernels/sum_chosen_rows",
                             "kernels/sum_many_rows"}) {
    SCOPED_TRACE(header);
    compile("#include \"stretto/device/lang/" + std::string(header) + ".h\"\n");
  }
}

// What a user writes to make a kernel callable.
std::string entry(const std::string& header, const std::string& kernel, const std::string& args) {
  return "#include \"stretto/device/lang/gpu_block.h\"\n"
         "#include \"stretto/device/lang/kernels/" +
         header +
         ".h\"\n"
         "using namespace stretto::device;\n"
         "template __global__ void stretto::device::entry<" +
         kernel + ", " + args +
         "<GpuBlock>>(\n"
         "    const __grid_constant__ GpuWorld, const __grid_constant__ " +
         args + "<GpuBlock>);\n";
}

TEST_P(GpuCompileKernels, KernelsWithoutSpills) {
  const std::string sources[] = {
      entry("all_to_all", "all_to_all<GpuBlock>", "AllToAllArgs"),
      entry("all_reduce", "all_reduce_one_shot<Bf16x8, GpuBlock>", "AllReduceArgs"),
      entry("all_reduce", "all_reduce_two_shot<Bf16x8, GpuBlock>", "AllReduceArgs"),
      entry("all_reduce", "all_reduce_one_shot<Fp32x4, GpuBlock>", "AllReduceArgs"),
      entry("gather_scatter", "all_gather_one_shot<Bf16x8, GpuBlock>", "PartsArgs"),
      entry("gather_scatter", "reduce_scatter_one_shot<Bf16x8, GpuBlock>", "PartsArgs"),
      entry("send_rows", "send_rows<Bf16x8, GpuBlock>", "SendRowsArgs"),
      entry("copy_rows", "copy_rows<GpuBlock>", "CopyRowsArgs"),
      entry("norm", "add_norm<GpuBlock>", "AddNormArgs"),
      entry("all_reduce_norm", "all_reduce_norm_one_shot<GpuBlock>", "AllReduceNormArgs"),
      entry("all_reduce_norm", "all_reduce_norm_two_shot<GpuBlock>", "AllReduceNormArgs"),
      entry("all_reduce_norm", "all_reduce_norm_own_rows<GpuBlock>", "OwnRowsNormArgs"),
      entry("scatter_norm_gather", "scatter_norm_gather<GpuBlock>", "ScatterNormGatherArgs"),
      entry("dispatch", "dispatch<GpuBlock>", "DispatchArgs"),
      entry("combine", "combine<GpuBlock>", "CombineArgs"),
      entry("stream_signals", "rank_notify<GpuBlock>", "RankNotifyArgs"),
      entry("stream_signals", "rank_wait<GpuBlock>", "RankWaitArgs"),
      entry("movers", "push_gather<GpuBlock>", "GatherArgs"),
      entry("movers", "slot_reduce<Bf16x8, GpuBlock>", "SlotReduceArgs"),
  };
  for (const std::string& source : sources) expect_no_spills_in_time(source, source, GetParam());
}

// The fused norms as they are launched: with a thread for each vector of a row of 8192, 7168 and
// 5120 columns, and as many in flight as 8 ranks take.
TEST_P(GpuCompileKernels, FusedNormsWithoutSpillsAtTheirLaunchBounds) {
  const std::string arch = GetParam();
  for (const int threads : {1024, 896, 640}) {
    const int in_flight = device::norm_in_flight(8, threads, arch >= "sm_90");
    for (const std::string form : {"one_shot", "two_shot", "own_rows"}) {
      const LangKernelName name{
          "kernels/all_reduce_norm.h",
          fmt::format("all_reduce_norm_{}<GpuBlock, {}>", form, in_flight),
          fmt::format("{}NormArgs<GpuBlock>", form == "own_rows" ? "OwnRows" : "AllReduce")};
      expect_good(name, threads);
    }
  }
}

// Parts with as many threads as a block can have, and with four vectors in flight for few ranks.
TEST_P(GpuCompileKernels, GatherAndScatterWithoutSpillsAtTheirLaunchBounds) {
  struct Launch {
    int threads, in_flight;
  };
  for (const Launch& launch : {Launch{512, 8}, Launch{512, 4}, Launch{1024, 4}}) {
    for (const char* form : {"all_gather_one_shot<Bf16x8", "reduce_scatter_one_shot<Fp16x8",
                             "reduce_scatter_one_shot<Fp32x4"}) {
      const LangKernelName name{"kernels/gather_scatter.h",
                                fmt::format("{}, GpuBlock, {}>", form, launch.in_flight),
                                "PartsArgs<GpuBlock>"};
      expect_good(name, launch.threads);
    }
  }
}

// Kernels that only receive, as plans launch them, behind products that only Hopper has.
TEST_P(GpuCompileKernels, ReceiversWithoutSpillsAtTheirLaunchBounds) {
  if (std::string(GetParam()) != "sm_90a") return;
  const auto expect_receiver = [](const char* header, const std::string& kernel, const char* args,
                                  int threads) {
    expect_good({fmt::format("kernels/{}.h", header), fmt::format("{}, SentBy::kBefore>", kernel),
                 fmt::format("{}<GpuBlock>", args), "", true},
                threads);
  };
  for (const int in_flight : {4, 8}) {
    expect_receiver("all_reduce",
                    fmt::format("all_reduce_one_shot<Fp16x8, GpuBlock, {}", in_flight),
                    "AllReduceArgs", 512);
    expect_receiver("gather_scatter",
                    fmt::format("reduce_scatter_one_shot<Bf16x8, GpuBlock, {}", in_flight),
                    "PartsArgs", 512);
  }
  for (const int threads : {1024, 640}) {
    const int in_flight = device::norm_in_flight(8, threads, true);
    expect_receiver("all_reduce_norm",
                    fmt::format("all_reduce_norm_one_shot<GpuBlock, {}", in_flight),
                    "AllReduceNormArgs", threads);
  }
}

// As the benchmark launches them.
TEST_P(GpuCompileKernels, ExpertsWithoutSpillsAtTheirLaunchBounds) {
  for (const LangKernelName& name :
       {LangKernelName{"kernels/dispatch.h", "dispatch<GpuBlock>", "DispatchArgs<GpuBlock>"},
        LangKernelName{"kernels/combine.h", "combine<GpuBlock>", "CombineArgs<GpuBlock>"}}) {
    expect_good(name, 512);
  }
}

// As plans launch them.
TEST_P(GpuCompileKernels, ChosenRowsWithoutSpillsAtTheirLaunchBounds) {
  expect_good({"kernels/send_chosen_rows.h", "send_chosen_rows<Bf16x8, GpuBlock, 2>",
               "SendChosenArgs<GpuBlock>"},
              512);
  expect_good(
      {"kernels/sum_chosen_rows.h", "sum_chosen_rows<Fp16x8, GpuBlock>", "SumChosenArgs<GpuBlock>"},
      512);
  for (const int terms : {2, 4, 8}) {
    expect_good(
        {"kernels/sum_many_rows.h", fmt::format("sum_many_rows<Bf16x8, {}, GpuBlock>", terms),
         "SumChosenArgs<GpuBlock>"},
        terms == 2 ? 512 : 768);
  }
  for (const int in_flight : {1, 2}) {
    expect_good(
        {"kernels/send_and_route.h", fmt::format("send_and_route<Fp16x8, GpuBlock, {}>", in_flight),
         "SendAndRouteArgs<GpuBlock>"},
        512);
    expect_good({"kernels/round_trip_rows.h",
                 fmt::format("round_trip_rows<Bf16x8, GpuBlock, {}>", in_flight),
                 "RoundTripArgs<GpuBlock>"},
                512);
  }
}

// Movers with as many vectors in flight as a block of that size has registers for.
TEST_P(GpuCompileKernels, MoversWithoutSpillsAtTheirLaunchBounds) {
  struct Launch {
    int threads, in_flight;
  };
  for (const Launch& launch : {Launch{512, 8}, Launch{1024, 4}}) {
    for (const LangKernelName& name :
         {LangKernelName{"kernels/movers.h",
                         fmt::format("push_gather<GpuBlock, {}>", launch.in_flight),
                         "GatherArgs<GpuBlock>"},
          LangKernelName{"kernels/movers.h",
                         fmt::format("slot_reduce<Fp16x8, GpuBlock, {}>", launch.in_flight),
                         "SlotReduceArgs<GpuBlock>"}}) {
      expect_good(name, launch.threads);
    }
  }
}

// Every primitive is a template, so only a kernel that calls it shows that it compiles.
TEST_P(GpuCompile, EveryPrimitive) {
  compile(R"(
#include "stretto/device/lang/gpu_block.h"
#include "stretto/device/lang/tile.h"
using namespace stretto::device;
struct Args { float* x; const float* y; uint64* s; uint32* w; BlockChannel<GpuBlock> channel; };
template <class Block>
STRETTO_KERNEL void all(Block& block, const Args& a) {
  Shmem shmem(block);
  shmem.putmem(a.x, a.y, 64, 1); shmem.putmem_nbi(a.x, a.y, 64, 1);
  shmem.putmem_warp(a.x, a.y, 64, 1); shmem.putmem_nbi_block(a.x, a.y, 64, 1);
  shmem.getmem_block(a.x, a.y, 64, 1); shmem.getmem_nbi_warp(a.x, a.y, 64, 1);
  shmem.putmem_signal(a.x, a.y, 64, a.s, 1, SignalOp::kSet, 1);
  shmem.putmem_signal_nbi_warp(a.x, a.y, 64, a.s, 1, SignalOp::kAdd, 1);
  shmem.putmem_signal_nbi_block(a.x, a.y, 64, a.s, 1, SignalOp::kAdd, 1);
  shmem.p(a.x, 1.0f, 1); a.x[0] = shmem.g(a.x, 1);
  shmem.signal_op_block(a.s, 1, SignalOp::kAdd, 1);
  if (!shmem.signal_wait_until(a.s, Compare::kNe, 1)) return;
  shmem.fence(); shmem.quiet();
  if (!shmem.sync_all_block() || !shmem.barrier_all_block()) return;
  shmem.broadcastmem_block(a.x, a.y, 64, 0); shmem.fcollect_block(a.x, a.x, 4);
  Team team;
  if (shmem.team_split_strided(team_world(), 0, 2, 2, &team) != 0) return;
  a.w[2] = shmem.team_my_pe(team) + shmem.team_n_pes(team);
  a.w[3] = shmem.team_translate_pe(team, 1, team_world());
  if (!shmem.team_sync_block(team) || !shmem.barrier_block(team)) return;
  if (!shmem.sync_all() || !shmem.sync_all_warp() || !shmem.barrier_warp(team)) return;
  shmem.broadcastmem(a.x, a.y, 64, 0); shmem.fcollect_warp(team, a.x, a.x, 4);
  shmem.broadcastmem_block(team, a.x, a.y, 64, 0); shmem.fcollect_block(team, a.x, a.x, 4);
  shmem.atomic_add(a.s, uint64(1), 1); shmem.atomic_set(a.w, 1u, 1);
  a.w[0] = shmem.atomic_fetch(a.w, 1) + shmem.atomic_fetch_add(a.w, 1u, 1) +
           shmem.atomic_swap(a.w, 1u, 1) + shmem.atomic_compare_swap(a.w, 1u, 2u, 1);
  block.store(a.w, 1, Order::kRelease, Scope::kGpu);
  a.w[1] = block.load(a.w, Order::kAcquire, Scope::kBlock);
  shared<float>(block, 0)[block.thread_idx()] = 1.0f;
  block.sync_warp();
  Tiles tiles(block, a.channel);
  tiles.tile_push_data(a.x, a.y, 16, 0, To::kOwner); tiles.tile_pull_data(a.x, a.y, 16, 0);
  tiles.producer_tile_notify(0, To::kAll);
  if (!tiles.consumer_tile_wait(0)) return;
  tiles.peer_tile_notify(0, 1);
  tiles.peer_tile_wait(0, 1);
}
template __global__ void stretto::device::entry<all<GpuBlock>, Args>(
    const __grid_constant__ GpuWorld, const __grid_constant__ Args);
)");
}

// The text is as a program brings it (stretto/kernels.h).
TEST_P(GpuCompile, TheTextOfAFile) {
  std::ifstream file(STRETTO_EXAMPLES "/hand_on.h");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  ASSERT_FALSE(text.empty());
  const LangKernelName name{"", "hand_on_example::hand_on<GpuBlock>",
                            "hand_on_example::HandOnArgs<GpuBlock>", text};
  expect_good(name, 1024);
}

std::string name_of(const testing::TestParamInfo<const char*>& of) { return of.param; }

constexpr const char* kSm80 = "sm_80";
constexpr const char* kSm89 = "sm_89";
constexpr const char* kSm90a = "sm_90a";
INSTANTIATE_TEST_SUITE_P(Arch, GpuCompile, testing::Values(kSm80, kSm89, kSm90a), name_of);
INSTANTIATE_TEST_SUITE_P(Arch, GpuCompileKernels,
                         testing::ValuesIn(is_thorough()
                                               ? std::vector<const char*>{kSm80, kSm89, kSm90a}
                                               : std::vector<const char*>{kSm80, kSm90a}),
                         name_of);

}  // namespace
}  // namespace stretto::cuda
