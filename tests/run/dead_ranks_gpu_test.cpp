// Ranks whose process ends inside a run are named by all others, which then end in time.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "rank_processes.h"

namespace stretto::runtime {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

// For ranks that lose another: the schedule, and the folder for what they say.
constexpr const char* kSchedule = "STRETTO_TEST_SCHEDULE";
constexpr const char* kReports = "STRETTO_TEST_REPORTS";

// The launcher can only return what the dead rank did, so survivors leave what they saw in files:
// the error, and once all that they had is given back, a second line.
class DeadRanksOfProcesses : public PlansOfProcesses {
 protected:
  void SetUp() override {
    PlansOfProcesses::SetUp();
    if (IsSkipped()) return;
    std::string name = (std::filesystem::temp_directory_path() / "stretto_dead_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }
  void expect_named(const std::string& schedule, int most_ranks, const std::string& own) {
    const int ranks = std::min(most_ranks, cuda::num_devices());
    std::vector<std::string> said;
    EXPECT_EQ(launch_ranks("LosesAPeerInsideARun", ranks,
                           {std::string(kSchedule) + "=" + schedule,
                            std::string(kReports) + "=" + folder_.string()},
                           [&](const std::string& line) { said.push_back(line); }),
              128 + SIGKILL);
    EXPECT_THAT(said, ElementsAre(AllOf(StartsWith("the process of rank 1 (pid "),
                                        EndsWith(") was ended by signal 9 (Killed)"))));
    // The first whose wait expires lets the others go, who then have nothing of their own to tell.
    std::vector<std::string> errors;
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank == 1) continue;
      SCOPED_TRACE(fmt::format("rank {} of {}", rank, ranks));
      std::ifstream file(folder_ / std::to_string(rank));
      std::string end;
      std::getline(file, errors.emplace_back());
      std::getline(file, end);
      std::cout << "rank " << rank << ": " << errors.back() << "\n";
      EXPECT_THAT(errors.back(), StartsWith("the process of rank 1 (pid "));
      EXPECT_THAT(errors.back(), HasSubstr(") ended before the end of a run"));
      EXPECT_EQ(end, "ended in time");
    }
    EXPECT_THAT(errors,
                Contains(AllOf(HasSubstr("; "), HasSubstr("waited 300 ms"), HasSubstr(own))));
  }

 private:
  std::filesystem::path folder_;
};

TEST_F(DeadRanksOfProcesses, AreNamedByKernelsThatWait) { expect_named("tiles", 2, "for slots."); }
TEST_F(DeadRanksOfProcesses, AreNamedByStreamsThatWait) {
  expect_named("decomposed", 4, "for slots.");
}
TEST_F(DeadRanksOfProcesses, AreNamedInCollectivesOfNccl) {
  expect_named("library", 4, "in a collective of NCCL");
}
TEST_F(DeadRanksOfProcesses, AreNamedInLowLatencyCollectives) {
  expect_named("low-latency", 2, " for rank 1: ");
}

// Rank 1 ends while all others have begun a run and wait in it.
TEST_F(RankOfPlans, LosesAPeerInsideARun) {
  const char *schedule = std::getenv(kSchedule), *reports = std::getenv(kReports);
  ASSERT_TRUE(schedule != nullptr && reports != nullptr);
  const int rank = fabric_->first_rank();
  const Plan plan = plan_here(
      fmt::format("gemm-rs m=1024 n=1024 k=1024 ranks={} dtype=bf16", fabric_->ranks()), schedule);
  std::string error;
  {
    PlanRunner runner(plan, *fabric_, shared_compiler(), {kTimeoutNs});
    if (rank != 1) enqueue(runner);
    fabric_->barrier();
    if (rank == 1) kill(getpid(), SIGKILL);
    guard_.at("finish without rank 1");
    error = finish(runner, 4);
    std::ofstream(std::filesystem::path(reports) / std::to_string(rank)) << error << "\n";
    EXPECT_FALSE(runner.has_met());
    guard_.at("end the runner");
  }
  guard_.at("end the fabric");
  fabric_.reset();
  std::ofstream(std::filesystem::path(reports) / std::to_string(rank), std::ios::app)
      << (HasFailure() ? "failed" : "ended in time") << "\n";
}

}  // namespace
}  // namespace stretto::runtime
