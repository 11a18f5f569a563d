// Arguments of kernels that norm rows, which cannot work: refused by the host before a launch.
#include <gmock/gmock.h>

#include "fibre/refusal.h"

namespace stretto::fibre {
namespace {

using namespace device;
using testing::HasSubstr;

TEST(RefusedNorms, NormsOfOddRowsInFp8AndTooManyTokens) {
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

TEST(RefusedNorms, ScatterNormGatherOfMemoryThatIsMissingUnalignedOrOverlaps) {
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

TEST(RefusedNorms, ScatterNormGatherOfSizesThatAreNotServed) {
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

TEST(RefusedNorms, AddNormOfMemoryOrSizesThatCannotBe) {
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
