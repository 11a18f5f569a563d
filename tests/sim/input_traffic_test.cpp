// What tiles read from memory, by the order that lanes compute them in.
#include "sim/input_traffic.h"

#include <gtest/gtest.h>

#include <numeric>

#include "stretto/lower.h"
#include "stretto/operator.h"
#include "stretto/schedule.h"

namespace stretto {
namespace {

double read_by_first(const char* op_text, const char* schedule,
                     double cache = load_machine("h200x8").l2_bytes()) {
  const Segment op = parse_segment(op_text);
  const Machine machine = load_machine("h200x8");
  const Plan plan = lower(op, parse_schedule(schedule, op, machine), machine);
  const auto k = static_cast<int>(op.local_k());
  const auto by_kernel = sim::bytes_from_memory(plan, cache, [k](const Instr&) { return k; })[0];
  return std::accumulate(by_kernel.begin(), by_kernel.end(), 0.0);
}

double once(const char* op_text) {
  const Segment op = parse_segment(op_text);
  return static_cast<double>((op.m + op.local_n()) * op.local_k() * num_bytes(op.dtype));
}

TEST(InputTraffic, IsReadOnceWhereTheCacheHoldsIt) {
  constexpr const char* kSmall = "ag-gemm m=4096 n=4096 k=1024 ranks=2 dtype=bf16";
  EXPECT_DOUBLE_EQ(read_by_first(kSmall, "sequential,tile=128x256"), once(kSmall));
}

TEST(InputTraffic, ASmallerCacheHoldsLess) {
  constexpr const char* kSmall = "ag-gemm m=4096 n=4096 k=1024 ranks=2 dtype=bf16";
  EXPECT_GT(read_by_first(kSmall, "sequential,tile=128x256", 6e6), 1.2 * once(kSmall));
}

TEST(InputTraffic, OfOneWaveIsReadOnce) {
  constexpr const char* kWave = "ag-gemm m=1024 n=8192 k=16384 ranks=2 dtype=bf16";
  EXPECT_DOUBLE_EQ(read_by_first(kWave, "sequential,tile=128x256"), once(kWave));
}

TEST(InputTraffic, WideRowsInTheOrderOfArrivalReadBManyTimes) {
  constexpr const char* kWide = "ag-gemm m=3072 n=51200 k=5120 ranks=2 dtype=bf16";
  const double sequential = read_by_first(kWide, "sequential,tile=128x256");
  const double arrival = read_by_first(kWide, "tiles,tile=128x256,comm-sms=4,order=arrival");
  const double own_first = read_by_first(kWide, "tiles,tile=128x256,comm-sms=4,order=own-first");
  EXPECT_GT(arrival, 2.5 * sequential);
  EXPECT_LT(own_first, 1.5 * sequential);
}

// A wave of the first product is a row of its tiles, each with columns of both weights; the
// second's tiles go by columns.
TEST(InputTraffic, IsOfBothProductsOfAGateKernelByKernel) {
  const Operator op = make_operator("mlp", {{"m", 2048}, {"h", 8192}, {"f", 28672}}, 2);
  const Machine machine = load_machine("h200x8");
  const Plan plan =
      lower(op,
            parse_schedules("tiles,tile=128x256/up:tiles,tile=128x256,comm-sms=4,order=arrival", op,
                            machine),
            machine);
  const auto read = sim::bytes_from_memory(plan, machine.l2_bytes(), [&](const Instr& gemm) {
    return plan.reads(gemm).back().cols();
  })[0];
  ASSERT_EQ(read.size(), 2u);
  const double up = 28672.0 * 8192 * 2, down = 8192.0 * 14336 * 2;
  EXPECT_GT(read[0], 7 * up);
  EXPECT_LT(read[1], 5 * down);
}

}  // namespace
}  // namespace stretto
