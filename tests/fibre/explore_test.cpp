// What a finding says, and how explore makes it small.
#include "stretto/fibre/explore.h"

#include <gmock/gmock.h>

#include "fibre/budget.h"
#include "fibre/expect_clean.h"
#include "fibre/fibre.h"
#include "stretto/device/lang/shmem.h"
#include "stretto/error.h"

namespace stretto::fibre {
namespace {

using device::Shmem;
using testing::HasSubstr;

// Every rank puts to the next and signals first.
void racy_ring(World& world) {
  auto source = world.local<float>("source", 4, 1.0f);
  auto inbox = world.symmetric<float>("inbox", 4, 0.0f);
  auto arrived = world.symmetric<uint64>("arrived", 1, 0);
  const int ranks = world.shape().ranks;
  world.launch([=](Block& block) {
    Shmem shmem(block);
    const int me = shmem.my_pe();
    if (block.thread_idx() != 0 || block.block_idx() != 0) return;
    shmem.signal_op(arrived.at(me), 1, SignalOp::kAdd, (me + 1) % ranks);
    shmem.putmem(inbox.at(me), source.at(me), 16, (me + 1) % ranks);  // the put
    if (!shmem.signal_wait_until(arrived.at(me), Compare::kGe, 1)) return;
    const float value = inbox.at(me)[2];  // the read
    source.at(me)[0] = value;
  });
  world.run();
}

TEST(Explore, NamesLineRankBlockAndBothAccesses) {
  const Failure failure = expect_found(FindingKind::kRace, {.ranks = 2, .threads = 1}, racy_ring);
  const Finding& finding = failure.finding;
  EXPECT_THAT(finding.message, HasSubstr("inbox[2]@"));
  EXPECT_THAT(finding.message, HasSubstr("explore_test.cpp:"));
  EXPECT_TRUE(finding.place.known());
  EXPECT_TRUE(finding.other.known());
  EXPECT_NE(finding.place.where.line, finding.other.where.line);
  EXPECT_NE(finding.place.rank, finding.other.rank);
}

// Whatever it throws; and no line is made up for what is no operation.
TEST(Explore, AKernelThatThrowsIsAFinding) {
  const Shape shape{.ranks = 2, .threads = 2};
  const Failure failure = expect_found(FindingKind::kMismatch, shape, [](World& world) {
    world.launch([](Block&) { throw std::runtime_error("its own reason"); });
    world.run();
  });
  EXPECT_THAT(failure.finding.message, HasSubstr("the kernel threw: its own reason\n"));
  EXPECT_THAT(failure.finding.message, HasSubstr("here:  rank "));
  const Failure other = expect_found(FindingKind::kMismatch, shape, [](World& world) {
    world.launch([](Block&) { throw 7; });
    world.run();
  });
  EXPECT_THAT(other.finding.message, HasSubstr("the kernel threw what is no std::exception"));
}

// One that forgets to run would else be clean.
TEST(Explore, RefusesAScenarioThatRunsNothing) {
  const Shape shape{.ranks = 2, .threads = 1};
  const auto why = [&](bool runs, bool launches_more) -> std::string {
    try {
      explore(shape, [=](World& world) {
        world.launch([](Block&) {});
        if (runs) world.run();
        if (launches_more) world.launch([](Block&) {});
      });
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(why(true, false), "");
  EXPECT_THAT(why(false, false), HasSubstr("never calls World::run()"));
  EXPECT_THAT(why(true, true), HasSubstr("behind its last World::run()"));
}

TEST(Explore, TheHostFindsWhatNobodyWrote) {
  const Shape shape{.ranks = 2, .threads = 1};
  const auto scenario = [](bool all) {
    return [=](World& world) {
      auto x = world.local<uint32>("x", 4);
      world.launch([=](Block& block) {
        for (int i = 0; i < (all ? 4 : 3); ++i) x.at(block.rank())[i] = 0u;
      });
      if (world.run()) (void)(x.get(1, 2) + x.get(1, 3));
    };
  };
  expect_clean(shape, scenario(true));
  const Failure failure = expect_found(FindingKind::kUnwritten, shape, scenario(false));
  EXPECT_THAT(failure.finding.message, HasSubstr("the host reads x[3]@1, which nobody wrote"));
}

// Such a thread is left where it is, and what comes after it works.
TEST(Explore, ALoopWithoutOperationsEnds) {
  const Shape shape{.ranks = 2, .threads = 2};
  const auto scenario = [](bool ends) {
    return [=](World& world) {
      world.end_silence_after(0.2);
      auto x = world.local<uint32>("x", 2, 0u);
      world.launch([=](Block& block) {
        const uint32 first = x.at(block.rank())[block.thread_idx()];  // the last operation
        volatile uint32 seen = first;
        while (seen == 0 && !ends) {
        }
        block.sync();
      });
      world.run();
    };
  };
  const Failure failure = expect_found(FindingKind::kSilence, shape, scenario(false));
  EXPECT_THAT(failure.finding.message, HasSubstr("for 0.2 s without an operation"));
  EXPECT_THAT(failure.finding.message,
              HasSubstr("its last one is here\n  here:  explore_test.cpp:"));
  expect_clean(shape, scenario(true));
}

// Threads that have not begun hold nothing, and would compute for ever as the first does.
TEST(Explore, ALoopFromTheBeginOnEndsForAllThreads) {
  const Failure failure =
      expect_found(FindingKind::kSilence, {.ranks = 2, .threads = 32}, [](World& world) {
        world.end_silence_after(0.2);
        world.launch([](Block&) {
          volatile uint32 seen = 0;
          while (seen == 0) {
          }
        });
        world.run();
      });
  EXPECT_THAT(failure.finding.message, HasSubstr("from its begin on"));
}

// A kernel whose variables need more ends there, and writes into no other thread's.
TEST(ExploreDeathTest, BelowAStackNobodyMayWrite) {
  auto stack = StackPool().allocate();
  volatile char* const lowest = static_cast<char*>(stack.sp) - stack.size;
  lowest[0] = 1;
  EXPECT_DEATH(lowest[-1] = 1, "");
  StackPool().deallocate(stack);
}

TEST(Explore, ShrinksShapeAndSchedule) {
  const Failure failure =
      expect_found(FindingKind::kRace, {.ranks = 6, .blocks = 4, .threads = 8}, racy_ring);
  EXPECT_EQ(failure.shape.ranks, 2);
  EXPECT_EQ(failure.shape.blocks, 1);
  EXPECT_EQ(failure.shape.threads, 1);
  EXPECT_LE(failure.decisions.size(), 2u);
}

TEST(Explore, AShrunkFailureReplays) {
  const Failure failure =
      expect_found(FindingKind::kRace, {.ranks = 4, .blocks = 2, .threads = 4}, racy_ring);
  World world(failure.shape, Schedule::replay(failure.decisions));
  racy_ring(world);
  ASSERT_TRUE(world.finding());
  EXPECT_EQ(world.finding()->kind, failure.finding.kind);
}

TEST(Explore, ASeedDecidesTheWholeRun) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    std::string messages[2];
    size_t decisions[2];
    for (int i = 0; i < 2; ++i) {
      World world({.ranks = 3, .blocks = 2, .threads = 4}, Schedule::from_seed(seed));
      racy_ring(world);
      messages[i] = world.finding() ? world.finding()->message : "none";
      decisions[i] = world.decisions().size();
    }
    EXPECT_EQ(messages[0], messages[1]);
    EXPECT_EQ(decisions[0], decisions[1]);
  }
}

TEST(Explore, ADeadlockNamesWhoWaitsForWhat) {
  const Failure failure =
      expect_found(FindingKind::kDeadlock, {.ranks = 2, .threads = 2}, [](World& world) {
        auto go = world.symmetric<uint64>("go", 1, 0);
        world.launch([=](Block& block) {
          Shmem shmem(block);
          const int me = shmem.my_pe();
          if (block.thread_idx() == 0) {
            if (me == 0) shmem.signal_op(go.at(me), 1, SignalOp::kAdd, 1);
            if (!shmem.signal_wait_until(go.at(me), Compare::kGe, 2)) return;
          }
          block.sync();
        });
        world.run();
      });
  const std::string& message = failure.finding.message;
  EXPECT_THAT(message, HasSubstr("go[0]@1 >= 2; it is 1; last raised by explore_test.cpp"));
  EXPECT_THAT(message, HasSubstr("go[0]@0 >= 2; it is 0; nobody has raised it"));
}

TEST(Explore, APollThatNeverEndsIsALivelock) {
  World world({.ranks = 2, .threads = 1}, Schedule::from_seed(0));
  auto go = world.symmetric<uint64>("go", 1, 0);
  world.launch([=](Block& block) {
    Shmem shmem(block);
    while (shmem.signal_fetch(go.at(block.rank())) == 0) {
    }
  });
  EXPECT_FALSE(world.run());
  EXPECT_EQ(world.finding()->kind, FindingKind::kLivelock);
}

TEST(Explore, ALargeShapeMayTakeMoreOperations) {
  const auto many = [](World& world) {
    auto values = world.local<uint32_t>("values", 1024, 7u);
    world.launch([=](Block& block) {
      for (int i = 0; i < 700; ++i) {
        if (values.at(block.rank())[block.thread_idx()] != 7u) return;
      }
    });
    world.run();
    EXPECT_GT(world.num_steps(), 2'000'000u);
  };
  EXPECT_FALSE(explore({.ranks = 3, .threads = 1024}, many, {.num_seeds = 1}).failure);
}

TEST(World, RefusesShapesThatCannotBe) {
  EXPECT_THROW(World({.ranks = 0}, Schedule::from_seed(0)), UsageError);
  EXPECT_THROW(World({.ranks = 2, .threads = 6, .warp_size = 4}, Schedule::from_seed(0)),
               UsageError);
  EXPECT_THROW(World({.ranks = 2, .threads = 5000}, Schedule::from_seed(0)), UsageError);
  World world({.ranks = 2}, Schedule::from_seed(0));
  EXPECT_THROW(world.local<float>("huge", size_t(1) << 60), UsageError);
  EXPECT_THROW(world.launch_on(2, 0, 1, 1, [](Block&) {}), UsageError);
  EXPECT_THROW(world.make_absent(2), UsageError);
}

TEST(World, RefusesTheHostWhatNoRankHas) {
  World world({.ranks = 2}, Schedule::from_seed(0));
  auto x = world.local<float>("x", 4, 1.0f);
  EXPECT_EQ(x.get(1, 3), 1.0f);
  EXPECT_THROW(x.get(2, 0), UsageError);
  EXPECT_THROW(x.get(-1, 0), UsageError);
  EXPECT_THROW(x.set(2, 0, 1.0f), UsageError);
  EXPECT_THROW(x.get(0, 4), UsageError);
}

// For one test; no world lives longer.
class TightBudget : public testing::Test {
 protected:
  TightBudget() : before_(budget()) {}
  ~TightBudget() override {
    EXPECT_EQ(budget().used_bytes, before_.used_bytes) << "all is counted back";
    budget() = before_;
  }

 private:
  Budget before_;
};

std::string refusal_of(const Shape& shape, const Scenario& scenario) {
  try {
    explore(shape, scenario, {.num_seeds = 1});
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

void barriers(World& world) {
  world.launch([](Block& block) {
    block.sync();
    block.sync();
  });
  world.run();
}

TEST_F(TightBudget, RefusesAShapeThatDoesNotFit) {
  budget().most_bytes = 1 << 20;
  EXPECT_EQ(refusal_of({.ranks = 2, .blocks = 2, .threads = 4}, barriers), "");
  EXPECT_THAT(refusal_of({.ranks = 8, .blocks = 32, .threads = 16}, barriers),
              HasSubstr("8 ranks x 32 blocks x 16 threads here takes more than 1 MiB; take fewer"));
}

TEST_F(TightBudget, RefusesMemoryThatDoesNotFit) {
  budget().most_bytes = 1 << 20;
  EXPECT_THAT(refusal_of({}, [](World& world) { world.local<char>("bytes", 1 << 20); }),
              HasSubstr("takes more than 1 MiB"));
}

// A clock of its own would take each of these threads 16 KiB, 64 MiB in all.
TEST_F(TightBudget, ClocksShareWhatIsAlike) {
  budget().most_bytes = 24 << 20;
  EXPECT_EQ(refusal_of({.ranks = 4, .blocks = 16, .threads = 64}, barriers), "");
}

TEST(World, RefusesLaunchesOfTooManyThreads) {
  EXPECT_THAT(
      refusal_of({.ranks = 64}, [](World& world) { world.launch(63, 1024, [](Block&) {}); }),
      HasSubstr("64 ranks x 63 blocks x 1024 threads: the emulator takes 32768"));
}

}  // namespace
}  // namespace stretto::fibre
