// Processes that meet over TCP: what they tell each other, and what they say when one fails them.
#include "fabric/tcp_group.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <thread>

#include "fabric/meeting_file.h"
#include "processes.h"
#include "stretto/error.h"

namespace stretto::fabric {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A port that is free now; rank 0 opens it in its own process.
int free_port() { return port_of(listen_at({"127.0.0.1", 0})); }

class TcpGroupTest : public ::testing::Test {
 protected:
  std::unique_ptr<HostGroup> join(int rank, int size) const {
    Member member{rank, size, secret_, join_timeout_s_, timeout_s_};
    std::unique_ptr<TcpServer> server;
    if (rank == 0) server = std::make_unique<TcpServer>(address_, size, secret_);
    return tcp_group(member, address_, {}, std::move(server));
  }

  std::string secret_ = new_secret();
  Address address_{"127.0.0.1", free_port()};
  double join_timeout_s_ = 10, timeout_s_ = 10;
};

TEST_F(TcpGroupTest, EveryProcessGetsEverybodysBytes) {
  const auto texts = on_processes(5, [&](int rank) {
    const auto group = join(rank, 5);
    std::string text;
    for (int round = 0; round < 100; ++round) {
      for (const auto& part : group->all_gather("counting", std::to_string(rank * round))) {
        text += part + " ";
      }
    }
    return text;
  });
  std::string expected;
  for (int round = 0; round < 100; ++round) {
    for (int rank = 0; rank < 5; ++rank) expected += std::to_string(rank * round) + " ";
  }
  EXPECT_THAT(texts, Each(expected));
}

TEST_F(TcpGroupTest, LargeMessagesPass) {
  const auto texts = on_processes(3, [&](int rank) {
    const auto group = join(rank, 3);
    const std::string mine(kMaxMessageBytes, static_cast<char>('a' + rank));
    const auto all = group->all_gather("a large message", mine);
    return all[2] == std::string(kMaxMessageBytes, 'c') ? "good" : "bad";
  });
  EXPECT_THAT(texts, Each("good"));
}

TEST_F(TcpGroupTest, ARankThatNeverJoinsIsNamed) {
  join_timeout_s_ = 2;
  const auto texts = on_processes(4, [&](int rank) {
    if (rank == 2) return std::string("away");
    join(rank, 4);
    return std::string("joined");
  });
  for (const int rank : {0, 1, 3}) {
    EXPECT_EQ(texts[static_cast<size_t>(rank)], "rank 2 did not join the job within 2 s");
  }
}

TEST_F(TcpGroupTest, WithoutRankZeroTheAddressIsNamed) {
  join_timeout_s_ = 0.3;
  const auto texts = on_processes(2, [&](int rank) {
    if (rank != 0) join(rank, 2);
    return std::string();
  });
  EXPECT_EQ(texts[1], "rank 0 did not open " + to_string(address_) + " within 0.3 s");
}

TEST_F(TcpGroupTest, ALateRankIsNamedAndTheGroupGoesOn) {
  timeout_s_ = 1;
  const auto texts = on_processes(3, [&](int rank) {
    const auto group = join(rank, 3);
    std::string text;
    try {
      if (rank == 1) std::this_thread::sleep_for(std::chrono::seconds(3));
      group->barrier("the end of a run");
    } catch (const SystemError& error) {
      text = error.what();
    }
    // The others wait for the late one here, longer than it is late.
    for (int tries = 0; tries < 10; ++tries) {
      try {
        const bool was_late = group->has_failed();
        const std::string then = group->all_gather("another", std::to_string(rank))[1];
        return was_late && !group->has_failed() ? text + "; then " + then : "not told";
      } catch (const SystemError&) {
      }
    }
    return std::string("never met again");
  });
  EXPECT_THAT(texts, Each("rank 1 did not come to the end of a run within 1 s; then 1"));
}

// Whoever knows that something has failed may wait for a shorter time, for all, in any order.
TEST_F(TcpGroupTest, TheLeastPatienceOfARoundHolds) {
  timeout_s_ = 20;
  for (const int impatient : {0, 1}) {
    const auto texts = on_processes(3, [&](int rank) {
      const auto group = join(rank, 3);
      if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
      if (rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(1200));
      std::string text;
      try {
        group->all_gather("the end of a run", "", rank == impatient ? 0.3 : 0);
      } catch (const SystemError& error) {
        text = error.what();
      }
      return text + "; then " + group->all_gather("another", std::to_string(rank))[1];
    });
    EXPECT_THAT(texts, Each("rank 2 did not come to the end of a run within 0.3 s; then 1"));
  }
}

TEST_F(TcpGroupTest, PatienceIsNeverLongerThanTheJobs) {
  timeout_s_ = 0.5;
  const auto texts = on_processes(2, [&](int rank) {
    const auto group = join(rank, 2);
    if (rank == 1) std::this_thread::sleep_for(std::chrono::seconds(2));
    group->all_gather("the end of a run", "", 60);
    return std::string("met");
  });
  EXPECT_THAT(texts, Each("rank 1 did not come to the end of a run within 0.5 s"));
}

TEST_F(TcpGroupTest, AProcessThatDiesIsNamedAtOnce) {
  timeout_s_ = 20;
  const auto texts = on_processes(
      3,
      [&](int rank) {
        const auto group = join(rank, 3);
        EXPECT_FALSE(group->has_failed());
        if (rank == 1) kill(getpid(), SIGKILL);
        try {
          group->barrier("a run");
        } catch (const SystemError& error) {
          return error.what() + std::string(group->has_failed() ? "; not met" : "; met");
        }
        return std::string("met");
      },
      10);
  EXPECT_EQ(texts[1], "signal 9");
  for (const size_t rank : {0u, 2u}) {
    EXPECT_THAT(texts[rank], AllOf(HasSubstr("the process of rank 1 (pid "),
                                   HasSubstr(") ended before a run; not met")));
  }
}

TEST_F(TcpGroupTest, WhenRankZeroDiesTheOthersSaySo) {
  const auto texts = on_processes(
      3,
      [&](int rank) {
        const auto group = join(rank, 3);
        if (rank == 0) kill(getpid(), SIGKILL);
        group->barrier("a run");
        return std::string("met");
      },
      10);
  EXPECT_THAT(texts[1], HasSubstr("rank 0's process at 127.0.0.1:"));
  EXPECT_THAT(texts[2], HasSubstr("ended or does not answer"));
}

TEST_F(TcpGroupTest, ARankThatHasLeftIsNamed) {
  const auto texts = on_processes(2, [&](int rank) {
    const auto group = join(rank, 2);
    if (rank == 0) group->barrier("a run");
    return std::string("left");
  });
  EXPECT_EQ(texts[0], "rank 1 has left the job before a run");
}

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
