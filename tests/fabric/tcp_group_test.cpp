// Processes that meet over TCP: what they tell each other, and what they say of one that is late or
// gone.
#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "processes.h"
#include "stretto/error.h"
#include "tcp_processes.h"

namespace stretto::fabric {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

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

}  // namespace
}  // namespace stretto::fabric
