#include "emu/memory.h"

#include <gtest/gtest.h>

#include <cmath>

#include "plans.h"
#include "tasks/elements.h"

namespace stretto::emu {
namespace {

class MemoryTest : public testing::Test {
 protected:
  MemoryTest()
      : plan(plan_of(reduce_scatter_by_slots())), memory(plan), slots(*plan.find_buffer("slots")) {}

  Region region(int row0, int row1, int col0, int col1, int rank = 0) {
    return {.row0 = row0,
            .row1 = row1,
            .col0 = col0,
            .col1 = col1,
            .buffer = slots,
            .rank = static_cast<uint16_t>(rank)};
  }
  void write(const Region& to, int run, float value) {
    std::vector<float> values(static_cast<size_t>(to.elements()), value);
    std::vector<uint16_t> rounded(values.size());
    tasks::round_elements(DType::bf16, values.data(), rounded.data(), values.size());
    memory.write(to, run, rounded.data(), to.cols());
  }
  std::vector<float> read(const Region& from, int run) {
    std::vector<uint16_t> bits(static_cast<size_t>(from.elements()));
    std::vector<float> values(bits.size());
    memory.read(from, run, bits.data());
    tasks::widen(DType::bf16, bits.data(), values.data(), bits.size());
    return values;
  }

  Plan plan;
  Memory memory;
  uint16_t slots;
};

TEST_F(MemoryTest, NothingIsWrittenAtFirst) {
  const Unfit unfit = memory.examine(region(0, 8, 0, 6), 0);
  EXPECT_EQ(unfit.never, 48);
  EXPECT_EQ(unfit.count(), 48);
  for (const float value : read(region(0, 8, 0, 6), 0)) EXPECT_TRUE(std::isnan(value));
}

TEST_F(MemoryTest, OneElementRowThatIsMissingIsSeen) {
  write(region(0, 3, 0, 6), 0, 1);
  write(region(4, 8, 0, 6), 0, 2);
  EXPECT_EQ(memory.examine(region(0, 3, 0, 6), 0).count(), 0);
  const Unfit unfit = memory.examine(region(1, 6, 0, 6), 0);
  EXPECT_EQ(unfit.never, 6);
  EXPECT_EQ(unfit.row, 3);
  EXPECT_EQ(unfit.col, 0);
  const std::vector<float> values = read(region(2, 5, 0, 6), 0);
  EXPECT_EQ(values[0], 1);
  EXPECT_TRUE(std::isnan(values[6]));
  EXPECT_EQ(values[12], 2);
}

TEST_F(MemoryTest, RunsAreToldApartWithinACopy) {
  write(region(0, 8, 0, 6), 0, 1);
  EXPECT_EQ(memory.examine(region(0, 8, 0, 6), 1).never, 48);  // the other copy
  EXPECT_EQ(memory.examine(region(0, 8, 0, 6), 2).stale, 48);
  write(region(0, 4, 0, 6), 2, 3);
  EXPECT_EQ(memory.examine(region(0, 8, 0, 6), 2).stale, 24);
  EXPECT_EQ(memory.examine(region(0, 8, 0, 6), 0).newer, 24);
  EXPECT_EQ(memory.examine(region(0, 8, 0, 6, 1), 2).never, 48);  // the other rank
}

TEST_F(MemoryTest, OverwritingALaterRunIsCounted) {
  write(region(0, 4, 0, 6), 2, 3);
  const std::vector<uint16_t> zeros(48);
  EXPECT_EQ(memory.write(region(0, 8, 0, 6), 0, zeros.data(), 6), 24);
}

TEST_F(MemoryTest, KnowsItsBounds) {
  EXPECT_TRUE(memory.contains(region(0, 8, 0, 6)));
  EXPECT_FALSE(memory.contains(region(0, 9, 0, 6)));
  EXPECT_FALSE(memory.contains(region(0, 8, 0, 7)));
  const uint16_t out = *plan.find_buffer("out");
  EXPECT_TRUE(memory.contains({0, 4, 0, 6, out, 0}));
  EXPECT_FALSE(memory.contains({0, 4, 0, 6, out, 1}));  // 7 rows: the second rank has 3
}

TEST_F(MemoryTest, PiecesMakeTheWhole) {
  Random random(1);
  for (int i = 0; i < 100; ++i) {
    const Region whole = region(1, 7, 0, 6);
    const Memory::Pieces pieces = memory.cut(whole, random);
    EXPECT_EQ(pieces.first.elements() + pieces.second.elements(), whole.elements());
    EXPECT_FALSE(pieces.first.empty());
    EXPECT_FALSE(pieces.second.empty());
    EXPECT_FALSE(pieces.first.overlaps(pieces.second));
  }
  EXPECT_TRUE(memory.cut(region(1, 2, 0, 6), random).second.empty());  // one row, no column inside
}

}  // namespace
}  // namespace stretto::emu
