// Plans that split K: exact on integers, within the bound on random data, and the same bits under
// every seed and in every schedule of fixed order that splits alike.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>

#include "stretto/check.h"
#include "stretto/emulate.h"
#include "stretto/lower.h"
#include "stretto/schedule.h"

namespace stretto::emu {
namespace {

struct Shape {
  int64_t m, n, k;
  const char* tile;
  int splits;
};

class SplitK : public testing::TestWithParam<ProductKind> {};
INSTANTIATE_TEST_SUITE_P(, SplitK, testing::Values(kAgGemm, kGemmRs, kGemmAr),
                         [](const auto& kind) {
                           std::string name(to_string(kind.param));
                           name[name.find('-')] = '_';
                           return name;
                         });

// k is a rank's.
Segment operator_of(ProductKind kind, const Shape& shape, int ranks, DType dtype) {
  const bool gathers = kind == kAgGemm;
  return {kind,  shape.m, gathers ? shape.n * ranks : shape.n, gathers ? shape.k : shape.k * ranks,
          ranks, dtype};
}

TEST_P(SplitK, IsRightForEveryPresetShapeAndType) {
  // A single row; nothing that divides; tiles of several owners; ranges of one step.
  const Shape shapes[] = {
      {1, 24, 130, "16x16", 3}, {67, 40, 333, "16x32", 2}, {43, 24, 256, "32x16", 4}};
  int run = 0;
  for (const int ranks : {1, 2, 4, 8}) {
    const Machine machine = default_machine(ranks);
    for (const Shape& shape : shapes) {
      const DType dtype = static_cast<DType>(run++ % 3);
      const Segment op = operator_of(GetParam(), shape, ranks, dtype);
      const std::shared_ptr<SharedReference> reference = make_shared_reference();
      std::optional<uint64_t> bits;
      for (const Preset& preset : presets()) {
        if (preset.make(op, machine).gemm != GemmBy::tiles) continue;  // who splits K by itself
        const Schedule schedule = parse_schedule(
            fmt::format("{},tile={},split-k={}", preset.name, shape.tile, shape.splits), op,
            machine);
        const std::string name = to_string(op) + "\n" + to_string(schedule);
        const Plan plan = lower(op, schedule, machine);
        const CheckReport report = check(plan);
        ASSERT_TRUE(report.clean()) << name << "\n" << report.diagnostics[0].message;
        for (const Fill fill : {Fill::integers, Fill::random}) {
          for (const uint64_t seed : {1, 2}) {
            const EmulateResult result =
                emulate(plan, {.seed = seed, .fill = fill, .runs = 2, .reference = reference});
            ASSERT_TRUE(result.finished && result.verified && result.faults.empty())
                << name << "\n"
                << result.first_wrong;
            if (fill == Fill::integers || !is_deterministic(schedule)) continue;
            EXPECT_EQ(bits.value_or(result.output_hash), result.output_hash) << name;
            bits = result.output_hash;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace stretto::emu
