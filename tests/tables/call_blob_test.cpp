// The piece of memory that kernels are told of at a call: what is in it hangs on the call alone.
#include "tables/call_blob.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "launch/rank_program.h"
#include "stretto/call.h"
#include "stretto/lower.h"

namespace stretto::cuda {
namespace {

// In the place of the driver's: what a map is made of.
device::TensorMap encode(const MapSpec& spec, const device::GemmConfig&) {
  device::TensorMap map{};
  const uint64_t words[] = {spec.matrix.address, static_cast<uint64_t>(spec.matrix.rows),
                            static_cast<uint64_t>(spec.matrix.stride)};
  std::memcpy(&map, words, sizeof(words));
  return map;
}

class CallBlobOf : public testing::TestWithParam<const char*> {};

// As if it had been made for the call's addresses.
TEST_P(CallBlobOf, IsThatOfTheCallsAddresses) {
  const Operator op = parse_operator(GetParam());
  const Machine machine = default_machine(op.ranks);
  const Plan plan = lower(op, parse_schedules("tiles", op, machine), machine);
  const auto sums = std::make_shared<const TileSums>(plan);
  const std::vector<RankProgram> programs = programs_of(plan, sums);
  const SignalLayout signals(plan, programs, true);
  const auto place = [](size_t rank, size_t buffer, size_t copy) {
    return DevicePtr{1} << 46 | rank << 42 | buffer << 36 | copy << 32;
  };
  BufferPlaces own(static_cast<size_t>(plan.ranks()));
  for (size_t rank = 0; rank < own.size(); ++rank) {
    for (size_t b = 0; b < plan.buffers.size(); ++b) {
      auto& copies = own[rank].emplace_back();
      for (size_t c = 0; c < plan.buffers[b].copies; ++c) copies.push_back(place(rank, b, c));
    }
  }
  BufferPlaces stands_in = own;
  std::vector<CallPlace> call, other;
  for (const CallerTensor& tensor : caller_tensors(op)) {
    const uint16_t buffer = *plan.find_buffer(op.tensor(tensor.tensor).name);
    stands_in[0][buffer] = {stand_in(call.size())};
    const uint64_t bytes = row_bytes_of(plan.buffers[buffer]);
    call.push_back({own[0][buffer][0], bytes, bytes, plan.buffers[buffer].rows_on(0)});
    other.push_back({0x4000 + 0x1000 * call.size(), bytes + 32, bytes, 1});
  }
  const CallBlob made(tables_for(plan, 0, programs[0], stands_in, signals), encode);
  const CallBlob right(tables_for(plan, 0, programs[0], own, signals), encode);
  EXPECT_GT(made.num_call_maps(), 0u);
  EXPECT_EQ(right.num_call_maps() + right.num_call_addresses(), 0u);
  ASSERT_EQ(made.num_bytes(), right.num_bytes());
  std::vector<std::byte> bytes(made.num_bytes()), expected(right.num_bytes());
  right.begin(expected.data());
  made.begin(bytes.data());
  made.write(bytes.data(), other);  // an earlier call's
  EXPECT_NE(bytes, expected);
  made.write(bytes.data(), call);
  EXPECT_EQ(bytes, expected);
}

INSTANTIATE_TEST_SUITE_P(Plans, CallBlobOf,
                         testing::Values("ag-gemm m=512 n=512 k=256 ranks=2 dtype=bf16",
                                         "gemm-rs m=512 n=512 k=256 ranks=2 dtype=bf16",
                                         "mlp-gelu m=512 h=256 f=512 ranks=2 dtype=bf16",
                                         "gemm-rs-norm m=512 n=512 k=256 ranks=2 dtype=bf16",
                                         "moe-tp t=96 h=256 f=256 experts=4 k=2 ranks=2 dtype=bf16",
                                         "moe-tp-up t=96 h=256 f=256 experts=4 k=2 ranks=2 "
                                         "dtype=bf16"));

}  // namespace
}  // namespace stretto::cuda
