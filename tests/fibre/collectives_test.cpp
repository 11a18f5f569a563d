// Meetings and collectives of all ranks: by threads, warps and blocks, and by ranks that disagree.
#include <gmock/gmock.h>

#include "fibre/expect_clean.h"
#include "stretto/device/lang/shmem.h"

namespace stretto::fibre {
namespace {

using device::Shmem;

TEST(Collectives, AgreeOnAllRanks) {
  expect_clean({.ranks = 4, .blocks = 2, .threads = 4}, [](World& world) {
    const size_t ranks = 4;
    auto own = world.local<uint32>("own", 2);
    auto all = world.symmetric<uint32>("all", 4 * ranks);
    auto root = world.symmetric<uint32>("root", 2);
    for (int r = 0; r < 4; ++r) {
      for (size_t b = 0; b < 2; ++b) own.set(r, b, uint32(10 * r) + uint32(b));
    }
    world.launch([=](Block& block) {
      Shmem shmem(block);
      const int me = shmem.my_pe();
      const int b = block.block_idx();
      if (!shmem.fcollect_block(all.at(me) + b * 4, own.at(me) + b, 1)) return;
      shmem.broadcastmem_block(root.at(me) + b, own.at(me) + b, 4, 2);
    });
    if (!world.run()) return;
    for (int r = 0; r < 4; ++r) {
      for (size_t b = 0; b < 2; ++b) {
        for (size_t s = 0; s < ranks; ++s) {
          world.expect(all.get(r, b * 4 + s) == uint32(10 * s + b), "fcollect is wrong");
        }
        world.expect(root.get(r, b) == uint32(20 + b), "broadcast is wrong");
      }
    }
  });
}

// Threads and warps of a block take turns; the others do not take part.
TEST(Collectives, ThreadsAndWarpsMeetThoseOfOtherRanks) {
  expect_clean({.ranks = 3, .blocks = 2, .threads = 8, .warp_size = 4}, [](World& world) {
    auto own = world.local<uint64>("own", 2);
    auto root = world.symmetric<uint64>("root", 4, 0);
    auto all = world.symmetric<uint64>("all", 12, 0);
    for (int r = 0; r < 3; ++r) {
      for (size_t b = 0; b < 2; ++b) own.set(r, b, uint64(10 * r) + b);
    }
    world.launch([=, &world](Block& block) {
      Shmem shmem(block);
      const int me = shmem.my_pe();
      const int b = block.block_idx();
      const int thread = block.thread_idx();
      const Team last_two{1, 1, 2};
      if (thread == 5) {
        if (!shmem.sync_all() || !shmem.barrier_all()) return;
        if (me > 0 && !(shmem.team_sync(last_two) && shmem.barrier(last_two))) return;
        if (!shmem.broadcastmem(root.at(me) + b, own.at(me) + b, 8, 1)) return;
        const uint64 seen = root.at(me)[b];
        world.expect(seen == uint64(10 + b), "a thread's broadcast is wrong");
        if (!shmem.fcollect(all.at(me) + b * 3, own.at(me) + b, 1)) return;
      }
      block.sync();
      if (thread >= 4) {
        if (!shmem.sync_all_warp() || !shmem.barrier_all_warp()) return;
        if (me > 0 && !(shmem.team_sync_warp(last_two) && shmem.barrier_warp(last_two))) return;
        if (!shmem.broadcastmem_warp(root.at(me) + 2 + b, own.at(me) + b, 8, 2)) return;
        const uint64 seen = root.at(me)[2 + b];
        world.expect(seen == uint64(20 + b), "a warp's broadcast is wrong");
        if (!shmem.fcollect_warp(all.at(me) + 6 + b * 3, own.at(me) + b, 1)) return;
      }
      block.sync();
      shmem.barrier_all_block();
    });
    if (!world.run()) return;
    for (int r = 0; r < 3; ++r) {
      for (size_t i = 0; i < 12; ++i) {
        world.expect(all.get(r, i) == 10 * (i % 3) + i / 3 % 2, "fcollect is wrong");
      }
    }
  });
}

TEST(Collectives, ThatRanksCallOtherwiseAreNamed) {
  const auto found =
      [](FindingKind kind,
         const std::function<void(Shmem<Block>&, Pointer<uint64>, Pointer<uint64>)>& kernel) {
        return expect_found(kind, {.ranks = 3, .threads = 2, .warp_size = 2},
                            [&](World& world) {
                              auto own = world.local<uint64>("own", 4, 7);
                              auto all = world.symmetric<uint64>("all", 16, 0);
                              world.launch([&, own, all](Block& block) {
                                Shmem shmem(block);
                                kernel(shmem, all.at(block.rank()), own.at(block.rank()));
                              });
                              world.run();
                            })
            .finding.message;
      };
  using testing::ContainsRegex;
  using testing::HasSubstr;
  const auto disagree = FindingKind::kDisagreement;
  EXPECT_THAT(found(disagree,
                    [](Shmem<Block>& shmem, auto all, auto own) {
                      shmem.broadcastmem_block(all, own, shmem.my_pe() == 1 ? 16 : 8, 0);
                    }),
              ContainsRegex("num_bytes = (16, rank [02] with 8|8, rank 1 with 16)"));
  EXPECT_THAT(found(disagree,
                    [](Shmem<Block>& shmem, auto all, auto own) {
                      shmem.broadcastmem_warp(all, own, 8, shmem.my_pe() == 1 ? 2 : 0);
                    }),
              ContainsRegex("pe_root = (2, rank [02] with 0|0, rank 1 with 2)"));
  EXPECT_THAT(
      found(disagree, [](Shmem<Block>& shmem, auto all,
                         auto own) { shmem.fcollect_block(all, own, shmem.my_pe() == 2 ? 3 : 2); }),
      ContainsRegex("num_bytes = (24, rank [01] with 16|16, rank 2 with 24)"));
  EXPECT_THAT(found(disagree,
                    [](Shmem<Block>& shmem, auto all, auto own) {
                      if (shmem.my_pe() == 0) {
                        shmem.barrier_all_block();
                      } else {
                        shmem.broadcastmem_block(all, own, 8, 1);
                      }
                    }),
              ContainsRegex("call = (barrier, rank [12] with broadcast|broadcast, rank 0 with "
                            "barrier)"));
  for (const int root : {-1, 3}) {
    EXPECT_THAT(
        found(FindingKind::kWrongRank,
              [&](Shmem<Block>& shmem, auto all, auto own) {
                shmem.broadcastmem_block(all, own, 8, root);
              }),
        HasSubstr("broadcasts from number " + std::to_string(root) + " of the team of ranks 0"));
  }
}

}  // namespace
}  // namespace stretto::fibre
