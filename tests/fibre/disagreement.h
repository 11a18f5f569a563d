// What is said of ranks that call with other arguments than each other.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace stretto::fibre {

// Names the argument with both values and rank 1, whoever finds it.
inline auto names(const char* argument, int usual, int of_rank_1) {
  return testing::AnyOf(testing::AllOf(testing::HasSubstr(fmt::format(
                                           "rank 1 calls with {} = {}, rank", argument, of_rank_1)),
                                       testing::HasSubstr(fmt::format(" with {}\n", usual))),
                        testing::HasSubstr(fmt::format(" calls with {} = {}, rank 1 with {}\n",
                                                       argument, usual, of_rank_1)));
}

}  // namespace stretto::fibre
