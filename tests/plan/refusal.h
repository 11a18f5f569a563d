// What is said of a text that is no plan, and that one that is comes back as it was.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "stretto/error.h"
#include "stretto/plan.h"

namespace stretto {

inline std::string refusal(std::string_view text, std::string_view file = "plan") {
  try {
    parse_plan(text, file);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

// Of tasks that read or write tables.
inline void expect_plan_with_tables(const std::string& text) {
  const Plan plan = parse_plan(text);
  EXPECT_NO_THROW(validate(plan));
  EXPECT_EQ(print(plan), text);
  EXPECT_TRUE(plan.has_tables());
}

}  // namespace stretto
