// Arguments of kernels that reduce or gather, which cannot work: refused by the host before a
// launch.
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

TEST(RefusedReductions, MemoryThatIsMissingUnalignedOrOverlaps) {
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

TEST(RefusedReductions, SymmetricMemoryThatIsNotInTheHeap) {
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

TEST(RefusedReductions, TwoShotNeedsFewerSlotsThanOneShot) {
  auto args = good_all_reduce();
  args.greetings = args.slots + 2 * 2 * 64;
  EXPECT_EQ(refusal(args, 4, 8), "");
}

// Two ranks have parts of 16 and 9 vectors.
PartsArgs<GpuBlock> good_parts() {
  return {address<Vec16>(0x10000), address<Vec16>(0x20000), 16, 25, 64, address<Vec16>(0x40000),
          address<Vec16>(0x60000), address<uint64>(0x70000)};
}

TEST(RefusedReductions, PartsOfMemoryThatIsMissingUnalignedOrOverlaps) {
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

TEST(RefusedReductions, PartsOfSizesThatAreNotServed) {
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

// What memory may say there is at the most counts, and not the vectors that arguments give.
TEST(RefusedReductions, RowsInMemoryThatDoNotFit) {
  const auto parts = [](auto change) {
    PartsArgs<GpuBlock> args = good_parts();
    args.part_vectors = args.num_vectors = 0;
    args.rows = {address<const int32>(0x80004), 31, 4};  // parts of 16 and 15 rows
    return refusal_with(args, change);
  };
  EXPECT_EQ(parts([](auto&) {}), "");
  EXPECT_THAT(parts([](auto& args) { args.rows.most = 33; }),
              HasSubstr("gather_scatter: parts of 68 vectors, but max_part_vectors is 64"));
  EXPECT_THAT(parts([](auto& args) { args.rows.most = -1; }),
              HasSubstr("gather_scatter: at most -1 rows; 0 is the least"));
  EXPECT_THAT(parts([](auto& args) { args.rows.at = address<const int32>(0x80002); }),
              HasSubstr("'rows' at 0x80002 is not aligned to 4 bytes"));
  EXPECT_THAT(parts([](auto& args) { args.rows.at = address<const int32>(0x10004); }),
              HasSubstr("'input' and 'rows' overlap"));
  const auto sums = [](auto change) {
    AllReduceArgs<GpuBlock> args = good_all_reduce();
    args.rows = {address<const int32>(0x80004), 16, 4};
    return refusal_with(args, change);
  };
  EXPECT_EQ(sums([](auto& args) { args.num_vectors = 1000; }), "");
  EXPECT_THAT(sums([](auto& args) { args.rows.most = 17; }),
              HasSubstr("all_reduce: 68 vectors, but max_vectors is 64"));
  EXPECT_THAT(sums([](auto& args) { args.rows.at = address<const int32>(0x40000); }),
              HasSubstr("'rows' and 'slots' overlap"));
  const auto copy = [](auto change) {
    return refusal_with(CopyRowsArgs<GpuBlock>{address<Vec16>(0x10000),
                                               address<Vec16>(0x20000),
                                               {address<const int32>(0x80004), 16, 4}},
                        change);
  };
  EXPECT_EQ(copy([](auto&) {}), "");
  EXPECT_THAT(copy([](auto& args) { args.rows.at = nullptr; }),
              HasSubstr("copy_rows: 'rows' is null"));
  EXPECT_THAT(copy([](auto& args) { args.output = address<Vec16>(0x10000); }),
              HasSubstr("copy_rows: 'input' and 'output' overlap"));
  EXPECT_THAT(copy([](auto& args) { args.input = nullptr; }),
              HasSubstr("copy_rows: 'input' is null; 1024 bytes are needed"));
}

}  // namespace
}  // namespace stretto::fibre
