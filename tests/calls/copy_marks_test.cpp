#include "calls/copy_marks.h"

#include <gtest/gtest.h>

#include <string>

namespace stretto::runtime {
namespace {

int made = 0, recorded = 0, passed = 0;

struct Event {
  explicit Event(bool) { ++made; }
  void record(const std::string&) { number = ++recorded; }
  bool has_passed() const { return number <= passed; }

  int number = 0;
};

TEST(CopyMarks, TellCopiesByTheEventBehindThem) {
  made = recorded = passed = 0;
  CopyMarks<Event> marks(4);
  const std::string stream;
  for (uint64_t copy = 1; copy <= 10; ++copy) EXPECT_EQ(marks.note(stream), copy);
  EXPECT_EQ(recorded, 2);
  EXPECT_TRUE(marks.is_made(0));  // none
  EXPECT_FALSE(marks.is_made(1));
  passed = 1;
  EXPECT_TRUE(marks.is_made(4));
  EXPECT_FALSE(marks.is_made(5));
  passed = 2;
  EXPECT_TRUE(marks.is_made(2));
  EXPECT_TRUE(marks.is_made(8));
  EXPECT_FALSE(marks.is_made(9));  // no event is behind it
}

TEST(CopyMarks, UseEventsAgain) {
  made = recorded = passed = 0;
  CopyMarks<Event> marks(1);
  for (uint64_t copy = 1; copy <= 100; ++copy) {
    EXPECT_EQ(marks.note(std::string()), copy);
    EXPECT_FALSE(marks.is_made(copy));
    passed = static_cast<int>(copy);
    EXPECT_TRUE(marks.is_made(copy));
  }
  EXPECT_EQ(made, 1);
}

}  // namespace
}  // namespace stretto::runtime
