// The plans of a request, where one of them turns out to be too large for a stage.
#include "cli/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/progress.h"
#include "stretto/error.h"

namespace stretto::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Request request_of(const std::string& strategy) {
  Options options;
  options.subject = "gemm-rs";
  for (std::string* size : {&options.m, &options.n, &options.k}) *size = std::string("64");
  options.ranks = std::string("2");
  options.strategy = strategy;
  return resolve(options);
}

// What became of each of the request's strategies: the reason why it was refused, or "served".
std::vector<std::string> visited(const Request& request, const std::string& too_large) {
  std::vector<std::string> said;
  Progress progress;
  for_each_plan(request, progress, [&](const NamedPlan& named) {
    const bool is_served = named.plan != nullptr;
    if (is_served && (too_large == named.name || too_large == "every")) {
      throw UsageError("too large");
    }
    const auto& refused = named.choice->refused;
    said.push_back(is_served ? "served" : refused.empty() ? "no reason" : refused.front());
  });
  return said;
}

TEST(Lists, BeginASchedulesTextWhereItSplits) {
  std::vector<std::string> names;
  for (const Choice& choice : request_of("tiles,split=2/tiles,comm-sms=0,slices").choices) {
    names.push_back(choice.name);
  }
  EXPECT_THAT(names, ElementsAre("tiles", "split=2/tiles,comm-sms=0", "slices"));
}

TEST(Plans, OfAllAreShownButForOneThatIsTooLarge) {
  EXPECT_THAT(visited(request_of("all"), "two-chunk"),
              ElementsAre("served", "served", "served", "served", "too large", "served", "served",
                          "served", "served"));
}

TEST(Plans, OfAllMustNotAllBeTooLarge) {
  try {
    visited(request_of("all"), "every");
    FAIL() << "nothing was served";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("sequential, library, low-latency, few-rows, two-chunk, "));
    EXPECT_THAT(error.what(), HasSubstr("slices cannot serve this: too large"));
  }
}

TEST(Plans, ThatAreNamedMustAllBeServed) {
  EXPECT_THROW(visited(request_of("tiles,waves"), "waves"), UsageError);
  EXPECT_THAT(visited(request_of("tiles,waves"), "slices"), ElementsAre("served", "served"));
}

}  // namespace
}  // namespace stretto::cli
