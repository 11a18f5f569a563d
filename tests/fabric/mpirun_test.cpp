// Processes that mpirun starts find each other: this binary as the program, each rank a test.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "fabric/job.h"
#include "fabric/starter.h"
#include "processes.h"
#include "skip.h"
#include "stretto/error.h"

namespace stretto::fabric {
namespace {

constexpr const char* kIsRank = "STRETTO_TEST_MPIRUN";

bool is_there(const std::string& command) {
  return std::system(("command -v " + command + " >/dev/null 2>&1").c_str()) == 0;
}

// Of Open MPI, of MPICH, and whichever the system has by the name that users type.
class Mpirun : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string mpirun = GetParam();
    if (!is_there(mpirun)) STRETTO_SKIP(mpirun + " is not installed");
    if (start(2, "true >/dev/null 2>&1") != 0) STRETTO_SKIP(mpirun + " starts nothing here");
  }

  // What it returns. Open MPI wants to be told that root and more processes than cores are meant.
  static int start(int ranks, const std::string& program) {
    const std::string command = fmt::format(
        "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
        "OMPI_MCA_rmaps_base_oversubscribe=1 "
        "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe {}={} timeout 60 {} -n {} {}",
        kIsRank, ranks, GetParam(), ranks, program);
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  static int run(int ranks, const std::string& test, const std::string& by = "") {
    return start(ranks,
                 fmt::format("{} /proc/{}/exe --gtest_filter=RankOfMpirun.{}", by, getpid(), test));
  }
};

TEST_P(Mpirun, ProcessesMeet) { EXPECT_EQ(run(2, "Meets"), 0); }
TEST_P(Mpirun, MoreProcessesMeet) { EXPECT_EQ(run(5, "Meets"), 0); }
// Each behind a shell of its own, as scripts that set a rank up are.
TEST_P(Mpirun, WrappedProcessesMeet) {
  EXPECT_EQ(run(2, "Meets", "/bin/sh -c '\"$@\"; exit $?' sh"), 0);
}
TEST_P(Mpirun, AProgramOfOtherRanksIsRefused) { EXPECT_EQ(run(2, "IsAskedForThree"), 0); }

INSTANTIATE_TEST_SUITE_P(By, Mpirun, ::testing::Values("mpirun", "mpirun.openmpi", "mpirun.mpich"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

// As MPICH's ranks find it.
TEST(Starter, IsTheSameOfAllThatItStarted) {
  const auto found =
      on_processes(2, [](int) { return starter_of("STRETTO_TEST_NOBODY_HAS_THIS"); });
  EXPECT_THAT(found[0], ::testing::StartsWith(fmt::format("{}-", getpid())));
  EXPECT_EQ(found[0], found[1]);
}

class RankOfMpirun : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv(kIsRank) == nullptr) GTEST_SKIP() << "a part of Mpirun";
    ranks_ = std::atoi(std::getenv(kIsRank));
  }
  int ranks_ = 0;
};

TEST_F(RankOfMpirun, Meets) {
  const auto job = job_from();
  ASSERT_TRUE(job.has_value()) << "mpirun tells nothing that is known";
  EXPECT_THAT(job->started_by, ::testing::HasSubstr("MPI"));
  EXPECT_EQ(job->size, ranks_);
  EXPECT_EQ(job->local_rank, job->rank);
  const auto group = meet(*job);
  std::vector<std::string> all;
  for (int rank = 0; rank < ranks_; ++rank) all.push_back(std::to_string(rank));
  for (const char* what : {"ranks", "ranks again"}) {
    EXPECT_EQ(group->all_gather(what, std::to_string(job->rank)), all);
  }
}

TEST_F(RankOfMpirun, IsAskedForThree) {
  try {
    open_fabric(3);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("3 ranks were asked for, but "));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("MPI started 2 processes"));
  }
}

}  // namespace
}  // namespace stretto::fabric
