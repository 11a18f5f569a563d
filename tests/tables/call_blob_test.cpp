// The piece of memory that kernels are told of at a call: what is in it hangs on the call alone.
#include "tables/call_blob.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "launch/rank_program.h"
#include "stretto/call.h"
#include "stretto/lower.h"

namespace stretto::cuda {
namespace {

size_t num_encoded = 0;

// In the place of the driver's: what a map is made of.
device::TensorMap encode(const MapSpec& spec, const device::GemmConfig&) {
  ++num_encoded;
  device::TensorMap map{};
  const uint64_t words[] = {spec.matrix.address, static_cast<uint64_t>(spec.matrix.rows),
                            static_cast<uint64_t>(spec.matrix.stride)};
  std::memcpy(&map, words, sizeof(words));
  return map;
}

void move(device::TensorMap& map, DevicePtr to) { std::memcpy(&map, &to, sizeof(to)); }

// What kernels find in a call's piece, and what of it, by whose tables' bytes it is that of other
// addresses.
template <typename T>
void expect_there(const std::vector<std::byte>& bytes, const std::optional<size_t>& at,
                  const std::vector<T>& expected, const std::vector<T>& with_stand_ins) {
  const size_t count = expected.size() * sizeof(T);
  const bool is_fixed = std::memcmp(expected.data(), with_stand_ins.data(), count) == 0;
  EXPECT_EQ(at.has_value(), !is_fixed) << "only what hangs on a call";
  if (!at) return;
  ASSERT_LE(*at + count, bytes.size());
  EXPECT_EQ(std::memcmp(bytes.data() + *at, expected.data(), count), 0);
}

template <typename T>
std::vector<T> flat(const std::vector<std::vector<T>>& lists) {
  std::vector<T> all;
  for (const std::vector<T>& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

// As tables are that were made with a call's addresses.
void expect_is_of(const CallBlob& made, const std::vector<std::byte>& bytes,
                  const RankTables& right, const RankTables& with_stand_ins) {
  ASSERT_EQ(made.gemms().size(), right.gemms.size());
  for (size_t g = 0; g < right.gemms.size(); ++g) {
    const CallBlob::Gemm& own = made.gemms()[g];
    for (size_t i = 0; i < right.gemms[g].maps.size(); ++i) {
      const device::TensorMap map = encode(right.gemms[g].maps[i], right.gemms[g].config);
      EXPECT_EQ(std::memcmp(bytes.data() + own.maps + i * sizeof(map), &map, sizeof(map)), 0);
    }
    const GemmTable &table = right.gemms[g].table, &of = with_stand_ins.gemms[g].table;
    expect_there(bytes, own.follows, flat(table.follows), flat(of.follows));
    expect_there(bytes, own.entries, all_entries(table), all_entries(of));
  }
  ASSERT_EQ(made.regions().size(), right.moves.size());
  for (size_t m = 0; m < right.moves.size(); ++m) {
    expect_there(bytes, made.regions()[m], flat(right.moves[m].regions),
                 flat(with_stand_ins.moves[m].regions));
  }
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
  const RankTables with_stand_ins = tables_for(plan, 0, programs[0], stands_in, signals);
  const RankTables right = tables_for(plan, 0, programs[0], own, signals);
  CallBlob made(with_stand_ins, encode, move);
  EXPECT_GT(made.num_call_maps(), 0u);
  const CallBlob of_no_call(right, encode, move);
  EXPECT_EQ(of_no_call.num_call_maps() + of_no_call.num_call_addresses(), 0u);
  std::vector<std::byte> bytes(made.num_bytes());
  made.begin(bytes.data());
  made.write(bytes.data(), other);  // an earlier call's
  const std::vector<std::byte> earlier = bytes;
  num_encoded = 0;
  made.write(bytes.data(), call);
  EXPECT_NE(bytes, earlier);
  EXPECT_EQ(num_encoded, made.num_call_maps());
  expect_is_of(made, bytes, right, with_stand_ins);
  num_encoded = made.num_call_maps();
  const std::vector<std::byte> expected = bytes;
  // What had as many rows is moved, wherever it lies.
  std::vector<CallPlace> moved = call;
  for (CallPlace& place : moved) place.address += 0x1000;
  for (const std::vector<CallPlace>& places : {other, moved, call}) {
    made.write(bytes.data(), places);
    EXPECT_EQ(bytes == expected, places == call);
  }
  EXPECT_EQ(num_encoded, made.num_call_maps());
  moved[1].rows -= 1;  // at one address, but others
  made.write(bytes.data(), moved);
  EXPECT_LT(num_encoded, 2 * made.num_call_maps());
  made.write(bytes.data(), call);
  EXPECT_EQ(bytes, expected);
  // Calls may take turns with row counts.
  std::vector<CallPlace> fewer = call;
  for (CallPlace& place : fewer) place.rows = std::max<int64_t>(1, place.rows / 2);
  made.write(bytes.data(), fewer);
  const size_t before_turns = num_encoded;
  for (int turn = 0; turn < 3; ++turn) {
    made.write(bytes.data(), call);
    made.write(bytes.data(), fewer);
  }
  EXPECT_EQ(num_encoded, before_turns);
}

TEST(CallBlobOfARank, ForgetsMapsOfManyRowCounts) {
  const Operator op = parse_operator("gemm-rs m=128 n=128 k=128 ranks=1 dtype=bf16");
  const Machine machine = default_machine(op.ranks);
  const Plan plan = lower(op, parse_schedules("tiles", op, machine), machine);
  const std::vector<RankProgram> programs = programs_of(plan);
  const SignalLayout signals(plan, programs, true);
  BufferPlaces places(1, std::vector<std::vector<DevicePtr>>(plan.buffers.size(), {0x100000}));
  std::vector<CallPlace> call;
  for (const CallerTensor& tensor : caller_tensors(op)) {
    places[0][*plan.find_buffer(op.tensor(tensor.tensor).name)] = {stand_in(call.size())};
    call.push_back({0x100000, 256, 256, 128});
  }
  CallBlob made(tables_for(plan, 0, programs[0], places, signals), encode, move);
  std::vector<std::byte> first(made.num_bytes()), again = first;
  made.begin(first.data());
  made.begin(again.data());
  made.write(first.data(), call);
  for (uint64_t i = 1; i < 1000; ++i) {
    std::vector<CallPlace> other = call;
    for (CallPlace& place : other) place.row_bytes += i * 16;
    made.write(again.data(), other);
    EXPECT_NE(again, first);
  }
  made.write(again.data(), call);
  EXPECT_EQ(again, first);
}

INSTANTIATE_TEST_SUITE_P(Plans, CallBlobOf,
                         testing::Values("ag-gemm m=512 n=512 k=256 ranks=2 dtype=bf16",
                                         "gemm-rs m=512 n=512 k=256 ranks=2 dtype=bf16",
                                         "mlp-gelu m=512 h=256 f=512 ranks=2 dtype=bf16",
                                         "gemm-rs-norm m=512 n=512 k=256 ranks=2 dtype=bf16",
                                         "moe-tp t=96 h=256 f=256 experts=4 k=2 ranks=2 dtype=bf16",
                                         "moe-tp-up t=96 h=256 f=256 experts=4 k=2 ranks=2 "
                                         "dtype=bf16"));

// The last rank has fewer columns than the others, so a call's rows there are nearer together than
// the plan's.
TEST(CallBlobOfARank, MoversFindTheRowsOfFewerColumns) {
  const auto graph = parse_graph(
      "graph linear m n k\n"
      "input x [m, k] rows\ninput w [n, k] rows\ninput b [1, n] cols\n"
      "g = gemm x w\ny = bias g b\noutput y cols\n");
  const Operator op = make_graph(graph, {{"m", 48}, {"n", 1000}, {"k", 64}}, 3, DType::bf16);
  const Machine machine = default_machine(op.ranks);
  const Plan plan = lower(op, parse_schedules("library", op, machine), machine);
  const std::vector<RankProgram> programs = programs_of(plan);
  const SignalLayout signals(plan, programs, true);
  BufferPlaces own(3, std::vector<std::vector<DevicePtr>>(plan.buffers.size(), {0x100000}));
  std::vector<CallPlace> call;
  size_t result = 0;
  for (const CallerTensor& tensor : caller_tensors(op)) {
    const uint16_t b = *plan.find_buffer(op.tensor(tensor.tensor).name);
    const Buffer& buffer = plan.buffers[b];
    if (tensor.is_output) result = call.size();
    own[2][b] = {stand_in(call.size())};
    call.push_back({0x200000 * (call.size() + 1),
                    static_cast<uint64_t>(buffer.cols_on(2) * num_bytes(buffer.dtype)),
                    row_bytes_of(buffer), buffer.rows_on(2)});
  }
  ASSERT_EQ(call[result].row_bytes, 328u * 2);
  ASSERT_EQ(call[result].solid_bytes, 336u * 2);
  const RankTables tables = tables_for(plan, 2, programs[2], own, signals);
  CallBlob made(tables, encode, move);
  std::vector<std::byte> bytes(made.num_bytes());
  made.begin(bytes.data());
  made.write(bytes.data(), call);
  int rows = 0;
  ASSERT_EQ(tables.moves.size(), made.regions().size());
  for (size_t m = 0; m < tables.moves.size(); ++m) {
    const MoverTable& table = tables.moves[m];
    std::vector<device::MoverRegion> regions(table.regions[0].size());
    std::memcpy(regions.data(), bytes.data() + made.regions()[m].value(),
                regions.size() * sizeof(device::MoverRegion));
    for (const auto& block : table.blocks) {
      for (const device::MoverTask& task : block) {
        if (task.num_destinations == 0) continue;
        const device::MoverRegion& to = regions.at(task.first_region + task.num_sources);
        EXPECT_EQ(to.row_bytes, call[result].row_bytes);
        EXPECT_EQ(to.address,
                  call[result].address + static_cast<uint64_t>(rows) * call[result].row_bytes);
        EXPECT_EQ(task.columns, 328u);
        rows += static_cast<int>(task.rows);
      }
    }
  }
  EXPECT_EQ(rows, 48);
}

}  // namespace
}  // namespace stretto::cuda
