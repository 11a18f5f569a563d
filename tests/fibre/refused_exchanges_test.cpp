// Arguments of kernels that exchange tokens, which cannot work: refused by the host before a
// launch.
#include <gmock/gmock.h>

#include "fibre/refusal.h"

namespace stretto::fibre {
namespace {

using namespace device;
using testing::HasSubstr;

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

TEST(RefusedExchanges, ExpertsThatDoNotFit) {
  const auto with = [](auto change) { return refusal_with(good_dispatch(), change); };
  EXPECT_EQ(with([](auto&) {}), "");
  EXPECT_THAT(with([](auto& args) { args.shape.top_k = 9; }),
              HasSubstr("dispatch: top_k must be at least 1 and at most"));
  EXPECT_THAT(refusal(good_dispatch(), 3, 8), HasSubstr("experts must be a multiple of the ranks"));
  EXPECT_THAT(with([](auto& args) { args.tokens = 5; }),
              HasSubstr("5 tokens, but max_tokens is 4"));
}

TEST(RefusedExchanges, DispatchOfMemoryThatIsMissingUnalignedOrOverlaps) {
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

TEST(RefusedExchanges, CombineOfMemoryThatIsMissingUnalignedOrOverlaps) {
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

TEST(RefusedExchanges, AllToAllOfOddRowsOrOtherGrids) {
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

TEST(RefusedExchanges, AllToAllOfMemoryThatIsMissingUnalignedOrOverlaps) {
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

}  // namespace
}  // namespace stretto::fibre
