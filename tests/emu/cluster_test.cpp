// Gathers with clusters.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gathers.h"

namespace stretto::emu {
namespace {

TEST(Cluster, IsRightForEveryGatherAndShape) {
  // Tiles that straddle owners, ranks without rows; nothing that divides.
  expect_gathers_are_right(
      {{17, 24, 130, "16x16"}, {125, 40, 333, "16x32"}, {43, 24, 256, "32x16"}},
      [](const GatherShape& shape) {
        const int64_t phases = (shape.k + 63) / 64;  // of one step
        std::vector<std::string> schedules;
        for (const std::string& change :
             {std::string(), fmt::format(",k-phases={}", phases), std::string(",own=gathered"),
              fmt::format(",order=interleaved,own=gathered,k-phases={}", phases),
              fmt::format(",start=wave,k-phases={}", phases),
              std::string(",order=own-first,swizzle=1"), std::string(",sync=counter,reuse=ack")}) {
          schedules.push_back(
              fmt::format("tiles,tile={},comm-sms=2,cluster=2{}", shape.tile, change));
        }
        return schedules;
      });
}

}  // namespace
}  // namespace stretto::emu
