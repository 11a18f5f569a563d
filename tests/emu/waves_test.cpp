// Gathers whose lanes begin together.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gathers.h"

namespace stretto::emu {
namespace {

TEST(Waves, AreRightForEveryMoverAndShape) {
  // Tiles that straddle owners, ranks without rows; nothing that divides; many stripes a wave.
  expect_gathers_are_right(
      {{17, 24, 130, "16x16"}, {125, 40, 333, "16x32"}, {403, 10, 96, "16x16"}},
      [](const GatherShape& shape) {
        std::vector<std::string> schedules;
        for (const char* change :
             {"sync=flag,comm-sms=2", "sync=counter,comm-sms=2", "sync=flag,comm-sms=3,reuse=ack",
              "sync=counter,comm-sms=3,reuse=ack", "sync=counter,comm-sms=2,k-phases=2",
              "sync=counter,comm-sms=2,k-phases=2,own=gathered,order=interleaved,reuse=ack",
              "sync=flag,mover=copy-engine", "sync=counter,mover=copy-engine,order=own-first",
              "sync=counter,comm-sms=2,split-k=2"}) {
          schedules.push_back(fmt::format("tiles,tile={},start=wave,{}", shape.tile, change));
        }
        return schedules;
      });
}

}  // namespace
}  // namespace stretto::emu
