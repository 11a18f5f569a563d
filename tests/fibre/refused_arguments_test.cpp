// Arguments of kernels that cannot work: refused by the host before a launch.
#include <gmock/gmock.h>

#include "fibre/refusal.h"

namespace stretto::fibre {
namespace {

using namespace device;
using testing::HasSubstr;

AllReduceArgs<GpuBlock> good_all_reduce() {
  return {address<Vec16>(0x10000), address<Vec16>(0x20000), 16, 64, address<Vec16>(0x40000),
          address<Vec16>(0x60000), address<uint64>(0x70000)};
}

TEST(RefusedArguments, MemoryThatIsMissingUnalignedOrOverlaps) {
  auto args = good_all_reduce();
  EXPECT_EQ(refusal(args, 2, 8), "");
  args.output = address<Vec16>(0x10000);  // in place
  EXPECT_EQ(refusal(args, 2, 8), "");
  args.output = address<Vec16>(0x10010);
  EXPECT_THAT(refusal(args, 2, 8), HasSubstr("'input' and 'output' overlap"));
  args = good_all_reduce();
  args.input = address<Vec16>(0x10008);
  EXPECT_THAT(refusal(args, 2, 8), HasSubstr("'input' at 0x10008 is not aligned to 16 bytes"));
  args = good_all_reduce();
  args.slots = nullptr;
  EXPECT_THAT(refusal(args, 2, 8), HasSubstr("'slots' is null; 4096 bytes are needed"));
  args = good_all_reduce();
  args.greetings = args.slots + 2 * 2 * 64 - 1;  // the slots' last vector
  EXPECT_THAT(refusal(args, 2, 8), HasSubstr("'slots' and 'greetings' overlap"));
  args = good_all_reduce();
  args.num_vectors = 65;
  EXPECT_THAT(refusal(args, 2, 8), HasSubstr("65 vectors, but max_vectors is 64"));
  args = good_all_reduce();
  args.max_vectors = 1ull << 31;
  EXPECT_THAT(refusal(args, 2, 8), HasSubstr("all_reduce: 2147483648 vectors"));
}

TEST(RefusedArguments, SymmetricMemoryThatIsNotInTheHeap) {
  const auto with = [](uint64_t at, uint64_t bytes) {
    return refusal(good_all_reduce(), 2, 8, {address<char>(at), bytes});
  };
  // Slots from 0x40000, 4096 bytes; greetings from 0x60000, 96. What is local lies anywhere.
  EXPECT_EQ(with(0x40000, 0x20060), "");
  EXPECT_THAT(with(0x40100, 0x20060),
              HasSubstr("all_reduce: 'slots' at 0x40000, 4096 bytes, is not in the symmetric heap "
                        "of 131168 bytes at 0x40100"));
  EXPECT_THAT(with(0x40000, 0x2005f), HasSubstr("'greetings' at 0x60000, 96 bytes, is not in"));
  EXPECT_THAT(with(0x50000, 0x100), HasSubstr("'slots' at 0x40000"));
  EXPECT_THAT(with(0x40000, 0x80), HasSubstr("'slots' at 0x40000"));
}

TEST(RefusedArguments, TwoShotNeedsFewerSlotsThanOneShot) {
  auto args = good_all_reduce();
  args.greetings = args.slots + 2 * 2 * 64;
  EXPECT_EQ(refusal(args, 4, 8), "");
}

// For two ranks: parts of 16 and 9 vectors.
PartsArgs<GpuBlock> good_parts() {
  return {address<Vec16>(0x10000), address<Vec16>(0x20000), 16, 25, 64, address<Vec16>(0x40000),
          address<Vec16>(0x60000), address<uint64>(0x70000)};
}

TEST(RefusedArguments, PartsOfMemoryThatIsMissingUnalignedOrOverlaps) {
  const auto with = [](auto change) { return refusal_with(good_parts(), change); };
  EXPECT_EQ(with([](auto&) {}), "");
  // The second rank's part has 9 vectors.
  EXPECT_EQ(with([](auto& args) { args.output = address<Vec16>(0x10090); }), "");
  EXPECT_THAT(with([](auto& args) { args.output = address<Vec16>(0x10080); }),
              HasSubstr("gather_scatter: 'input' and 'output' overlap"));
  EXPECT_THAT(with([](auto& args) {
                args.num_vectors = 16;  // the second rank has none
                args.output = address<Vec16>(0x10000);
              }),
              HasSubstr("gather_scatter: 'input' is 'output'; give each memory of its own"));
  EXPECT_THAT(with([](auto& args) { args.input = address<Vec16>(0x10008); }),
              HasSubstr("'input' at 0x10008 is not aligned to 16 bytes"));
  EXPECT_THAT(with([](auto& args) { args.input = nullptr; }),
              HasSubstr("'input' is null; 144 bytes are needed"));
  EXPECT_THAT(with([](auto& args) { args.slots = nullptr; }),
              HasSubstr("'slots' is null; 4096 bytes are needed"));
  EXPECT_THAT(with([](auto& args) { args.greetings = args.slots + 2 * 2 * 64 - 1; }),
              HasSubstr("'slots' and 'greetings' overlap"));
  EXPECT_EQ(with([](auto& args) { args.greetings = args.slots + 2 * 2 * 64; }), "");
  EXPECT_EQ(with([](auto& args) {
              args.part_vectors = args.num_vectors = 0;
              args.input = args.output = nullptr;
            }),
            "");
}

TEST(RefusedArguments, PartsOfSizesThatAreNotServed) {
  const auto with = [](auto change) { return refusal_with(good_parts(), change); };
  EXPECT_THAT(with([](auto& args) { args.part_vectors = 65; }),
              HasSubstr("gather_scatter: parts of 65 vectors, but max_part_vectors is 64"));
  EXPECT_THAT(with([](auto& args) { args.num_vectors = 33; }),
              HasSubstr("gather_scatter: 33 vectors, but 2 parts of 16 have 32"));
  EXPECT_THAT(with([](auto& args) { args.max_part_vectors = 1ull << 28; }),
              HasSubstr("parts of 268435456 vectors at the most; 268435455 are served"));
  auto args = good_parts();
  args.max_part_vectors = (1u << 28) - 1;
  args.slots = address<Vec16>(0x1000000000);
  EXPECT_EQ(refusal(args, 8, 8), "");
  EXPECT_THAT(refusal(args, 9, 8), HasSubstr("2415919095 vectors at the most; 2147483647 are"));
}

TEST(RefusedArguments, NormsOfOddRowsInFp8AndTooManyTokens) {
  AllReduceNormArgs<GpuBlock> args{};
  args.tokens = 5;
  args.max_tokens = 4;
  EXPECT_THAT(refusal(args, 2, 8), HasSubstr("5 tokens, but max_tokens is 4"));
  args.max_tokens = 1u << 16;
  args.row_vectors = 1u << 15;
  EXPECT_THAT(refusal(args, 2, 8), HasSubstr("all_reduce_norm: 2147483648 vectors"));
  args.tokens = args.max_tokens = 4;
  args.row_vectors = 3;
  args.norm.fp8_scale = address<float>(0x100);
  EXPECT_THAT(refusal(args, 2, 8), HasSubstr("3 vectors a row; fp8 output needs an even number"));
}

ScatterNormGatherArgs<GpuBlock> good_scatter_norm_gather() {
  ScatterNormGatherArgs<GpuBlock> args{};
  args.input = address<Vec16>(0x10000);
  args.residual = address<Vec16>(0x20000);
  args.new_residual = address<Vec16>(0x30000);
  args.output = address<Vec16>(0x40000);
  args.norm = {address<Vec16>(0x50000), nullptr, 1e-5f};
  args.tokens = 7;
  args.row_vectors = 2;
  args.max_tokens = 8;
  args.rows_per_chunk = 2;
  args.slots = address<Vec16>(0x60000);
  args.arrived = address<uint64>(0x70000);
  args.done = address<uint64>(0x80000);
  args.greetings = address<Vec16>(0x90000);
  args.state = address<uint64>(0xa0000);
  return args;
}

TEST(RefusedArguments, ScatterNormGatherOfMemoryThatIsMissingUnalignedOrOverlaps) {
  const auto with = [](auto change) { return refusal_with(good_scatter_norm_gather(), change); };
  EXPECT_EQ(with([](auto&) {}), "");
  EXPECT_EQ(with([](auto& args) { args.new_residual = address<Vec16>(0x20000); }), "");  // in place
  EXPECT_THAT(with([](auto& args) { args.new_residual = address<Vec16>(0x20010); }),
              HasSubstr("'residual' and 'new_residual' overlap"));
  // Two chunks of each of two ranks.
  EXPECT_EQ(with([](auto& args) { args.done = args.arrived + 4; }), "");
  EXPECT_THAT(with([](auto& args) { args.done = args.arrived + 3; }),
              HasSubstr("'arrived' and 'done' overlap; give each memory of its own"));
  EXPECT_THAT(with([](auto& args) { args.output = address<Vec16>(0x10000); }),
              HasSubstr("'input' and 'output' overlap"));
  EXPECT_THAT(with([](auto& args) { args.slots = address<Vec16>(0x60008); }),
              HasSubstr("scatter_norm_gather: 'slots' at 0x60008 is not aligned to 16 bytes"));
  EXPECT_THAT(with([](auto& args) { args.arrived = nullptr; }),
              HasSubstr("'arrived' is null; 32 bytes are needed"));
  EXPECT_THAT(with([](auto& args) { args.norm.fp8_scale = address<float>(0xb0002); }),
              HasSubstr("'fp8_scale' at 0xb0002 is not aligned to 4 bytes"));
}

TEST(RefusedArguments, ScatterNormGatherOfSizesThatAreNotServed) {
  const auto with = [](auto change) { return refusal_with(good_scatter_norm_gather(), change); };
  EXPECT_THAT(with([](auto& args) { args.tokens = 9; }),
              HasSubstr("9 tokens, but max_tokens is 8"));
  EXPECT_THAT(with([](auto& args) { args.max_tokens = 1ull << 31; }),
              HasSubstr("2147483648 tokens of 2 vectors; at most 2147483647 of each are served"));
  EXPECT_THAT(with([](auto& args) { args.rows_per_chunk = 0; }),
              HasSubstr("chunks of 0 rows; 1 to 134217727 are served"));
  EXPECT_THAT(with([](auto& args) {
                args.row_vectors = 3;
                args.norm.fp8_scale = address<float>(0xb0000);
              }),
              HasSubstr("3 vectors a row; fp8 output needs an even number"));
}

// Memory of each name is 64 KiB away from the next.
class Places {
 public:
  template <class T>
  void give(T*& pointer) {
    pointer = address<T>(at_ += 0x10000);
  }

 private:
  uint64_t at_ = 0;
};

const ExpertShape kGoodExperts{128, 8, 2, 4, 64, 1, 1};

DispatchArgs<GpuBlock> good_dispatch() {
  DispatchArgs<GpuBlock> args{};
  args.shape = kGoodExperts;
  args.tokens = 3;
  Places places;
  places.give(args.input), places.give(args.ids), places.give(args.weights);
  places.give(args.slots), places.give(args.scale_slots), places.give(args.entry_slots);
  places.give(args.counts), places.give(args.parts), places.give(args.signals);
  places.give(args.token_slots), places.give(args.received), places.give(args.part_list);
  places.give(args.agreed), places.give(args.entry_rows), places.give(args.entry_weights);
  places.give(args.expert_offsets), places.give(args.expert_counts), places.give(args.rows);
  places.give(args.row_scales), places.give(args.problems), places.give(args.calls);
  return args;
}

TEST(RefusedArguments, ExpertsThatDoNotFit) {
  const auto with = [](auto change) { return refusal_with(good_dispatch(), change); };
  EXPECT_EQ(with([](auto&) {}), "");
  EXPECT_THAT(with([](auto& args) { args.shape.top_k = 9; }),
              HasSubstr("dispatch: top_k must be at least 1 and at most"));
  EXPECT_THAT(refusal(good_dispatch(), 3, 8), HasSubstr("experts must be a multiple of the ranks"));
  EXPECT_THAT(with([](auto& args) { args.tokens = 5; }),
              HasSubstr("5 tokens, but max_tokens is 4"));
}

TEST(RefusedArguments, DispatchOfMemoryThatIsMissingUnalignedOrOverlaps) {
  const auto with = [](auto change) { return refusal_with(good_dispatch(), change); };
  EXPECT_THAT(with([](auto& args) { args.ids = nullptr; }),
              HasSubstr("dispatch: 'ids' is null; 24 bytes are needed"));
  EXPECT_THAT(with([](auto& args) { args.weights = address<float>(0x102); }),
              HasSubstr("'weights' at 0x102 is not aligned to 4 bytes"));
  EXPECT_THAT(with([](auto& args) { args.received = nullptr; }), HasSubstr("'received' is null"));
  EXPECT_THAT(with([](auto& args) { args.part_list = args.parts; }),
              HasSubstr("'parts' and 'part_list' overlap"));
  EXPECT_THAT(with([](auto& args) { args.agreed = nullptr; }),
              HasSubstr("'agreed' is null; 24 bytes are needed"));
  // Four experts of a rank, and where the last one's rows end.
  EXPECT_EQ(with([](auto& args) { args.expert_counts = args.expert_offsets + 5; }), "");
  EXPECT_THAT(with([](auto& args) { args.expert_counts = args.expert_offsets + 4; }),
              HasSubstr("'expert_offsets' and 'expert_counts' overlap"));
  // The device says how many tokens there are: as many as there can be.
  EXPECT_THAT(with([](auto& args) {
                args.tokens = 0;
                args.device_tokens = address<uint32>(0x100);
                args.ids = nullptr;
              }),
              HasSubstr("'ids' is null; 32 bytes are needed"));
}

TEST(RefusedArguments, CombineOfMemoryThatIsMissingUnalignedOrOverlaps) {
  const DispatchArgs<GpuBlock> sent = good_dispatch();
  CombineArgs<GpuBlock> good{};
  good.shape = kGoodExperts;
  good.tokens = 3;
  good.token_slots = sent.token_slots;
  good.part_list = sent.part_list;
  good.agreed = sent.agreed;
  good.entry_rows = sent.entry_rows;
  good.entry_weights = sent.entry_weights;
  good.rows = address<Vec16>(0x1000000);
  good.slots = address<Vec16>(0x2000000);
  good.signals = address<uint64>(0x3000000);
  good.output = address<Vec16>(0x4000000);
  good.calls = address<uint64>(0x5000000);
  const auto with = [&](auto change) { return refusal_with(good, change); };
  EXPECT_EQ(with([](auto&) {}), "");
  EXPECT_THAT(with([](auto& args) { args.rows = nullptr; }), HasSubstr("combine: 'rows' is null"));
  EXPECT_THAT(with([](auto& args) { args.token_slots = nullptr; }),
              HasSubstr("'token_slots' is null; 32 bytes are needed"));
  EXPECT_THAT(with([](auto& args) { args.part_list = nullptr; }), HasSubstr("'part_list' is null"));
  EXPECT_THAT(with([](auto& args) { args.agreed = nullptr; }), HasSubstr("'agreed' is null"));
  EXPECT_THAT(with([](auto& args) { args.entry_rows = address<uint32>(0x101); }),
              HasSubstr("'entry_rows' at 0x101 is not aligned to 4 bytes"));
  EXPECT_THAT(with([](auto& args) { args.entry_weights = nullptr; }),
              HasSubstr("'entry_weights' is null"));
  EXPECT_THAT(with([](auto& args) {
                args.tokens = 0;
                args.device_tokens = address<uint32>(0x100);
                args.output = nullptr;
              }),
              HasSubstr("'output' is null; 1024 bytes are needed"));
}

AllToAllArgs<GpuBlock> good_all_to_all() {
  AllToAllArgs<GpuBlock> args{};
  args.row_bytes = 32;
  args.scales_per_row = 2;
  args.max_rows = 4;
  Places places;
  places.give(args.tokens), places.give(args.scales), places.give(args.offsets);
  places.give(args.slots), places.give(args.scale_slots), places.give(args.signals);
  places.give(args.calls), places.give(args.received), places.give(args.refused);
  return args;
}

TEST(RefusedArguments, AllToAllOfOddRowsOrOtherGrids) {
  const auto with = [](auto change) {
    auto args = good_all_to_all();
    change(args);
    return refusal(args, 4, 3);
  };
  EXPECT_EQ(with([](auto&) {}), "");
  EXPECT_THAT(with([](auto& args) { args.row_bytes = 24; }),
              HasSubstr("rows of 24 bytes; a multiple of 16"));
  EXPECT_THAT(refusal(good_all_to_all(), 4, 7), HasSubstr("7 blocks for 4 ranks"));
  EXPECT_THAT(with([](auto& args) { args.row_bytes = 1 << 24; }),
              HasSubstr("all_to_all: row_bytes is 16777216; at most 16777215 is served"));
  EXPECT_THAT(with([](auto& args) { args.scales_per_row = 1 << 20; }),
              HasSubstr("scales_per_row is 1048576; at most 1048575 is served"));
  EXPECT_THAT(with([](auto& args) { args.max_rows = 1 << 20; }),
              HasSubstr("max_rows is 1048576; at most 1048575 is served"));
}

TEST(RefusedArguments, AllToAllOfMemoryThatIsMissingUnalignedOrOverlaps) {
  const auto with = [](auto change) {
    auto args = good_all_to_all();
    change(args);
    return refusal(args, 4, 3);
  };
  EXPECT_THAT(with([](auto& args) { args.tokens = nullptr; }), HasSubstr("'tokens' is null"));
  EXPECT_THAT(with([](auto& args) { args.scales = nullptr; }), HasSubstr("'scales' is null"));
  EXPECT_THAT(with([](auto& args) { args.offsets = nullptr; }),
              HasSubstr("'offsets' is null; 20 bytes are needed"));
  EXPECT_THAT(with([](auto& args) { args.refused = nullptr; }), HasSubstr("'refused' is null"));
  EXPECT_THAT(with([](auto& args) { args.calls = args.signals + 127; }),
              HasSubstr("'signals' and 'calls' overlap"));
}

TEST(RefusedArguments, AddNormOfMemoryOrSizesThatCannotBe) {
  AddNormArgs<GpuBlock> good{};
  good.input = address<Vec16>(0x10000);
  good.residual = good.new_residual = address<Vec16>(0x20000);
  good.output = address<Vec16>(0x30000);
  good.norm.weight = address<Vec16>(0x40000);
  good.rows = 4;
  good.row_vectors = 3;
  const auto with = [&](auto change) { return refusal_with(good, change); };
  EXPECT_EQ(with([](auto&) {}), "");
  EXPECT_EQ(with([](auto& args) { args.new_residual += 12; }), "");
  EXPECT_EQ(with([](auto& args) { args.rows = 0, args.input = nullptr; }), "");
  EXPECT_THAT(with([](auto& args) { args.new_residual += 11; }),
              HasSubstr("add_norm: 'residual' and 'new_residual' overlap"));
  EXPECT_THAT(with([](auto& args) { args.output = address<Vec16>(0x10000); }),
              HasSubstr("'input' and 'output' overlap"));
  EXPECT_THAT(with([](auto& args) { args.norm.weight = nullptr; }),
              HasSubstr("'weight' is null; 48 bytes are needed"));
  EXPECT_THAT(with([](auto& args) { args.input = address<Vec16>(0x10004); }),
              HasSubstr("'input' at 0x10004 is not aligned to 16 bytes"));
  EXPECT_THAT(with([](auto& args) { args.norm.fp8_scale = address<float>(0x50000); }),
              HasSubstr("add_norm: 3 vectors a row; fp8 output needs an even number"));
  EXPECT_THAT(with([](auto& args) { args.rows = 1ull << 31; }),
              HasSubstr("2147483648 rows of 3 vectors; at most 2147483647 of each are served"));
}

}  // namespace
}  // namespace stretto::fibre
