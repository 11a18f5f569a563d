// What the device language's kernels are told to move for a plan's collectives, and what they
// refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "launch/cublas_gemms.h"
#include "launch/plan_fixture.h"
#include "lower/plan_of_operator.h"
#include "stretto/device/lang/kernels/sum_many_rows.h"
#include "stretto/error.h"
#include "stretto/lower.h"
#include "stretto/serve.h"
#include "tables/kernel_set.h"
#include "tables/low_latency_shape.h"

namespace stretto::cuda {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Plan plan_for(const char* op_text, const char* schedule = "low-latency") {
  const Segment op = parse_segment(op_text);
  const Machine machine = default_machine(op.ranks);
  return lower(op, parse_schedule(schedule, op, machine), machine);
}

const Instr& collective_of(const Plan& plan) {
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (instr.op == Opcode::collective) return instr;
    }
  }
  throw UsageError("no collective");
}

TEST(LowLatency, MovesTheRowsOfOwners) {
  for (const auto& [text, part, count] :
       {std::tuple{"ag-gemm m=517 n=960 k=64 ranks=3 dtype=bf16", 173 * 64, 517 * 64},
        std::tuple{"gemm-rs m=517 n=64 k=960 ranks=3 dtype=fp16", 173 * 64, 517 * 64},
        std::tuple{"gemm-ar m=517 n=64 k=960 ranks=3 dtype=bf16", 517 * 64, 517 * 64},
        std::tuple{"gemm-rs m=2 n=64 k=960 ranks=8 dtype=bf16", 64, 2 * 64}}) {
    SCOPED_TRACE(text);
    const Plan plan = plan_for(text);
    EXPECT_EQ(why_no_low_latency(plan), "");
    const LowLatencyCall call = low_latency_sizes(plan, collective_of(plan));
    EXPECT_EQ(call.part, part);
    EXPECT_EQ(call.count, count);
  }
}

// The kernel gets what its collective names: the rows' sums go to the residual, and are normed.
TEST(LowLatency, NormsSumsInOneKernel) {
  const Operator op = make_operator("gemm-ar-norm", {{"m", 37}, {"n", 64}, {"k", 96}}, 3);
  const Machine machine = default_machine(3);
  const Plan plan = lower(op, parse_schedules("low-latency", op, machine), machine);
  EXPECT_EQ(why_no_low_latency(plan), "");
  EXPECT_THAT(why_no_low_latency(plan, true), HasSubstr("no runs of fewer rows"));
  const Instr& instr = collective_of(plan);
  EXPECT_EQ(instr.collective, CollectiveKind::all_reduce_norm);
  const LowLatencyCall call = low_latency_sizes(plan, instr);
  EXPECT_EQ(call.count, 37 * 64);
  EXPECT_EQ(call.row_elements, 64);
  const LowLatencyShape few = low_latency_shape(call, 3, 132);
  EXPECT_THAT(few.kernel.kernel, HasSubstr("all_reduce_norm_one_shot"));
  EXPECT_EQ(few.slot_vectors, 2u * 3 * 37 * 8);
  EXPECT_EQ(few.threads, kLowLatencyThreads);
  LowLatencyCall many = call;
  many.count = many.part = int64_t{50'000} * 64;
  const LowLatencyShape shape = low_latency_shape(many, 3, 132);
  EXPECT_THAT(shape.kernel.kernel, HasSubstr("all_reduce_norm_two_shot"));
  EXPECT_EQ(shape.slot_vectors, 4u * 3 * 16'667 * 8);  // owners have whole rows
}

// Rows that choose experts: who knows whose ids, and where rows lie.
TEST(LowLatency, MovesRowsByTheirIds) {
  const auto calls_of = [](const char* name) {
    const Operator op = make_operator(name, {{"t", 10}, {"h", 64}, {"experts", 6}, {"k", 3}}, 3);
    const Machine machine = default_machine(3);
    const Plan plan = lower(op, parse_schedules("low-latency", op, machine), machine);
    EXPECT_EQ(why_no_low_latency(plan), "");
    EXPECT_THAT(why_no_low_latency(plan, true), HasSubstr("no runs of fewer rows"));
    std::vector<LowLatencyCall> calls;
    for (const Lane& lane : plan.lanes) {
      for (const Instr& instr : lane.instrs) {
        if (lane.rank == 0 && instr.op == Opcode::collective) {
          calls.push_back(low_latency_sizes(plan, instr));
        }
      }
    }
    for (const LowLatencyCall& call : calls) {
      EXPECT_EQ(call.part, 4 * 64);
      EXPECT_EQ(call.chosen.tokens, 10u);
      EXPECT_EQ(call.chosen.experts, 6u);
    }
    return calls;
  };
  const std::vector<LowLatencyCall> there = calls_of("dispatch"), back = calls_of("combine"),
                                    both = calls_of("dispatch-combine");
  ASSERT_EQ(there.size() + back.size(), 2u);
  ASSERT_EQ(both.size(), 1u);
  EXPECT_TRUE(there[0].chosen.by_choice && back[0].chosen.by_choice);
  EXPECT_FALSE(there[0].chosen.notes_ids || there[0].chosen.notes_weights);
  EXPECT_FALSE(back[0].chosen.notes_ids);
  EXPECT_TRUE(back[0].chosen.notes_weights);
  EXPECT_TRUE(both[0].chosen.notes_ids && both[0].chosen.notes_weights);
  EXPECT_TRUE(both[0].chosen.round_trip);
  EXPECT_FALSE(both[0].chosen.by_choice || there[0].chosen.round_trip || back[0].chosen.round_trip);
  // Rows of two calls; and of three 6 words of ids and weights, which are two vectors.
  EXPECT_EQ(low_latency_shape(there[0], 3, 132).slot_vectors, 3u * 4 * 2 * 8);
  EXPECT_EQ(low_latency_shape(both[0], 3, 132).slot_vectors, 3u * 4 * (4 * 8 + 3 * 2));
  EXPECT_THAT(low_latency_shape(back[0], 3, 132).kernel.kernel,
              HasSubstr("sum_chosen_rows<Bf16x8"));
  EXPECT_THAT(low_latency_shape(both[0], 3, 132).kernel.kernel,
              HasSubstr("round_trip_rows<Bf16x8, GpuBlock, 1>"));
}

// Notes are ids alone where nobody weighs what experts make: three choices are a vector, as one is.
TEST(LowLatency, NotesIdsAloneWhereNoWeightsComeAlong) {
  for (const int64_t k : {1, 3, 5}) {
    const Operator op = make_operator(
        "moe-tp-up-i64", {{"t", 10}, {"h", 64}, {"f", 192}, {"experts", 10}, {"k", k}}, 3);
    const Machine machine = default_machine(3);
    const Plan plan = lower(op, parse_schedules("low-latency", op, machine), machine);
    EXPECT_EQ(why_no_low_latency(plan), "");
    const BufferPlaces places = places_of(plan);
    for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
      if (plan.lanes[lane].kind != LaneKind::nccl) continue;
      const Instr& sent = plan.lanes[lane].instrs[0];
      const LowLatencyCall call = low_latency_call(plan, lane, 0, places, 0);
      EXPECT_TRUE(call.chosen.notes_ids && call.chosen.has_wide_ids);
      EXPECT_FALSE(call.chosen.notes_weights || call.chosen.by_choice || call.chosen.round_trip);
      EXPECT_TRUE(call.chosen.of_all_experts);
      EXPECT_EQ(call.chosen.weights, 0u);
      EXPECT_EQ(call.chosen.all_weights, 0u);
      EXPECT_EQ(call.chosen.counts, 0u);
      const std::span<const Region> to = plan.writes(sent);
      EXPECT_EQ(call.chosen.all_ids, address_of(places, to[0].rank, to[0].buffer, 0));
      EXPECT_EQ(call.to, address_of(places, to[1].rank, to[1].buffer, 0));
      const size_t notes = k > 4 ? 2 : 1;
      EXPECT_EQ(low_latency_shape(call, 3, 132).slot_vectors, 3u * 4 * (2 * 8 + 3 * notes));
    }
  }
}

// Few rows by pieces, many by blocks that look up what their tokens have, as many terms at once as
// a token has on a rank.
TEST(LowLatency, SumsManyRowsByAKernelOfTheirOwn) {
  const auto shape_of = [](const char* name, int64_t tokens, int64_t top_k, int ranks) {
    const Operator op = make_operator(
        name, {{"t", tokens}, {"h", 2048}, {"f", 128 * ranks}, {"experts", 64}, {"k", top_k}},
        ranks);
    const Machine machine = default_machine(ranks);
    const Plan plan = lower(op, parse_schedules("low-latency", op, machine), machine);
    EXPECT_EQ(why_no_low_latency(plan), "");
    const Instr* sums = nullptr;
    for (const Lane& lane : plan.lanes) {
      for (const Instr& instr : lane.instrs) {
        if (instr.op == Opcode::collective && form_of(instr.collective).adds) sums = &instr;
      }
    }
    const LowLatencyCall call = low_latency_sizes(plan, *sums);
    EXPECT_EQ(call.chosen.of_all_experts, std::string_view(name) == "moe-tp-down");
    const LowLatencyShape shape = low_latency_shape(call, ranks, 132);
    std::string names;
    for (const KernelEntry& kernel : kernels_of(plan, "sm_90a", false)) names += kernel.name + " ";
    EXPECT_THAT(names, HasSubstr(shape.kernel.kernel));  // is compiled ahead
    return shape;
  };
  const LowLatencyShape few = shape_of("moe-tp-down", 128, 8, 2);
  EXPECT_THAT(few.kernel.kernel, HasSubstr("sum_chosen_rows<Bf16x8, GpuBlock>"));
  EXPECT_EQ(few.threads, kLowLatencyThreads);
  EXPECT_EQ(few.shared_bytes, 0);
  const struct {
    const char* name;
    int64_t top_k;
    int ranks;
    const char* kernel;
    int threads;
  } many[] = {{"moe-tp-down", 8, 2, "sum_many_rows<Bf16x8, 8, GpuBlock>", 768},
              {"moe-tp-down", 3, 2, "sum_many_rows<Bf16x8, 4, GpuBlock>", 768},
              {"moe-tp-down", 2, 2, "sum_many_rows<Bf16x8, 2, GpuBlock>", 512},
              {"moe-ep", 8, 2, "sum_many_rows<Bf16x8, 4, GpuBlock>", 768},
              {"moe-ep", 8, 4, "sum_many_rows<Bf16x8, 2, GpuBlock>", 512}};
  for (const auto& one : many) {
    SCOPED_TRACE(one.kernel);
    const LowLatencyShape shape = shape_of(one.name, 4096, one.top_k, one.ranks);
    EXPECT_EQ(shape.kernel.kernel, one.kernel);
    EXPECT_EQ(shape.threads, one.threads);
    EXPECT_EQ(shape.blocks, 132);
    EXPECT_EQ(shape.shared_bytes, device::NamedTerms::kBytes);
  }
}

// A rank alone takes its ids from notes as well: where they go, and those that are no expert's.
TEST(LowLatency, MovesRowsOfARankAlone) {
  const auto call_of = [](const std::string& collective) {
    const Plan plan = parse_plan(fmt::format(R"(stretto-plan 2
operator dispatch-combine t=3 h=8 experts=3 k=2 ranks=1 dtype=bf16
collectives low-latency
sms 132
buffer x bf16 3x8 input sharded=3
buffer ids i32 3x2 input sharded=3
buffer weights fp32 3x2 input sharded=3
buffer all bf16 3x8 local
buffer all_ids i32 3x2 local
buffer all_weights fp32 3x2 local
buffer y bf16 3x8 output sharded=3

lane 0 nccl 0
  collective {}
end
)",
                                             collective));
    EXPECT_EQ(why_no_low_latency(plan), "");
    return low_latency_sizes(plan, plan.lanes[0].instrs[0]);
  };
  const LowLatencyCall both =
      call_of("combine 0 experts=3 weights[0:3,0:2] ids[0:3,0:2] x[0:3,0:8] -> y[0:3,0:8]");
  const LowLatencyCall there = call_of(
      "dispatch 0 experts=3 x[0:3,0:8] ids[0:3,0:2] weights[0:3,0:2] -> all[0:3,0:8] "
      "all_ids[0:3,0:2] all_weights[0:3,0:2]");
  for (const LowLatencyCall& call : {both, there}) {
    EXPECT_TRUE(call.chosen.notes_ids && call.chosen.notes_weights);
  }
}

// A thread for each vector of a row, of which one hop is the faster way between two ranks.
TEST(LowLatency, NormsRowsByAsManyThreadsAsTheyHaveVectors) {
  const auto shape_of = [](int64_t rows, int64_t columns, int ranks) {
    LowLatencyCall call;
    call.kind = CollectiveKind::all_reduce_norm;
    call.part = call.count = rows * columns;
    call.row_elements = columns;
    return low_latency_shape(call, ranks, 132);
  };
  for (const auto& [columns, threads] :
       {std::pair{512, 512}, {5120, 640}, {7168, 896}, {8192, 1024}, {12288, 768}, {16384, 1024}}) {
    EXPECT_EQ(shape_of(64, columns, 2).threads, threads) << columns;
  }
  const Operator op = make_operator("gemm-ar-norm", {{"m", 64}, {"n", 8192}, {"k", 64}}, 2);
  const Machine machine = default_machine(2);
  const auto threads_in = [&](const char* schedule) {
    const Plan plan = lower(op, parse_schedules(schedule, op, machine), machine);
    return low_latency_shape(low_latency_sizes(plan, collective_of(plan)), 2, 132).threads;
  };
  EXPECT_EQ(threads_in("low-latency"), 1024);
  EXPECT_THAT(shape_of(512, 8192, 2).kernel.kernel, HasSubstr("one_shot"));
  EXPECT_THAT(shape_of(513, 8192, 2).kernel.kernel, HasSubstr("two_shot"));
  EXPECT_THAT(shape_of(32, 4096, 4).kernel.kernel, HasSubstr("one_shot"));
  EXPECT_THAT(shape_of(32, 5120, 4).kernel.kernel, HasSubstr("two_shot"));
}

TEST(LowLatency, NormsNothingThatAnotherStageNeeds) {
  const auto kinds = [](const char* text, const char* schedule) {
    const Operator op = make_graph(parse_graph(text), {{"m", 16}, {"h", 64}}, 2, DType::bf16);
    const Machine machine = default_machine(2);
    return collective_of(lower(op, parse_schedules(schedule, op, machine), machine)).collective;
  };
  constexpr const char* kNormed =
      "graph own m h\ninput a [m, h] cols\ninput b [h, h] cols\ninput r [m, h] whole\n"
      "input w [1, h] whole\np = gemm a b\ns = add r p\nout = norm s w\noutput out whole\n";
  EXPECT_EQ(kinds(kNormed, "low-latency"), CollectiveKind::all_reduce_norm);
  EXPECT_EQ(kinds(kNormed, "library"), CollectiveKind::all_reduce);
  EXPECT_EQ(kinds((std::string(kNormed) + "output p whole\n").c_str(), "low-latency"),
            CollectiveKind::all_reduce);
}

TEST(LowLatency, MovesFewerRowsWhereOwnersHaveFewer) {
  const Plan plan =
      plan_for("gemm-rs m=512 n=64 k=960 ranks=4 dtype=bf16", "low-latency,rows=bucket");
  EXPECT_EQ(why_no_low_latency(plan, true), "");
  const LowLatencyCall all = low_latency_sizes(plan, collective_of(plan));
  const LowLatencyCall few = with_rows(all, run_rows(plan.op, 9), plan.op.rows());
  EXPECT_EQ(few.part, 3 * 64);
  EXPECT_EQ(few.count, 9 * 64);
}

// The kernel works out part and count of the rows that it reads; memory is for the most.
TEST(LowLatency, TellsKernelsWhereRowsStand) {
  const Plan plan =
      plan_for("ag-gemm m=512 n=960 k=64 ranks=4 dtype=bf16", "low-latency,rows=bucket");
  const LowLatencyCall all = low_latency_sizes(plan, collective_of(plan));
  EXPECT_EQ(all.rows_at, 0u);
  const LowLatencyCall call = with_rows_at(all, 0x1000, run_rows(plan.op, 9), plan.op.rows());
  EXPECT_EQ(call.rows_at, 0x1000u);
  EXPECT_EQ(call.row, 64);
  EXPECT_EQ(call.part, 3 * 64);
  EXPECT_EQ(call.count, 9 * 64);
}

// Kernels are compiled ahead by this list.
TEST(LowLatency, OnlyServedGathersCopyRows) {
  const auto copies = [](const char* op, const char* schedule, bool serves) {
    const auto kernels = kernels_of(plan_for(op, schedule), "sm_90a", serves);
    return std::any_of(kernels.begin(), kernels.end(),
                       [](const KernelEntry& kernel) { return kernel.name == "copy of rows"; });
  };
  const char* gather = "ag-gemm m=512 n=960 k=64 ranks=4 dtype=bf16";
  EXPECT_TRUE(copies(gather, "low-latency,rows=bucket", true));
  EXPECT_FALSE(copies(gather, "low-latency", false));
  EXPECT_FALSE(copies(gather, "tiles,rows=bucket", true));
  EXPECT_FALSE(
      copies("gemm-rs m=512 n=64 k=960 ranks=4 dtype=bf16", "low-latency,rows=bucket", true));
  EXPECT_TRUE(
      copies("gemm-rs m=512 n=64 k=960 ranks=1 dtype=bf16", "low-latency,rows=bucket", true));
}

// Rows that the host says need no copy, so such plans serve those.
TEST(LowLatency, CopiesRowsOfWholeVectorsOnly) {
  const auto why = [](const char* op) {
    const Plan plan = plan_for(op, "low-latency,rows=bucket");
    EXPECT_EQ(why_no_low_latency(plan, true), "") << op;
    return why_no_copy_of_rows(plan);
  };
  EXPECT_THAT(why("ag-gemm m=64 n=24 k=64 ranks=2 dtype=bf16"),
              HasSubstr("pieces of 16 bytes, and rows have 24"));
  EXPECT_THAT(why("ag-gemm m=64 n=12 k=64 ranks=1 dtype=bf16"), HasSubstr("rows have 24"));
  EXPECT_EQ(why("ag-gemm m=64 n=48 k=64 ranks=2 dtype=bf16"), "");
  EXPECT_EQ(why("gemm-rs m=64 n=64 k=64 ranks=2 dtype=bf16"), "");
}

TEST(LowLatency, TakesTwoHopsForLargeSumsOnly) {
  const auto kernel = [](CollectiveKind kind, int64_t count, int ranks) {
    return low_latency_shape({kind, DType::bf16, 0, 0, count, count}, ranks, 132).kernel.kernel;
  };
  EXPECT_THAT(kernel(CollectiveKind::all_reduce, 1 << 12, 8), HasSubstr("all_reduce_one_shot"));
  EXPECT_THAT(kernel(CollectiveKind::all_reduce, 1 << 22, 2), HasSubstr("all_reduce_one_shot"));
  EXPECT_THAT(kernel(CollectiveKind::all_reduce, 1 << 23, 2), HasSubstr("all_reduce_two_shot"));
  EXPECT_THAT(kernel(CollectiveKind::all_reduce, 1 << 19, 8), HasSubstr("all_reduce_two_shot"));
  EXPECT_THAT(kernel(CollectiveKind::all_gather, 1 << 26, 8), HasSubstr("all_gather_one_shot"));
}

// What a product sends is added up in one hop, by the grid that its sort of call has.
TEST(LowLatency, ReceivesInOneHop) {
  const LowLatencyCall large{CollectiveKind::all_reduce, DType::bf16, 0, 0, 1 << 19, 1 << 19};
  const LowLatencyShape shape = receiving_shape(large, 8, 132);
  EXPECT_EQ(shape.kernel.kernel, "all_reduce_one_shot<Bf16x8, GpuBlock, 8, SentBy::kBefore>");
  EXPECT_TRUE(shape.kernel.waits_itself);
  EXPECT_EQ(shape.slot_vectors, 2u * 8 * (1 << 16));
  LowLatencyCall norm = large;
  norm.kind = CollectiveKind::all_reduce_norm;
  norm.row_elements = 8192;
  EXPECT_EQ(receiving_shape(norm, 2, 132).kernel.kernel,
            "all_reduce_norm_one_shot<GpuBlock, 4, SentBy::kBefore>");
  EXPECT_EQ(receiving_shape(norm, 2, 132).threads, low_latency_shape(norm, 2, 132).threads);
  LowLatencyCall parts = large;
  parts.kind = CollectiveKind::reduce_scatter;
  EXPECT_EQ(receiving_shape(parts, 2, 132).kernel.kernel,
            "reduce_scatter_one_shot<Bf16x8, GpuBlock, 4, SentBy::kBefore>");
  EXPECT_FALSE(low_latency_shape(parts, 2, 132).kernel.waits_itself);
}

// Only those behind products that send.
TEST(LowLatency, KnowsTheCollectivesThatReceive) {
  const Plan plan = plan_for("gemm-rs m=64 n=64 k=960 ranks=2 dtype=bf16", "few-rows");
  EXPECT_EQ(receiving_collectives(plan), std::set<int32_t>{collective_of(plan).id});
  EXPECT_TRUE(
      receiving_collectives(plan_for("gemm-rs m=64 n=64 k=960 ranks=2 dtype=bf16")).empty());
}

TEST(LowLatency, CompilesAheadWhatSendsAndWhatReceives) {
  std::vector<std::string> names;
  const Plan plan = plan_for("gemm-ar m=40 n=64 k=960 ranks=2 dtype=bf16", "few-rows");
  for (const KernelEntry& kernel : kernels_of(plan, "sm_90a")) names.push_back(kernel.name);
  EXPECT_THAT(names, Contains(HasSubstr("few rows ")));
  EXPECT_THAT(names, Contains("collective all_reduce_one_shot<Bf16x8, GpuBlock, 4, "
                              "SentBy::kBefore> of 512 threads"));
}

// One of rows of 8192 columns has twice the threads of one of 4096, and may have its very name.
TEST(LowLatency, KernelsOfOtherThreadsAreOthers) {
  const auto normed = [](const char* op) {
    std::vector<std::string> names;
    for (const KernelEntry& kernel : kernels_of(plan_of_operator(op, "few-rows"), "sm_90a")) {
      if (kernel.name.rfind("collective ", 0) == 0) names.push_back(kernel.name);
    }
    return names;
  };
  const auto narrow = normed("gemm-ar-norm m=64 n=4096 k=64 ranks=2 dtype=bf16");
  const auto wide = normed("gemm-ar-norm m=64 n=8192 k=64 ranks=2 dtype=bf16");
  ASSERT_EQ(narrow.size(), 1u);
  EXPECT_THAT(narrow[0], HasSubstr("all_reduce_norm_one_shot"));
  EXPECT_THAT(narrow[0], HasSubstr("of 512 threads"));
  EXPECT_THAT(wide, ElementsAre(HasSubstr("of 1024 threads")));
}

TEST(LowLatency, RefusesPlansThatItsKernelsCannotMake) {
  for (const int rank : {0, 1}) {
    Plan two_lanes = plan_for("gemm-ar m=512 n=64 k=960 ranks=2 dtype=bf16");
    const auto first = std::find_if(
        two_lanes.lanes.begin(), two_lanes.lanes.end(),
        [&](const Lane& lane) { return lane.rank == rank && lane.kind == LaneKind::nccl; });
    ASSERT_NE(first, two_lanes.lanes.end());
    Lane second = *first;
    ++second.index;
    second.instrs.clear();
    two_lanes.lanes.insert(first + 1, second);
    EXPECT_THAT(why_no_low_latency(two_lanes), HasSubstr("one lane of a rank"));
  }

  Plan in_place = plan_for("gemm-rs m=512 n=64 k=960 ranks=2 dtype=bf16");
  for (Lane& lane : in_place.lanes) {
    for (Instr& instr : lane.instrs) {
      if (instr.op != Opcode::collective) continue;
      in_place.operands[instr.first_operand + instr.num_reads] =
          in_place.operands[instr.first_operand + lane.rank];  // its own rows of the sums
    }
  }
  EXPECT_THAT(why_no_low_latency(in_place), HasSubstr("in place"));

  EXPECT_THAT(why_no_low_latency(plan_for("ag-gemm m=524288 n=256 k=8192 ranks=2 dtype=bf16")),
              HasSubstr("bytes of a rank, at most"));
}

}  // namespace
}  // namespace stretto::cuda
