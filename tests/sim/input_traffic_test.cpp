// What tiles read from memory, by the order that lanes compute them in.
#include "sim/input_traffic.h"

#include <gtest/gtest.h>

#include "stretto/lower.h"
#include "stretto/schedule.h"

namespace stretto {
namespace {

double read_by_first(const char* op_text, const char* schedule) {
  const Segment op = parse_segment(op_text);
  const Machine machine = load_machine("h200x8");
  const Plan plan = lower(op, parse_schedule(schedule, op, machine), machine);
  const auto k = static_cast<int>(op.local_k());
  return sim::bytes_from_memory(plan, [k](const Instr&) { return k; })[0];
}

double once(const char* op_text) {
  const Segment op = parse_segment(op_text);
  return static_cast<double>((op.m + op.local_n()) * op.local_k() * num_bytes(op.dtype));
}

TEST(InputTraffic, IsReadOnceWhereTheCacheHoldsIt) {
  constexpr const char* kSmall = "ag-gemm m=4096 n=4096 k=1024 ranks=2 dtype=bf16";
  EXPECT_DOUBLE_EQ(read_by_first(kSmall, "sequential,tile=128x256"), once(kSmall));
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

}  // namespace
}  // namespace stretto
