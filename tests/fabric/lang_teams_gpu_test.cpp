// Teams of the device language on GPUs: who meets, and who is named.
#include "lang_gpu_fixture.h"

namespace stretto::fabric {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

// What a round finds wrong is counted in `wrong`, by block.
STRETTO_ON_BOTH(
    kTeamArgs, struct TeamArgs {
      uint64* values;  // symmetric: a block
      uint64* all;     // symmetric: block x ranks
      uint64* wrong;   // local: a block
      int rounds;
      int mistake;
    };)
enum Mistake { kNone, kOtherTeams, kNoMember, kOtherRoot, kOtherBytes, kOtherCalls, kBadRoot };

constexpr const char* kTeamCode = R"(
template <class Block>
STRETTO_KERNEL void meet_in_turns(Block& block, const TeamArgs& args) {
  Shmem shmem(block);
  const int me = shmem.my_pe(), ranks = shmem.n_pes(), b = block.block_idx();
  Team reversed, every_other, alone;
  shmem.team_split_strided(team_world(), ranks - 1, -1, ranks, &reversed);
  shmem.team_split_strided(team_world(), me % 2, 2, (ranks + 1 - me % 2) / 2, &every_other);
  shmem.team_split_strided(team_world(), me, 0, 1, &alone);
  if (args.mistake == 1) {
    shmem.team_sync_block(me == 0 ? team_world() : reversed);
    return;
  }
  if (args.mistake == 2) {
    shmem.barrier_block(Team{0, 1, ranks - 1});
    return;
  }
  if (args.mistake >= 3) {
    const int root = args.mistake == 6 ? ranks : args.mistake == 3 && me == 0 ? 1 : 0;
    const uint64 bytes = args.mistake == 4 && me == 0 ? 16 : 8;
    if (args.mistake == 5 && me == 0) {
      shmem.barrier_all_block();
    } else {
      shmem.broadcastmem_block(args.all + b * ranks, args.values + b, bytes, root);
    }
    return;
  }
  for (int round = 1; round <= args.rounds; ++round) {
    Team team = team_world();
    if (round % 4 == 1) team = reversed;
    if (round % 4 == 2) team = every_other;
    if (round % 4 == 3) team = alone;
    if (block.thread_idx() == 0) args.values[b] = round;
    // All threads of the block meet, or a warp, or a thread, and then the others go on with it.
    bool met = true;
    if (round / 4 % 3 == 0) {
      met = round % 2 == 0 ? shmem.barrier_block(team) : shmem.team_sync_block(team);
    } else {
      block.sync();
      if (round / 4 % 3 == 1 && block.thread_idx() >= 32) {
        met = round % 2 == 0 ? shmem.barrier_warp(team) : shmem.team_sync_warp(team);
      }
      if (round / 4 % 3 == 2 && block.thread_idx() == 40) {
        met = round % 2 == 0 ? shmem.barrier(team) : shmem.team_sync(team);
      }
      met = !block.sync_or(!met);
    }
    if (!met) return;
    const int next = (shmem.team_my_pe(team) + 1) % shmem.team_n_pes(team);
    const int pe = shmem.team_translate_pe(team, next, team_world());
    if (block.thread_idx() == 1 && shmem.ptr(args.values, pe)[b] != round) args.wrong[b] += 1;
    if (!shmem.team_sync_block(team)) return;
  }
  uint64* const all = args.all + b * ranks;
  if (!shmem.fcollect_block(reversed, all, args.values + b, 1)) return;
  if (block.thread_idx() == 0) args.values[b] = 1000 + me;
  block.sync();
  if (!shmem.fcollect_block(reversed, all, args.values + b, 1)) return;
  for (int i = 0; i < ranks; ++i) {
    if (block.thread_idx() == 0 && all[i] != 1000 + ranks - 1 - i) args.wrong[b] += 1;
  }
  if (!shmem.barrier_all_block()) return;
  if (!shmem.broadcastmem_block(reversed, all, args.values + b, 8, 0)) return;
  if (block.thread_idx() == 0 && all[0] != 1000 + ranks - 1) args.wrong[b] += 1;
  if (!shmem.barrier_all_block()) return;
  if (block.thread_idx() / 32 == 1) {
    if (!shmem.broadcastmem_warp(reversed, all, args.values + b, 8, ranks - 1)) return;
    if (block.thread_idx() == 32 && all[0] != 1000) args.wrong[b] += 1;
    if (!shmem.barrier_all_warp()) return;
    if (!shmem.fcollect_warp(all, args.values + b, 1)) return;
    if (block.thread_idx() == 33 && all[ranks - 1] != 1000 + ranks - 1) args.wrong[b] += 1;
    if (!shmem.barrier_all_warp()) return;
  }
  block.sync();
  if (block.thread_idx() == 7) {
    if (!shmem.broadcastmem(all, args.values + b, 8, 1) || all[0] != 1001) args.wrong[b] += 1;
    if (!shmem.barrier_all()) return;
    if (!shmem.fcollect(reversed, all, args.values + b, 1) || all[0] != 1000 + ranks - 1) {
      args.wrong[b] += 1;
    }
  }
}
)";
std::string team_source() { return own_source(kTeamArgs, kTeamCode, "meet_in_turns", "TeamArgs"); }

TEST(TeamsGpuText, Compiles) { expect_compiles(team_source()); }

class TeamsGpuTest : public LangGpuTest {
 protected:
  void SetUp() override {
    LangGpuTest::SetUp();
    if (IsSkipped()) return;
    values_ = group_->allocate("values", kBlocks * 8, 0);
    all_ = group_->allocate("all", kBlocks * size_t(ranks_) * 8, 0);
    wrong_ = group_->allocate("wrong", kBlocks * 8, 0);
    kernels_ = compile_own(team_source());
  }
  std::string run(int rounds, int mistake) {
    for (int r = 0; r < ranks_; ++r) {
      launch(kernels_, r,
             TeamArgs{group_->at<uint64>(r, values_), group_->at<uint64>(r, all_),
                      group_->at<uint64>(r, wrong_), rounds, mistake});
    }
    return error_of_run();
  }
  uint64 wrong() { return sum_of_blocks(wrong_); }
  OwnKernels kernels_;
  size_t values_ = 0, all_ = 0, wrong_ = 0;
};

TEST_F(TeamsGpuTest, MeetInTurnsOverManyRounds) {
  for (int call = 0; call < 3; ++call) ASSERT_EQ(run(400, 0), "");
  EXPECT_EQ(wrong(), 0u);
}

TEST_F(TeamsGpuTest, MistakesAreNamedAndTheGroupGoesOn) {
  const std::string teams = run(1, kOtherTeams);
  EXPECT_THAT(teams, HasSubstr("different arguments: team is ranks "));
  EXPECT_THAT(teams, HasSubstr("rank 0"));
  EXPECT_EQ(run(8, kNone), "");
  EXPECT_THAT(run(1, kNoMember),
              HasSubstr(fmt::format("rank {} calls a collective of the team of rank", ranks_ - 1)));
  EXPECT_EQ(run(8, kNone), "");
  EXPECT_THAT(run(1, kOtherRoot), HasSubstr("different arguments: pe_root is "));
  EXPECT_EQ(run(8, kNone), "");
  EXPECT_THAT(run(1, kOtherBytes), HasSubstr("different arguments: num_bytes is "));
  EXPECT_EQ(run(8, kNone), "");
  EXPECT_THAT(run(1, kOtherCalls), AnyOf(HasSubstr("call is barrier on rank 0 and broadcast on"),
                                         HasSubstr("and barrier on rank 0")));
  EXPECT_EQ(run(8, kNone), "");
  EXPECT_THAT(run(1, kBadRoot), HasSubstr(fmt::format("broadcasts from number {} of the team of "
                                                      "ranks 0",
                                                      ranks_)));
  EXPECT_EQ(run(8, kNone), "");
  EXPECT_EQ(wrong(), 0u);
}

}  // namespace
}  // namespace stretto::fabric
