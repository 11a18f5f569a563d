// Teams: how their ranks are numbered, that they meet and no others, and what is named.
#include "stretto/device/lang/team.h"

#include <gmock/gmock.h>

#include "core/ranks_text.h"
#include "fibre/expect_clean.h"
#include "stretto/device/lang/shmem.h"

namespace stretto::fibre {
namespace {

using device::Shmem;
using device::team_invalid;
using device::team_world;
using testing::HasSubstr;

bool same(const Team& a, const Team& b) {
  return a.start == b.start && a.stride == b.stride && a.size == b.size;
}

// Each of six ranks runs it in a kernel.
void on_each_rank(const std::function<void(World&, Shmem<Block>&)>& check) {
  expect_clean(
      {.ranks = 6, .threads = 1},
      [&](World& world) {
        world.launch([&](Block& block) {
          Shmem shmem(block);
          check(world, shmem);
        });
        world.run();
      },
      1);
}

TEST(Team, NumbersItsRanksAndTranslates) {
  on_each_rank([](World& world, Shmem<Block>& shmem) {
    const int me = shmem.my_pe();
    world.expect(shmem.team_my_pe(team_world()) == me && shmem.team_n_pes(team_world()) == 6,
                 "world");
    Team odd{}, last{}, back{};
    world.expect(shmem.team_split_strided(team_world(), 1, 2, 3, &odd) == 0,
                 "odd ranks are a team");
    world.expect(shmem.team_my_pe(odd) == (me % 2 == 1 ? me / 2 : -1), "number among odd ranks");
    world.expect(shmem.team_n_pes(odd) == (me % 2 == 1 ? 3 : -1), "size, where it is a member");
    shmem.team_split_strided(team_world(), 5, -1, 6, &back);
    world.expect(shmem.team_my_pe(back) == 5 - me, "backwards");
    if (me % 2 == 0) return;
    world.expect(shmem.team_split_strided(odd, 1, 1, 2, &last) == 0, "a team of a team");
    world.expect(shmem.team_my_pe(last) == me / 2 - 1 || me == 1, "3 and 5 are 0 and 1");
    world.expect(me != 1 || same(last, team_invalid()), "1 is not of it");
    world.expect(shmem.team_translate_pe(odd, 2, team_world()) == 5, "to the world");
    world.expect(shmem.team_translate_pe(team_world(), 3, odd) == 1, "from the world");
    world.expect(shmem.team_translate_pe(team_world(), 2, odd) == -1, "2 is not odd");
    world.expect(shmem.team_translate_pe(odd, 3, team_world()) == -1, "there are three");
    world.expect(shmem.team_translate_pe(team_invalid(), 0, odd) == -1, "of no team");
    world.expect(me == 1 || shmem.team_translate_pe(odd, 2, last) == 1, "between two teams");
  });
}

TEST(Team, IsNotMadeOfRanksThatAreNotThere) {
  on_each_rank([](World& world, Shmem<Block>& shmem) {
    struct Wrong {
      int start, stride, size;
    };
    for (const Wrong& wrong : {Wrong{0, 1, 0}, Wrong{0, 1, 7}, Wrong{0, 2, 4}, Wrong{6, 1, 1},
                               Wrong{-1, 1, 2}, Wrong{0, 0, 2}, Wrong{1, -1, 3}}) {
      Team team{0, 1, 2};
      const int code =
          shmem.team_split_strided(team_world(), wrong.start, wrong.stride, wrong.size, &team);
      world.expect(code != 0 && same(team, team_invalid()), "a team that cannot be was made");
    }
    Team of_none{};
    world.expect(shmem.team_split_strided(team_invalid(), 0, 1, 1, &of_none) != 0, "of no team");
    Team one{};
    world.expect(shmem.team_split_strided(team_world(), 2, 0, 1, &one) == 0, "a team of one");
  });
}

TEST(Team, MarksAreTheTeam) {
  for (const Team& team : {Team{0, 1, 64}, Team{63, -63, 2}, Team{0, 63, 2}, Team{5, 0, 1}}) {
    EXPECT_TRUE(same(device::team_of_mark(device::mark_of(team)), team));
    EXPECT_LT(device::mark_of(team), uint64{1} << device::kTeamBits);
    for (const auto what : {device::Meet::kSync, device::Meet::kFcollect}) {
      const uint64 mark = device::mark_of(team, what);
      EXPECT_TRUE(same(device::team_of_mark(mark), team));
      EXPECT_EQ(device::meet_of_mark(mark), what);
      EXPECT_LT(mark, uint64{1} << device::kMarkBits);
    }
  }
  EXPECT_TRUE(same(device::team_of_mark(device::mark_of(Team{5, 100, 1})), Team{5, 0, 1}));
  EXPECT_EQ(ranks_text(1, 2, 3), "ranks 1, 3, 5");
  EXPECT_EQ(ranks_text(2, 1, 4), "ranks 2 to 5");
  EXPECT_EQ(ranks_text(3, 0, 1), "rank 3");
  EXPECT_EQ(ranks_text(0, 0, 0), "no ranks");
}

// Rows and columns of 2 x 3 ranks, the world and a team of one, several times in a row: every rank
// reads what the others of a team wrote before they met.
TEST(Team, OverlappingTeamsMeetInTurns) {
  expect_clean({.ranks = 6, .blocks = 2, .threads = 4}, [](World& world) {
    auto value = world.symmetric<uint64>("value", 2, 0);
    world.launch([=, &world](Block& block) {
      Shmem shmem(block);
      const int me = shmem.my_pe();
      const int b = block.block_idx();
      Team row{}, column{}, alone{};
      shmem.team_split_strided(team_world(), me / 3 * 3, 1, 3, &row);
      shmem.team_split_strided(team_world(), me % 3, 3, 2, &column);
      shmem.team_split_strided(team_world(), me, 0, 1, &alone);
      const Team same_row = row;
      uint64 round = 0;
      for (const Team& team : {row, column, alone, same_row, team_world(), column, row}) {
        ++round;
        if (block.thread_idx() == 0) value.at(me)[b] = round;
        const bool barrier = round % 2 == 0;
        if (!(barrier ? shmem.barrier_block(team) : shmem.team_sync_block(team))) return;
        const int next = (shmem.team_my_pe(team) + 1) % shmem.team_n_pes(team);
        const int pe = shmem.team_translate_pe(team, next, team_world());
        const uint64 seen = shmem.ptr(value.at(me), pe)[b];
        world.expect(seen == round, "a rank of the team is not in this round");
        if (!shmem.team_sync_block(team)) return;
      }
    });
    world.run();
  });
}

TEST(Team, CollectivesReachItsRanksOnly) {
  expect_clean({.ranks = 5, .threads = 4}, [](World& world) {
    auto own = world.local<uint64>("own", 2);
    auto all = world.symmetric<uint64>("all", 6, 0);
    auto root = world.symmetric<uint64>("root", 1, 0);
    for (int r = 0; r < 5; ++r) {
      for (size_t i = 0; i < 2; ++i) own.set(r, i, 10 * uint64(r) + i);
    }
    world.launch([=](Block& block) {
      Shmem shmem(block);
      const int me = shmem.my_pe();
      Team even{}, odd{};
      shmem.team_split_strided(team_world(), 4, -2, 3, &even);
      shmem.team_split_strided(team_world(), 1, 2, 2, &odd);
      const Team& team = me % 2 == 0 ? even : odd;
      if (!shmem.fcollect_block(team, all.at(me), own.at(me), 2)) return;
      shmem.broadcastmem_block(team, root.at(me), own.at(me), 8, 1);
    });
    if (!world.run()) return;
    for (int r = 0; r < 5; ++r) {
      const std::vector<uint64> from =
          r % 2 == 0 ? std::vector<uint64>{4, 2, 0} : std::vector<uint64>{1, 3};
      for (size_t i = 0; i < 6; ++i) {
        const uint64 want = i / 2 < from.size() ? 10 * from[i / 2] + i % 2 : 0;
        world.expect(all.get(r, i) == want, "fcollect is wrong");
      }
      world.expect(root.get(r, 0) == 10 * from[1], "broadcast is wrong");
    }
  });
}

TEST(Team, AcrossNodesToo) {
  expect_clean({.ranks = 4, .threads = 2, .warp_size = 2, .ranks_per_node = 2}, [](World& world) {
    auto own = world.local<uint64>("own", 1);
    auto all = world.symmetric<uint64>("all", 2, 0);
    for (int r = 0; r < 4; ++r) own.set(r, 0, uint64(r));
    world.launch([=](Block& block) {
      Shmem shmem(block);
      const int me = shmem.my_pe();
      Team rail{};
      shmem.team_split_strided(team_world(), me % 2, 2, 2, &rail);
      shmem.fcollect_block(rail, all.at(me), own.at(me), 1);
    });
    if (!world.run()) return;
    for (int r = 0; r < 4; ++r) {
      world.expect(all.get(r, 0) == uint64(r % 2) && all.get(r, 1) == uint64(r % 2 + 2), "wrong");
    }
  });
}

TEST(Team, FindingsNameItsRanks) {
  const Failure outsider =
      expect_found(FindingKind::kWrongRank, {.ranks = 3, .threads = 1}, [](World& world) {
        world.launch([](Block& block) { Shmem(block).team_sync_block(Team{0, 2, 2}); });
        world.run();
      });
  EXPECT_THAT(outsider.finding.message,
              HasSubstr("rank 1 calls a collective of the team of ranks 0, 2, which it is not of"));

  const auto found = [](FindingKind kind, const std::function<void(Shmem<Block>&)>& kernel) {
    const Shape shape{.ranks = 3, .threads = 1};
    return explore(shape,
                   [&](World& world) {
                     world.launch([&](Block& block) {
                       Shmem shmem(block);
                       kernel(shmem);
                     });
                     world.run();
                     world.expect(!world.finding() || world.finding()->kind == kind,
                                  "another finding");
                   },
                   {.shrink = false})
        .failure->finding.message;
  };
  EXPECT_THAT(found(FindingKind::kDeadlock,
                    [](Shmem<Block>& shmem) {
                      if (shmem.my_pe() == 0) shmem.team_sync_block(Team{0, 2, 2});
                    }),
              HasSubstr("waits for rank 2 in meeting 1 with it, of the team of ranks 0, 2"));
  EXPECT_THAT(found(FindingKind::kDisagreement,
                    [](Shmem<Block>& shmem) {
                      if (shmem.my_pe() != 2) {
                        shmem.team_sync_block(Team{0, 1, shmem.my_pe() == 0 ? 2 : 3});
                      }
                    }),
              testing::AnyOf(HasSubstr("rank 0 calls with team = ranks 0, 1, rank 1 with ranks 0 "
                                       "to 2"),
                             HasSubstr("rank 1 calls with team = ranks 0 to 2, rank 0 with ranks "
                                       "0, 1")));
}

TEST(Team, MeetingsExpireWhenARankIsAbsent) {
  uint64_t expired = 0;
  expect_clean({.ranks = 3, .threads = 4}, [&](World& world) {
    world.make_absent(2);
    world.launch([](Block& block) {
      Shmem shmem(block);
      if (!shmem.team_sync_block(Team{0, 1, 2})) return;
      shmem.barrier_block(team_world());
    });
    world.run();
    expired += world.num_expired();
  });
  EXPECT_GT(expired, 0u);
}

}  // namespace
}  // namespace stretto::fibre
