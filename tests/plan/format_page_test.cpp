// The example of docs/plan-format.md is a plan: it reads, is proved clean, and computes.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "stretto/check.h"
#include "stretto/emulate.h"

namespace stretto {
namespace {

std::string example() {
  std::ifstream file(STRETTO_TEST_DIR "/../../docs/plan-format.md");
  const std::string page(std::istreambuf_iterator<char>(file), {});
  const size_t begin = page.find("stretto-plan 2");
  const size_t end = page.find("```", begin);
  return page.substr(begin, end - begin);
}

TEST(FormatPage, ItsExampleIsCorrect) {
  const Plan plan = parse_plan(example(), "plan-format.md");
  const CheckReport report = check(plan);
  for (const Diagnostic& diagnostic : report.diagnostics) {
    ADD_FAILURE() << diagnostic.message << " " << diagnostic.hint;
  }
  EmulateOptions options;
  options.fill = Fill::integers;
  options.runs = 4;
  const EmulateResult result = emulate(plan, options);
  EXPECT_TRUE(result.finished);
  EXPECT_TRUE(result.verified) << result.first_wrong;
  EXPECT_TRUE(result.faults.empty());
}

TEST(FormatPage, EveryLineOfItsExampleMatters) {
  const std::string text = example();
  size_t synced = 0;
  for (size_t start = 0; start < text.size(); start = text.find('\n', start) + 1) {
    const size_t word = text.find_first_not_of(' ', start);
    if (text.compare(word, 5, "wait ") != 0 && text.compare(word, 7, "notify ") != 0) continue;
    ++synced;
    std::string without = text;
    without.erase(start, text.find('\n', start) + 1 - start);
    EXPECT_FALSE(check(parse_plan(without)).clean()) << text.substr(word, 20);
  }
  EXPECT_EQ(synced, 6u);
}

}  // namespace
}  // namespace stretto
