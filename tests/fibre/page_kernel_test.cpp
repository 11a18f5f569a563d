// The kernel that docs/device-language.md begins with, run by run under many schedules.
#include <gmock/gmock.h>

#include "core/file.h"
#include "fibre/expect_clean.h"
#include "stretto/device/lang/shmem.h"

namespace stretto::fibre {
namespace {

using device::Ptr;
using device::Shmem;

template <class Block>
struct PingArgs {
  Ptr<Block, const float> message;  // local memory
  Ptr<Block, float> inbox;          // symmetric memory
  Ptr<Block, uint64> arrived;       // symmetric: one signal
  uint64 epoch;
};

template <class Block>
STRETTO_KERNEL void ping(Block& block, const PingArgs<Block>& args) {
  Shmem shmem(block);
  const int next = (shmem.my_pe() + 1) % shmem.n_pes();
  shmem.putmem_signal_block(args.inbox, args.message, 64 * sizeof(float), args.arrived, 1,
                            SignalOp::kAdd, next);
  if (!shmem.signal_wait_until_block(args.arrived, Compare::kGe, args.epoch)) return;
  // args.inbox is readable by every thread of the block
}

TEST(PageKernel, Works) {
  expect_clean({.ranks = 3, .threads = 4}, [](World& world) {
    auto message = world.local<float>("message", 64);
    auto inbox = world.symmetric<float>("inbox", 64, 0.0f);
    auto arrived = world.symmetric<uint64>("arrived", 1, 0);
    for (int rank = 0; rank < 3; ++rank) {
      for (size_t i = 0; i < 64; ++i) message.set(rank, i, float(rank + 1));
    }
    world.launch([=](Block& block) {
      const int rank = block.rank();
      ping(block, PingArgs<Block>{message.at(rank), inbox.at(rank), arrived.at(rank), 1});
    });
    if (!world.run()) return;
    for (int rank = 0; rank < 3; ++rank) {
      world.expect(inbox.get(rank, 63) == float((rank + 2) % 3 + 1), "the message is wrong");
    }
  });
}

TEST(PageKernel, IsThePages) {
  const std::string page =
      read_file(STRETTO_TEST_DIR "/../../docs/device-language.md", size_t{1} << 20);
  const size_t begin = page.find("```cpp\n") + 7;
  const std::string kernel = page.substr(begin, page.find("```", begin) - begin);
  ASSERT_THAT(kernel, testing::HasSubstr("ping"));
  EXPECT_THAT(read_file(STRETTO_TEST_DIR "/page_kernel_test.cpp", size_t{1} << 20),
              testing::HasSubstr(kernel));
}

}  // namespace
}  // namespace stretto::fibre
