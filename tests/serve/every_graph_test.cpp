// What GPUs run is an operation, whatever graph it is: over a driver that runs nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "inside.h"
#include "stretto/context.h"
#include "stretto/error.h"
#include "stretto/lower.h"
#include "tables/plan_limits.h"

namespace stretto {
namespace {

using testing::ElementsAre, testing::HasSubstr;

constexpr int kRanks = 3;

// Of every shipped operator; 3 ranks divide few of them.
const std::map<std::string, std::string, std::less<>>& sizes_of_all() {
  static const std::map<std::string, std::string, std::less<>> all = {
      {"a2a-gemm", "m=70 n=64 k=104"},
      {"ag-gemm", "m=70 n=104 k=64"},
      {"col-gemm", "m=70 n=64 k=64"},
      {"combine", "t=70 h=64 experts=6 k=2"},
      {"dispatch", "t=70 h=64 experts=6 k=2"},
      {"dispatch-combine", "t=70 h=64 experts=6 k=2"},
      {"embedding-a2a", "bags=47 tables=5 rows=33 dim=10 pool=5"},
      {"embedding-a2a-mean", "bags=47 tables=6 rows=33 dim=16 pool=5"},
      {"gemm-a2a", "m=70 n=104 k=64"},
      {"gemm-ar", "m=70 n=64 k=64"},
      {"gemm-ar-norm", "m=70 n=64 k=64"},
      {"gemm-rs", "m=70 n=64 k=104"},
      {"gemm-rs-norm", "m=70 n=64 k=64"},
      {"gemm-rs-norm-ag", "m=70 n=64 k=64"},
      {"gemv-ar", "m=7 n=64 k=64"},
      {"layer", "m=70 h=64 f=96 heads=6 kv-heads=3 head-dim=16"},
      {"mlp", "m=70 h=64 f=96"},
      {"mlp-ar", "m=70 h=64 f=96"},
      {"mlp-gelu", "m=70 h=64 f=96"},
      {"moe-ep", "t=70 h=64 f=64 experts=6 k=2"},
      {"moe-ep-router", "t=70 h=64 f=64 experts=12 k=2"},
      {"moe-ep-router-groups", "t=70 h=64 f=64 experts=12 k=2 groups=3 best=2"},
      {"moe-ep-shared", "t=70 h=64 f=64 s=96 experts=6 k=2"},
      {"moe-ep-slices", "t=70 h=64 f=64 experts=6 k=2 slices=2"},
      {"moe-tp", "t=70 h=64 f=96 experts=6 k=2"},
      {"moe-tp-down", "t=70 h=64 f=96 experts=6 k=2"},
      {"moe-tp-down-ar", "t=70 h=64 f=96 experts=6 k=2"},
      {"moe-tp-router", "t=70 h=64 f=96 experts=12 k=2"},
      {"moe-tp-up", "t=70 h=64 f=96 experts=6 k=2"}};
  return all;
}

// Two products and a norm, as nobody ships them, by tensors with names of the caller's own.
constexpr const char* kOwn =
    "graph own m h f\n"
    "input tokens [m, h] rows\ninput first [f, h] rows\ninput second [h, f] cols\n"
    "input scale [1, h] whole\n"
    "p = gemm tokens first\na = silu p\nq = gemm a second\nnormed = norm q scale eps=1e-05\n"
    "output normed rows\n";

Operator own_graph(DType dtype = DType::bf16) {
  return make_graph(parse_graph(kOwn), {{"m", 70}, {"h", 64}, {"f", 96}}, kRanks, dtype);
}

std::string stub() {
  const std::string gpu = "NVIDIA H200:132:9.0";
  return fmt::format(
      "LD_LIBRARY_PATH={0}/driver:{0}/nvrtc:$LD_LIBRARY_PATH STRETTO_CACHE_PATH=/nowhere "
      "STRETTO_MEASURE_MS=0 STUB_GPUS='{1};{1};{1}'",
      STRETTO_STUBS, gpu);
}

class EveryGraph : public testing::TestWithParam<const char*> {};

TEST_P(EveryGraph, OverADriverThatRunsNothing) {
  const std::string test = GetParam();
  const std::string shares = test == "ByRanksThatShareAGpuToo" ? " STRETTO_RANKS_A_GPU=3" : "";
  EXPECT_EQ(run_inside(stub() + shares, "EveryGraphInTheStub." + test), 0);
}

INSTANTIATE_TEST_SUITE_P(Operations, EveryGraph,
                         testing::Values("IsAnOperation", "OfTheUsersIsOneToo",
                                         "ByRanksThatShareAGpuToo", "ByTheKernelOfExperts",
                                         "SaysWhyItIsNone", "SaysWhyItsRowsAreFixed"),
                         [](const auto& test) { return std::string(test.param); });

void call_twice(Context& context, const Operator& op, const OperationOptions& options) {
  Operation operation(context, op, options);
  EXPECT_EQ(operation.max_rows(), op.rows());
  const TensorMemory memory(context, operation);
  for (int call = 0; call < 2; ++call) {
    for (int rank = 0; rank < op.ranks; ++rank) {
      operation.run(rank, context.stream(rank), op.rows(), memory.of(rank));
    }
  }
  operation.finish();
  EXPECT_EQ(operation.error(), "");
}

TEST(EveryGraphInTheStub, IsAnOperation) {
  if (is_outside()) GTEST_SKIP() << "a part of EveryGraph";
  Context context(kRanks, 1);
  for (const auto& graph : known_graphs()) {
    ASSERT_TRUE(sizes_of_all().contains(name_of(*graph))) << name_of(*graph);
    const Operator op = parse_operator(fmt::format("{} {} ranks={} dtype=bf16", name_of(*graph),
                                                   sizes_of_all().at(name_of(*graph)), kRanks));
    const Machine machine = default_machine(kRanks);
    bool is_of_gpus = false;
    for (const char* preset : {"tiles", "slices"}) {
      SCOPED_TRACE(to_string(op) + " " + preset);
      const OperatorSchedule schedule = schedule_of(find_preset(preset), op, machine);
      if (!legal(op, schedule, machine).empty()) continue;
      if (!cuda::why_not_on_cuda(lower(op, schedule, machine)).empty()) continue;
      is_of_gpus = true;
      EXPECT_NO_THROW(call_twice(context, op, {.schedule = preset, .rows = RowCount::fixed}));
    }
    EXPECT_TRUE(is_of_gpus) << to_string(op);
  }
}

TEST(EveryGraphInTheStub, OfTheUsersIsOneToo) {
  if (is_outside()) GTEST_SKIP() << "a part of EveryGraph";
  Context context(kRanks, 1);
  const Operator op = own_graph();
  call_twice(context, op, {.schedule = "tiles", .rows = RowCount::fixed});
  Operation operation(context, op, {.schedule = "a:tiles/q:slices", .rows = RowCount::fixed});
  EXPECT_THAT(operation.tensors(), ElementsAre("tokens", "first", "second", "scale", "normed"));
  // No product, so nothing to schedule: rows that their ranks have.
  const Operator rows = make_graph(parse_graph("graph rows m h\ninput x [m, h] rows\n"
                                               "input w [1, h] whole\ny = norm x w\n"
                                               "output y rows\n"),
                                   {{"m", 70}, {"h", 64}}, kRanks, DType::bf16);
  call_twice(context, rows, {.schedule = "tiles", .rows = RowCount::fixed});
  call_twice(context, rows, {.rows = RowCount::fixed});
  // Rows that a product gathers, for the caller, too: by movers, by compute lanes.
  const Operator kept = make_graph(parse_graph("graph kept m n k\ninput a [m, k] rows\n"
                                               "input b [n, k] rows\ny = gemm a b\n"
                                               "all = gather a\noutput y cols\n"
                                               "output all whole\n"),
                                   {{"m", 70}, {"n", 104}, {"k", 64}}, kRanks, DType::bf16);
  for (const char* preset : {"tiles", "slices", "decomposed"}) {
    call_twice(context, kept, {.schedule = preset, .rows = RowCount::fixed});
  }
  // What experts were chosen, and how they are weighed, beside the tokens' sums.
  const std::string router = print(*find_graph("moe-ep-router"));
  const Operator chosen =
      make_graph(parse_graph("graph chosen" + router.substr(router.find(" t ")) +
                             "output ids rows\noutput weights rows\n"),
                 {{"t", 70}, {"h", 64}, {"f", 64}, {"experts", 12}, {"k", 2}}, kRanks, DType::bf16);
  call_twice(context, chosen, {.schedule = "tiles", .rows = RowCount::fixed});
}

std::string refusal_of(Context& context, const Operator& op, const OperationOptions& options) {
  try {
    Operation(context, op, options);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

// NCCL serves one rank a GPU.
TEST(EveryGraphInTheStub, ByRanksThatShareAGpuToo) {
  if (is_outside()) GTEST_SKIP() << "a part of EveryGraph";
  Context context(kRanks, 1);
  const Operator op = parse_operator("gemm-a2a m=64 n=96 k=4096 ranks=3 dtype=bf16");
  const Operation operation(context, op, {.rows = RowCount::fixed});
  EXPECT_THAT(operation.reason(64),
              HasSubstr("tiles, since what is fastest does not run by ranks"));
  call_twice(context, op, {.rows = RowCount::fixed});
}

// No cuBLAS is there. Gate and up are one matrix for TMA, at any distance that it takes.
TEST(EveryGraphInTheStub, ByTheKernelOfExperts) {
  if (is_outside()) GTEST_SKIP() << "a part of EveryGraph";
  Context context(1, 1);
  const auto op_of = [](const char* words) {
    return parse_operator(fmt::format("{} ranks=1 dtype=bf16", words));
  };
  for (const char* words :
       {"moe-tp t=70 h=128 f=96 experts=6 k=2", "moe-tp-up-i64 t=70 h=128 f=96 experts=6 k=2",
        "moe-tp-down t=70 h=128 f=96 experts=6 k=2",
        "moe-ep-slices t=70 h=128 f=96 experts=6 k=2 slices=2"}) {
    for (const char* schedule : {"library", "library,permute=pass"}) {
      SCOPED_TRACE(fmt::format("{} {}", words, schedule));
      EXPECT_NO_THROW(
          call_twice(context, op_of(words), {.schedule = schedule, .rows = RowCount::fixed}));
    }
  }
  Operation operation(context, op_of("moe-tp-up t=70 h=128 f=96 experts=6 k=2"),
                      {.schedule = "library", .rows = RowCount::fixed});
  const TensorMemory memory(context, operation);
  const auto run_with_up_at = [&](int64_t apart) -> std::string {
    const std::span<const CallTensor> all = memory.of(0);
    std::vector<CallTensor> given(all.begin(), all.end());
    for (CallTensor& one : given) {
      if (one.name == "wu") one.address = memory.at(0, "wg") + static_cast<uint64_t>(apart);
    }
    try {
      operation.run(0, context.stream(0), 70, given);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(run_with_up_at((int64_t{1} << 40) - 16), "");
  EXPECT_THAT(run_with_up_at(int64_t{1} << 40), HasSubstr("allocate them together"));
  EXPECT_THAT(run_with_up_at(-(int64_t{1} << 40)), HasSubstr("allocate them together"));
  EXPECT_EQ(run_with_up_at(16 - (int64_t{1} << 40)), "");
  operation.finish();
  EXPECT_EQ(operation.error(), "");
}

TEST(EveryGraphInTheStub, SaysWhyItIsNone) {
  if (is_outside()) GTEST_SKIP() << "a part of EveryGraph";
  Context context(kRanks, 1);
  EXPECT_THAT(
      refusal_of(context, own_graph(DType::fp32), {.schedule = "tiles", .rows = RowCount::fixed}),
      HasSubstr("multiplies bf16 and fp16, not fp32: take dtype=bf16 or fp16"));
  EXPECT_THAT(refusal_of(context, own_graph(), {.schedule = "up:tiles", .rows = RowCount::fixed}),
              HasSubstr("known: a, q"));
  Operation operation(context, own_graph(), {.schedule = "tiles", .rows = RowCount::fixed});
  const auto run_with = [&](const char* name) -> std::string {
    std::vector<CallTensor> given;
    for (const char* known : {"tokens", "first", "second", "scale"}) given.push_back({known, 4096});
    given.push_back({name, 4096});
    try {
      operation.run(0, context.stream(0), 70, given);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(run_with("down"), HasSubstr("known: tokens, first, second, scale, normed"));
  EXPECT_THAT(run_with("scale"), HasSubstr("scale"));
}

TEST(EveryGraphInTheStub, SaysWhyItsRowsAreFixed) {
  if (is_outside()) GTEST_SKIP() << "a part of EveryGraph";
  Context context(kRanks, 1);
  const auto refused = [&](const std::string& words) {
    return refusal_of(context, parse_operator(fmt::format("{} ranks={} dtype=bf16", words, kRanks)),
                      {});
  };
  EXPECT_EQ(refused("gemm-a2a m=70 n=104 k=64"),
            "gemm-a2a has fixed rows (rows=bucket with gemm-a2a, whose ranks send as many rows as "
            "its plan says: take rows=fixed): take an operation for each row count, with "
            "rows=fixed");
  EXPECT_THAT(refused("a2a-gemm m=70 n=64 k=104"), HasSubstr("a2a-gemm has fixed rows ("));
  const auto other_rows = [&](const std::string& words) -> std::string {
    const Operator op = parse_operator(fmt::format("{} ranks={} dtype=bf16", words, kRanks));
    Operation operation(context, op, {.schedule = "tiles", .rows = RowCount::fixed});
    try {
      operation.prepare(69);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(other_rows("gemm-a2a m=70 n=104 k=64"),
            "69 rows; this operation was made for 70, no more and no fewer: take one for each row "
            "count");
  EXPECT_THAT(other_rows("gemm-rs m=70 n=64 k=104"), HasSubstr("one with rows=bucket serves any"));
  for (const char* words :
       {"embedding-a2a bags=47 tables=5 rows=33 dim=10 pool=5", "mlp m=70 h=64 f=96"}) {
    EXPECT_THAT(refused(words),
                HasSubstr(" has fixed rows (rows=bucket serves operators of one product): take an "
                          "operation for each row count, with rows=fixed"));
  }
}

}  // namespace
}  // namespace stretto
