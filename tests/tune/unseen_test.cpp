// bench/shapes/unseen.txt stays unseen: what is measured on it shows how `auto` does where nothing
// was tuned, so nothing that ships may be measured there.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "core/file.h"
#include "core/text.h"
#include "stretto/tune.h"

namespace stretto {
namespace {

constexpr size_t kMostBytes = 1 << 20;

std::vector<Segment> unseen() {
  const auto file = std::filesystem::path(STRETTO_TEST_DIR) / "../../bench/shapes/unseen.txt";
  std::vector<Segment> shapes;
  const std::string content = read_file(file.string(), kMostBytes);
  for (const std::string_view line : split(content, '\n')) {
    const std::string_view shape = line.substr(0, line.find('#'));
    if (!shape.empty()) shapes.push_back(parse_segment(shape, {2, DType::bf16}));
  }
  return shapes;
}

// On other numbers of ranks GPUs may multiply the same.
bool is_seen(const Segment& tuned, const Segment& one) {
  return tuned.kind == one.kind && tuned.m == one.m && tuned.local_n() == one.local_n() &&
         tuned.local_k() == one.local_k();
}

TEST(UnseenShapes, AreManyAndCanBeServed) {
  const std::vector<Segment> shapes = unseen();
  EXPECT_GE(shapes.size(), 80u);
  std::set<int> ranks;
  for (const Segment& one : shapes) {
    SCOPED_TRACE(to_string(one));
    validate(one);
    ranks.insert(one.ranks);
    EXPECT_TRUE(legal(one, find_preset("library").make(one, default_machine(one.ranks)),
                      default_machine(one.ranks))
                    .empty());
  }
  EXPECT_EQ(ranks, (std::set<int>{2, 4, 8}));
}

TEST(UnseenShapes, AreInNoTuningFileThatShips) {
  const Tuning shipped = shipped_tuning();
  for (const Segment& one : unseen()) {
    for (const TunedOperator& tuned : shipped.operators()) {
      EXPECT_FALSE(is_seen(tuned.op, one))
          << to_string(tuned.op) << " in the shipped tuning is " << to_string(one)
          << " of bench/shapes/unseen.txt, whatever its ranks: take it out";
    }
  }
}

}  // namespace
}  // namespace stretto
