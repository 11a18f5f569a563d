// What making an operation measures on sizes that nobody tuned has its kernels compiled ahead, so
// that it is measured at all, and kept.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "core/file.h"
#include "core/text.h"
#include "op/few_rows_tiles.h"
#include "serve/usual_kernels.h"
#include "stretto/lower.h"
#include "stretto/machine.h"
#include "tables/kernel_set.h"
#include "thorough.h"
#include "tune/expected_schedule.h"
#include "tune/predict.h"
#include "tune/shortlist.h"

namespace stretto::runtime {
namespace {

constexpr size_t kMostBytes = 1 << 20, kShortlist = 8;
constexpr int64_t kMostRows = 4096;  // larger plans take too long for a test

std::vector<Segment> unseen() {
  const auto file = std::filesystem::path(STRETTO_TEST_DIR) / "../../bench/shapes/unseen.txt";
  std::vector<Segment> shapes;
  const std::string content = read_file(file.string(), kMostBytes);
  for (const std::string_view line : split(content, '\n')) {
    const std::string_view shape = line.substr(0, line.find('#'));
    if (shape.empty()) continue;
    const Segment op = parse_segment(shape, {2, DType::bf16});
    if (op.m <= kMostRows) shapes.push_back(op);
  }
  return shapes;
}

TEST(ShortlistKernels, AreAmongTheUsualOnes) {
  const Tuning tuning = shipped_tuning();
  std::set<std::string> usual;
  for (const auto& entry : usual_kernels(tuning, "sm_90a")) usual.insert(entry.name);
  const std::vector<Segment> shapes = unseen();
  ASSERT_GE(shapes.size(), 70u);
  for (size_t i = 0; i < shapes.size(); i += sweep_step(3)) {
    const Segment& op = shapes[i];
    const Machine machine = default_machine(op.ranks);
    Predictions predictions(machine);
    if (auto_schedule(op, machine, tuning, predictions).sureness.is_sure()) continue;
    for (const Schedule& schedule :
         shortlist(op, machine, tuning, RowCount::fixed, kShortlist, predictions)) {
      // Of more rows than stream weights each shape has tiles of its own; they compile when met.
      if (schedule.gemm == GemmBy::few_rows && op.m > kRowsThatStream) continue;
      for (const auto& entry : cuda::kernels_of(lower(op, schedule, machine), "sm_90a", false)) {
        EXPECT_TRUE(usual.count(entry.name))
            << entry.name << " of " << to_string(op) << ", " << to_string(schedule);
      }
    }
  }
}

}  // namespace
}  // namespace stretto::runtime
