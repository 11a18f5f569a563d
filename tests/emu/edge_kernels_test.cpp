// Plans whose edges kernels of a user's own make: the kernels themselves are executed, and what is
// wrong with them is found.
#include "stretto/fibre/edge_kernels.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../examples/ring_sum.h"
#include "edge_kernel_graphs.h"
#include "stretto/check.h"
#include "stretto/emulate.h"
#include "stretto/error.h"
#include "stretto/lower.h"

STRETTO_EDGE_KERNEL(ring_sum)

namespace stretto::device {

// A signal for each rank that sends: with one for all, a fast rank's second call would stand for a
// slow one's first.
template <class Block>
bool all_have_raised(Block& block, const EdgeArgs<Block>& args, uint64 calls) {
  Shmem shmem(block);
  bool good = true;
  for (int from = 0; good && from < shmem.n_pes(); ++from) {
    good = shmem.signal_wait_until_block(args.signals + static_cast<uint64>(from), Compare::kGe,
                                         calls);
  }
  return good;
}

// Own rows to all ranks, in one hop.
template <class Format, class Block>
STRETTO_KERNEL void to_all(Block& block, const EdgeArgs<Block>& args) {
  Shmem shmem(block);
  const auto me = static_cast<uint64>(shmem.my_pe()), ranks = static_cast<uint64>(shmem.n_pes());
  const uint64 calls = begin_call(block, args.state).call;
  if (block.block_idx() != 0) return end_call(block, args.state, calls, true);
  const auto slots = args.slots + (calls % 2) * ranks * args.part;
  for (int to = 0; to < shmem.n_pes(); ++to) {
    shmem.putmem_block(slots + me * args.part, args.input,
                       args.size_of(shmem.my_pe()) * sizeof(Vec16), to);
    shmem.signal_op_block(args.signals + me, 1, SignalOp::kAdd, to);
  }
  if (!all_have_raised(block, args, calls + 1)) return;
  for (int from = 0; from < shmem.n_pes(); ++from) {
    for (auto i = static_cast<uint64>(block.thread_idx()); i < args.size_of(from);
         i += static_cast<uint64>(block.num_threads())) {
      args.output[args.first(from) + i] = slots[static_cast<uint64>(from) * args.part + i];
    }
  }
  end_call(block, args.state, calls, true);
}

// Terms to the owners of their rows, which add them up in the order of ranks; and how to get it
// wrong.
enum class Slip {
  none,
  signals_early,
  waits_for_the_first_call,
  one_set,
  writes_behind,
  drops_own
};

template <class Format, class Block, Slip kSlip = Slip::none>
STRETTO_KERNEL void to_owners(Block& block, const EdgeArgs<Block>& args) {
  Shmem shmem(block);
  const auto me = static_cast<uint64>(shmem.my_pe()), ranks = static_cast<uint64>(shmem.n_pes());
  const uint64 calls = begin_call(block, args.state).call;
  if (block.block_idx() != 0) return end_call(block, args.state, calls, true);
  const auto slots = args.slots + (kSlip == Slip::one_set ? 0 : calls % 2) * ranks * args.part;
  for (int to = 0; to < shmem.n_pes(); ++to) {
    const auto signal = args.signals + me;
    if (kSlip == Slip::signals_early) shmem.signal_op_block(signal, 1, SignalOp::kAdd, to);
    shmem.putmem_block(slots + me * args.part, args.input + args.first(to),
                       args.size_of(to) * sizeof(Vec16), to);
    if (kSlip != Slip::signals_early) shmem.signal_op_block(signal, 1, SignalOp::kAdd, to);
  }
  if (!all_have_raised(block, args, kSlip == Slip::waits_for_the_first_call ? 1 : calls + 1))
    return;
  const uint64 own = args.size_of(shmem.my_pe());
  const uint64 size = kSlip == Slip::writes_behind ? args.part : own;
  for (auto i = static_cast<uint64>(block.thread_idx()); i < size;
       i += static_cast<uint64>(block.num_threads())) {
    float sums[Format::kElements] = {};
    for (uint64 from = kSlip == Slip::drops_own ? 1 : 0; from < ranks; ++from) {
      if (i < own) Format::add(sums, slots[from * args.part + i]);
    }
    args.output[i] = Format::round(sums);
  }
  end_call(block, args.state, calls, true);
}

#define STRETTO_SLIP(slip)                                                     \
  template <class Format, class Block>                                         \
  STRETTO_KERNEL void slip_##slip(Block& block, const EdgeArgs<Block>& args) { \
    to_owners<Format, Block, Slip::slip>(block, args);                         \
  }                                                                            \
  STRETTO_EDGE_KERNEL(slip_##slip)
STRETTO_EDGE_KERNEL(to_all)
STRETTO_EDGE_KERNEL(to_owners)
STRETTO_SLIP(signals_early)
STRETTO_SLIP(waits_for_the_first_call)
STRETTO_SLIP(one_set)
STRETTO_SLIP(writes_behind)
STRETTO_SLIP(drops_own)

}  // namespace stretto::device

namespace stretto {
namespace {

using testing::HasSubstr;

EmulateResult executed(const Plan& plan, uint64_t seed, int runs, Fill fill = Fill::integers) {
  EmulateOptions options;
  options.seed = seed;
  options.runs = runs;
  options.fill = fill;
  return emulate(plan, options);
}

std::string first_fault(const EmulateResult& result) {
  return result.faults.empty() ? "" : result.faults.front().text;
}

// More runs than calls that are executed together.
TEST(EdgeKernels, MakeTheEdgesOfTheirPlans) {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    for (const int64_t rows : {3, 24, 37}) {
      for (const auto& [graph, kernel] :
           {std::pair{kRingGraph, "ring_sum"}, std::pair{kGatherGraph, "to_all"},
            std::pair{kScatterGraph, "to_owners"}}) {
        const Plan plan = plan_by_kernel(graph, kernel, rows, ranks);
        SCOPED_TRACE(to_string(plan.op));
        EXPECT_TRUE(check(plan).clean());
        const EmulateResult exact = executed(plan, 1, 6);
        EXPECT_EQ(first_fault(exact), "");
        EXPECT_TRUE(exact.finished && exact.verified) << exact.first_wrong;
        EXPECT_TRUE(executed(plan, 2, 2, Fill::random).verified);
      }
    }
  }
}

TEST(EdgeKernels, MoveEveryTypeOfProducts) {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    const EmulateResult result =
        executed(plan_by_kernel(kRingGraph, "ring_sum", 37, 3, dtype), 1, 2, Fill::random);
    EXPECT_TRUE(result.verified) << to_string(dtype) << ": " << first_fault(result);
  }
}

TEST(EdgeKernels, AndNcclMakeCollectivesOfOnePlan) {
  const Operator op = operator_of(kMixedGraph, 24, 4);
  const Machine machine = default_machine(4);
  const Plan plan =
      lower(op, parse_schedules("sequential/d:sequential,kernel=to_owners", op, machine), machine);
  EXPECT_TRUE(check(plan).clean());
  EXPECT_TRUE(executed(plan, 1, 3).verified);
}

// More operations than the emulator of the language gives kernels of little data.
TEST(EdgeKernels, MayHaveMuchToMove) {
  EXPECT_EQ(first_fault(executed(plan_by_kernel(kRingGraph, "ring_sum", 20000, 4), 1, 1)), "");
}

// A slip of a kernel is found as what it is, with the line; one that only shows in a later call,
// since calls are executed together.
TEST(EdgeKernels, ThatAreWrongAreFound) {
  const auto fault_of = [](const char* kernel, int64_t rows, int runs) {
    std::string fault;
    for (uint64_t seed = 1; seed <= 20 && fault.empty(); ++seed) {
      fault = first_fault(executed(plan_by_kernel(kScatterGraph, kernel, rows, 3), seed, runs));
    }
    return fault;
  };
  EXPECT_EQ(fault_of("to_owners", 24, 3), "");
  EXPECT_THAT(
      fault_of("slip_signals_early", 24, 1),
      AllOf(HasSubstr("kernel slip_signals_early: race: "), HasSubstr("edge_kernels_test.cpp:")));
  EXPECT_EQ(fault_of("slip_waits_for_the_first_call", 24, 1), "");
  EXPECT_THAT(fault_of("slip_waits_for_the_first_call", 24, 2),
              HasSubstr("kernel slip_waits_for_the_first_call: r"));
  EXPECT_EQ(fault_of("slip_one_set", 24, 1), "");
  EXPECT_THAT(fault_of("slip_one_set", 24, 2), HasSubstr("kernel slip_one_set: race: "));
  EXPECT_THAT(fault_of("slip_writes_behind", 23, 1),
              HasSubstr("kernel slip_writes_behind: wrong result: rank 2 writes behind the "));
  const EmulateResult wrong =
      executed(plan_by_kernel(kScatterGraph, "slip_drops_own", 24, 3), 1, 1);
  EXPECT_EQ(first_fault(wrong), "");
  EXPECT_GT(wrong.wrong_elements, 0);
}

TEST(EdgeKernels, ThatNobodyRegisteredAreRefused) {
  try {
    executed(plan_by_kernel(kScatterGraph, "nobody", 24, 2), 1, 1);
    FAIL() << "it ran";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the plan calls kernel nobody of 'nobody.h', which is not "
                                        "there to be executed"));
  }
}

}  // namespace
}  // namespace stretto
