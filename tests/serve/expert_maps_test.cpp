// What a call of experts at new addresses has the driver do: of maps that describe matrices only
// those move whose matrix lies elsewhere. In the stub of the driver.
#include <cstring>
#include <fstream>
#include <map>
#include <string>

#include "gpu/grouped_operands.h"
#include "stretto/context.h"
#include "stub_launches.h"

namespace stretto {
namespace {

using cuda::GroupedOperands;
using cuda::Matrix;
using device::GroupedConfig;

constexpr const char* kLayer = "moe-ep t=64 h=256 f=128 experts=8 k=2 ranks=2 dtype=bf16";

// By what was done with them, since the last call.
std::map<std::string, int> maps_done() {
  const std::string path = std::getenv("STUB_MAPS");
  std::map<std::string, int> done;
  std::ifstream file(path);
  for (std::string what; file >> what;) ++done[what];
  std::ofstream(path, std::ios::trunc);
  return done;
}

std::string bytes_of(const device::GroupedParams& params) {
  return {reinterpret_cast<const char*>(&params), sizeof(params)};
}

GroupedOperands operands_of_pair() {
  GroupedOperands operands;
  operands.experts = 4;
  operands.expert_rows = 64;
  operands.most_rows = 100;
  operands.tokens = {0x10000, 128, 256, 256, DType::bf16};
  operands.output = {0x20000, 128, 64, 64, DType::bf16};
  operands.weights = {0x30000, 256, 256, 256, DType::bf16};
  operands.up = {0x50000, 256, 256, 256, DType::bf16};
  operands.rows_of_expert = operands.sources = operands.tickets = 0x70000;
  return operands;
}

TEST(ExpertMaps, AreMovedOnlyWhereMatricesLieElsewhere) {
  for (const char* test : {"ExpertMapsInTheStub.AreThoseThatAreMadeAnew",
                           "ExpertMapsInTheStub.ACallAtNewAddressesEncodesNone"}) {
    EXPECT_EQ(run_inside(in_the_stub("STUB_MAPS=$(mktemp)"), test), 0) << test;
  }
}

TEST(ExpertMapsInTheStub, AreThoseThatAreMadeAnew) {
  STRETTO_INSIDE_THE_STUB();
  GroupedConfig config;
  config.follower = device::Follower::swiglu;
  GroupedOperands last = operands_of_pair();
  device::GroupedParams params = grouped_params(config, last);
  const auto change = [&](const char* what, int encodes, int moves, auto&& spoil) {
    GroupedOperands next = last;
    spoil(next);
    maps_done();
    change_matrices(params, config, last, next);
    std::map<std::string, int> done = maps_done();
    EXPECT_EQ(done["encode"], encodes) << what;
    EXPECT_EQ(done["move"], moves) << what;
    EXPECT_EQ(bytes_of(params), bytes_of(grouped_params(config, next))) << what;
    last = next;
  };
  constexpr int kTokens = device::kMostUnits, kOutputs = device::kRowMaps;
  change("nothing", 0, 0, [](GroupedOperands&) {});
  change("tokens", 0, kTokens, [](GroupedOperands& o) { o.tokens.address += 256; });
  change("output", 0, kOutputs, [](GroupedOperands& o) { o.output.address += 4096; });
  change("both weights alike", 0, 1, [](GroupedOperands& o) {
    o.weights.address += 512;
    o.up.address += 512;
  });
  change("weights otherwise apart", 1, 0, [](GroupedOperands& o) { o.up.address += 16; });
  change("the gate behind what it gates", 1, 0,
         [](GroupedOperands& o) { std::swap(o.weights.address, o.up.address); });
  change("these moved", 0, 1, [](GroupedOperands& o) {
    o.weights.address += 64;
    o.up.address += 64;
  });
  change("all", 1, kTokens + kOutputs, [](GroupedOperands& o) {
    for (Matrix* one : {&o.tokens, &o.output, &o.weights}) one->address += 32;
  });
  change("rows that lie apart", 1 + kTokens + kOutputs, 0,
         [](GroupedOperands& o) { o.tokens.stride = 264; });
  GroupedOperands crooked = last;
  crooked.weights.address += 8;
  crooked.up.address += 8;
  EXPECT_THROW(change_matrices(params, config, last, crooked), UsageError);
}

TEST(ExpertMapsInTheStub, ACallAtNewAddressesEncodesNone) {
  STRETTO_INSIDE_THE_STUB();
  Context context(2, {.timeout_s = 1});
  Operation operation(context, parse_operator(kLayer),
                      {.schedule = "low-latency", .rows = RowCount::fixed});
  const Operator op = parse_operator(kLayer);
  constexpr size_t kStep = 256, kCalls = 30;
  std::vector<std::vector<CallTensor>> tensors(2);  // by rank, with room for other addresses
  for (int rank = 0; rank < 2; ++rank) {
    for (const CallerTensor& one : caller_tensors(op)) {
      const Slice slice = slice_of(op, one.tensor, one.held, rank);
      const auto bytes = static_cast<size_t>(slice.rows() * slice.cols() * 4) + kStep * kCalls;
      tensors[size_t(rank)].push_back({op.tensor(one.tensor).name, context.allocate(rank, bytes)});
    }
  }
  const auto call = [&](size_t number) {
    for (int rank = 0; rank < 2; ++rank) {
      std::vector<CallTensor> given = tensors[static_cast<size_t>(rank)];
      for (CallTensor& one : given) one.address += kStep * number;
      operation.run(rank, context.stream(rank), 64, given);
    }
  };
  call(0);
  maps_done();
  for (size_t number = 1; number < kCalls; ++number) {
    call(number);
    std::map<std::string, int> done = maps_done();
    EXPECT_EQ(done["encode"], 0) << number;
    EXPECT_EQ(done["move"], 4) << number;  // of two ranks gate and up, and down
  }
  operation.finish();
}

}  // namespace
}  // namespace stretto
