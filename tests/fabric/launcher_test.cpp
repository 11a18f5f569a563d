// Jobs of real processes: what each is told, and how the job ends.
#include "fabric/launcher.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include "processes.h"
#include "stretto/error.h"

namespace stretto::fabric {
namespace {

class LauncherTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/stretto-launch-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  int launch_shell(int ranks, const std::string& script) const {
    return launch(ranks, {"/bin/sh", "-c", "cd " + folder_ + "; " + script});
  }
  // In a process of its own, which may be stopped. Ranks say who they are.
  std::string as_launcher(const std::string& script) const {
    setpgid(0, 0);
    std::ofstream(folder_ + "/launcher") << getpid() << "\n";
    return std::to_string(launch_shell(2, "echo $$ > pid$STRETTO_RANK; " + script));
  }
  // Once its ranks run.
  pid_t launcher_of_two() const {
    while (pid_in("pid0") == 0 || pid_in("pid1") == 0) usleep(10000);
    usleep(100000);
    return pid_in("launcher");
  }
  pid_t pid_in(const std::string& name) const {
    pid_t pid = 0;
    std::ifstream(folder_ + "/" + name) >> pid;
    return pid;
  }
  // 'T': stopped; 0: there is no such process.
  static char state_of(pid_t pid) {
    std::ifstream file(fmt::format("/proc/{}/stat", pid));
    std::string number, name;
    char state = 0;
    file >> number >> name >> state;
    return state;
  }
  std::string folder_;
};

TEST_F(LauncherTest, EveryProcessIsToldItsRank) {
  EXPECT_EQ(launch_shell(3, "echo $STRETTO_LOCAL_RANK $STRETTO_RANKS $STRETTO_JOB > $STRETTO_RANK"),
            0);
  std::set<std::string> jobs;
  for (int rank = 0; rank < 3; ++rank) {
    std::ifstream file(folder_ + "/" + std::to_string(rank));
    int local = -1, ranks = -1;
    std::string job;
    file >> local >> ranks >> job;
    EXPECT_EQ(local, rank);
    EXPECT_EQ(ranks, 3);
    jobs.insert(job);
  }
  EXPECT_EQ(jobs.size(), 1u);
  EXPECT_EQ(jobs.begin()->size(), 16u);
}

TEST_F(LauncherTest, ArgumentsArriveAsTheyAre) {
  EXPECT_EQ(launch(1, {"/bin/sh", "-c", "test \"$1\" = 'a  b' && test \"$2\" = --m", "sh", "a  b",
                       "--m"}),
            0);
}

TEST_F(LauncherTest, TheFirstFailureIsTheJobsAndEndsTheOthers) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(launch_shell(3, "if [ $STRETTO_RANK = 1 ]; then exit 7; fi; exec sleep 60"), 7);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(12));
}

TEST_F(LauncherTest, AFailureAfterAllHaveStartedEndsTheOthersToo) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(launch_shell(2, "if [ $STRETTO_RANK = 1 ]; then sleep 0.3; exit 7; fi; exec sleep 60"),
            7);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(12));
}

TEST_F(LauncherTest, AProcessEndedByASignalIsReported) {
  std::vector<std::string> told;
  const auto tell = [&](const std::string& line) { told.push_back(line); };
  EXPECT_EQ(launch(3, {"/bin/sh", "-c", "[ $STRETTO_RANK = 1 ] && kill -KILL $$; true"}, tell),
            128 + SIGKILL);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_THAT(told[0], testing::MatchesRegex("the process of rank 1 \\(pid [0-9]+\\) was ended by "
                                             "signal 9 \\(Killed\\)"));
}

TEST_F(LauncherTest, ProcessesThatItEndsItselfAreNotReported) {
  std::vector<std::string> told;
  const auto tell = [&](const std::string& line) { told.push_back(line); };
  EXPECT_EQ(launch(2, {"/bin/sh", "-c", "[ $STRETTO_RANK = 1 ] && exit 7; exec sleep 60"}, tell),
            7);
  EXPECT_THAT(told, testing::IsEmpty());
}

// Shells that wrap the ranks' programs end first, and the programs would keep their GPUs.
TEST_F(LauncherTest, WhatRanksOfAFailedJobHaveStartedEndsToo) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(launch_shell(2,
                         "sleep 60 & echo $! > child$STRETTO_RANK; "
                         "(trap '' TERM; echo > deaf$STRETTO_RANK; exec sleep 60) & "
                         "while ! [ -e deaf0 -a -e deaf1 ]; do sleep 0.01; done; exit 7"),
            7);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(8));
  for (const char* name : {"/child0", "/child1"}) {
    pid_t pid = 0;
    std::ifstream(folder_ + name) >> pid;
    ASSERT_GT(pid, 0);
    EXPECT_NE(kill(pid, 0), 0) << "still runs";
  }
}

TEST_F(LauncherTest, WhatRanksOfAGoodJobHaveStartedIsLeftAlone) {
  EXPECT_EQ(launch_shell(1, "sleep 60 & echo $! > child"), 0);
  pid_t pid = 0;
  std::ifstream(folder_ + "/child") >> pid;
  ASSERT_GT(pid, 0);
  EXPECT_EQ(kill(pid, SIGKILL), 0) << "was ended";
}

// As under a parent that never asks how its children ended; they get it as it was.
TEST_F(LauncherTest, EndsWhereTheEndOfChildrenIsIgnored) {
  struct Ignored {
    Ignored() { std::signal(SIGCHLD, SIG_IGN); }
    ~Ignored() { std::signal(SIGCHLD, SIG_DFL); }
  } const ignored;
  EXPECT_EQ(launch(2, {"/bin/sh", "-c", "exit 5"}), 5);
}

TEST_F(LauncherTest, ACommandThatIsNotThereIsNamed) {
  try {
    launch(2, {"/no/such/command"});
    FAIL() << "launched";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "cannot run /no/such/command: No such file or directory");
  }
}

class LauncherSignal : public LauncherTest, public ::testing::WithParamInterface<int> {};

TEST_P(LauncherSignal, EndsTheWholeJob) {
  const auto texts = on_processes(2, [&](int rank) {
    if (rank == 0) return as_launcher("exec sleep 60");
    kill(launcher_of_two(), GetParam());
    return std::string();
  });
  EXPECT_EQ(texts[0], std::to_string(128 + GetParam()));
  for (const char* name : {"pid0", "pid1"}) {
    EXPECT_NE(kill(pid_in(name), 0), 0) << "still runs";
  }
}

INSTANTIATE_TEST_SUITE_P(Fabric, LauncherSignal, testing::Values(SIGINT, SIGQUIT, SIGTERM, SIGHUP));

// As by Ctrl-Z, which only comes to the launcher.
// The ranks start no processes meanwhile: a shell between vfork and exec is not seen as stopped.
TEST_F(LauncherTest, StopsAndGoesOnWithItsRanks) {
  ASSERT_EQ(mkfifo((folder_ + "/go").c_str(), 0600), 0);
  const auto texts = on_processes(2, [&](int rank) {
    if (rank == 0) return as_launcher("read line < go; exit 7");
    const pid_t launcher = launcher_of_two();
    const std::vector<pid_t> all = {launcher, pid_in("pid0"), pid_in("pid1")};
    const auto wait_until = [&](bool stopped) {
      for (const pid_t pid : all) {
        while ((state_of(pid) == 'T') != stopped) usleep(10000);
      }
    };
    kill(launcher, SIGTSTP);
    wait_until(true);
    kill(launcher, SIGCONT);
    wait_until(false);
    std::ofstream(folder_ + "/go") << "\n\n";
    return std::string("went on");
  });
  EXPECT_EQ(texts[1], "went on");
  EXPECT_EQ(texts[0], "7");
}

}  // namespace
}  // namespace stretto::fabric
