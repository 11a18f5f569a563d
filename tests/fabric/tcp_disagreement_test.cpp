// Processes that meet over TCP and do not fit together: other steps, other arguments, other jobs.
#include <gmock/gmock.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "processes.h"
#include "stretto/error.h"
#include "tcp_processes.h"

namespace stretto::fabric {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(TcpGroupTest, RanksAtDifferentStepsAreNamed) {
  const auto texts = on_processes(2, [&](int rank) {
    const auto group = join(rank, 2);
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    group->barrier(rank == 0 ? "a barrier" : "a region");
    return std::string("met");
  });
  EXPECT_THAT(texts, Each("ranks are at different steps: rank 0 at a barrier, rank 1 at a region"));
}

TEST_F(TcpGroupTest, ArgumentsThatDifferAreNamed) {
  const auto texts = on_processes(3, [&](int rank) {
    const auto group = join(rank, 3);
    group->require_same("the plan", rank == 2 ? "m=4096" : "m=8192");
    return std::string("same");
  });
  EXPECT_THAT(texts, Each("ranks disagree on the plan: rank 0 has m=8192, rank 2 has m=4096"));
}

TEST_F(TcpGroupTest, AStepThatFailsOnOneFailsOnAll) {
  const auto texts = on_processes(3, [&](int rank) {
    const auto group = join(rank, 3);
    group->together("allocating", [&] {
      if (rank == 1) throw SystemError("out of GPU memory");
    });
    return std::string("done");
  });
  EXPECT_EQ(texts[0], "rank 1: out of GPU memory");
  EXPECT_EQ(texts[1], "out of GPU memory");
  EXPECT_EQ(texts[2], "rank 1: out of GPU memory");
}

// A process that caught a refusal and went on would meet nobody where the others ended.
TEST_F(TcpGroupTest, AStepIsRefusedOnAllOrFailsOnAll) {
  for (const bool also_fails : {false, true}) {
    const auto texts = on_processes(3, [&](int rank) {
      const auto group = join(rank, 3);
      try {
        group->together("a step", [&] {
          if (rank == 1) throw UsageError("a at 0x8");
          if (rank == 2 && also_fails) throw SystemError("out of GPU memory");
        });
      } catch (const UsageError& error) {
        group->barrier("the next step");
        return std::string("refused: ") + error.what();
      } catch (const SystemError& error) {
        group->barrier("the end");
        return std::string("failed: ") + error.what();
      }
      return std::string("done");
    });
    if (also_fails) {
      EXPECT_THAT(texts,
                  ElementsAre("failed: rank 2: out of GPU memory",
                              "failed: rank 2: out of GPU memory", "failed: out of GPU memory"));
    } else {
      EXPECT_THAT(texts, ElementsAre("refused: rank 1: a at 0x8", "refused: a at 0x8",
                                     "refused: rank 1: a at 0x8"));
    }
  }
}

TEST_F(TcpGroupTest, AnotherSecretIsRefused) {
  join_timeout_s_ = 3;
  const auto texts = on_processes(2, [&](int rank) {
    if (rank == 1) secret_[0] = secret_[0] == 'a' ? 'b' : 'a';
    join(rank, 2);
    return std::string("joined");
  });
  EXPECT_EQ(texts[1], "cannot join the job at " + to_string(address_) + ": wrong job secret");
  EXPECT_EQ(texts[0], "rank 1 did not join the job within 3 s; 1 connections had a wrong secret");
}

TEST_F(TcpGroupTest, AnotherWorldSizeIsRefusedByAll) {
  const auto texts = on_processes(2, [&](int rank) {
    join(rank, rank == 0 ? 2 : 4);
    return std::string("joined");
  });
  EXPECT_THAT(texts, Each(HasSubstr("ranks disagree on the job's size: rank 0 counts 2 ranks, "
                                    "rank 1 counts 4")));
}

TEST_F(TcpGroupTest, TwoProcessesOfOneRankAreRefused) {
  // The two that join stay until the third was refused, however late it comes.
  std::array<int, 2> refusals{};
  ASSERT_EQ(pipe(refusals.data()), 0);
  const auto texts = on_processes(3, [&](int rank) {
    try {
      const auto group = join(rank == 2 ? 1 : rank, 2);
      char one = 0;
      return std::string(read(refusals[0], &one, 1) == 1 ? "joined" : "nobody refused");
    } catch (const SystemError&) {
      if (write(refusals[1], "xx", 2) != 2) return std::string("cannot tell the others");
      throw;
    }
  });
  for (const int end : refusals) close(end);
  EXPECT_EQ(texts[0], "joined");
  const std::string& refused = texts[1] == "joined" ? texts[2] : texts[1];
  EXPECT_THAT(refused, HasSubstr("two processes say that they are rank 1"));
}

TEST_F(TcpGroupTest, APortInUseIsNamed) {
  const Socket taken = listen_at(address_);
  try {
    const TcpServer server(address_, 2, secret_);
    FAIL() << "two listen at one port";
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("cannot listen at " + to_string(address_)), HasSubstr("in use")));
  }
}

}  // namespace
}  // namespace stretto::fabric
