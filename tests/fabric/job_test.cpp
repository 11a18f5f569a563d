// What launchers leave in the environment, and processes that find each other by it.
#include "fabric/job.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "fabric/meeting_file.h"
#include "fabric/tcp_server.h"
#include "processes.h"
#include "stretto/error.h"

namespace stretto::fabric {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

Lookup from(const Variables& variables) {
  return [variables](const char* name) -> const char* {
    const auto at = variables.find(name);
    return at == variables.end() ? nullptr : at->second.c_str();
  };
}

class JobTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/stretto-job-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    setenv("XDG_RUNTIME_DIR", folder, 1);
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
    unsetenv("XDG_RUNTIME_DIR");
  }
  std::string folder_;
};

// What tells jobs apart comes last in a key, and may be no part of a file's name.
TEST_F(JobTest, JobsHaveMeetingsOfTheirOwnWhateverTheirNames) {
  const std::string run(300, 'r');
  std::set<std::string> paths;
  const std::vector<std::string> keys = {run + "-29500", run + "-29501", run, "a/b", "a_b",
                                         "a b",          "a.b",          "",  "\n"};
  for (const std::string& key : keys) {
    const std::string path = meeting_path(key);
    EXPECT_EQ(path, meeting_path(key));
    EXPECT_LT(path.size(), folder_.size() + 200);
    EXPECT_EQ(path.find('/', folder_.size() + 9), std::string::npos) << path;
    paths.insert(path);
  }
  EXPECT_EQ(paths.size(), keys.size());
  EXPECT_EQ(meeting_path("a.b-7"), folder_ + "/stretto/job-a.b-7");
}

TEST_F(JobTest, RanksWaitForEachOtherLongerThanTheirRunsDo) {
  Job job;
  job.allow_waits_of(10);
  EXPECT_EQ(job.timeout_s, 60);
  job.allow_waits_of(3600);
  EXPECT_GT(job.timeout_s, 7200);
  job.allow_waits_of(10);
  EXPECT_GT(job.timeout_s, 7200);
}

std::string reason(const Variables& variables) {
  try {
    job_from(from(variables));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

TEST_F(JobTest, NoLauncherNoJob) { EXPECT_FALSE(job_from(from({{"HOME", "/root"}})).has_value()); }

TEST_F(JobTest, LaunchersAreRecognised) {
  const Variables torchrun = {{"RANK", "3"},
                              {"WORLD_SIZE", "4"},
                              {"LOCAL_RANK", "3"},
                              {"LOCAL_WORLD_SIZE", "4"},
                              {"MASTER_PORT", "29500"},
                              {"TORCHELASTIC_RUN_ID", "none"}};
  const Variables open_mpi = {{"OMPI_COMM_WORLD_RANK", "3"},
                              {"OMPI_COMM_WORLD_SIZE", "4"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                              {"PMIX_NAMESPACE", "prterun-7"}};
  const Variables mpich = {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"PMI_PORT", "host:1"}};
  const Variables ours = {{"STRETTO_RANK", "3"}, {"STRETTO_RANKS", "4"}, {"STRETTO_JOB", "x"}};
  for (const Variables& variables : {torchrun, open_mpi, mpich, ours}) {
    const auto job = job_from(from(variables));
    ASSERT_TRUE(job.has_value());
    EXPECT_EQ(job->rank, 3);
    EXPECT_EQ(job->size, 4);
    EXPECT_EQ(job->local_rank, 3);
    EXPECT_THAT(job->meeting, HasSubstr(folder_ + "/stretto/job-"));
  }
  EXPECT_EQ(job_from(from(torchrun))->meeting, folder_ + "/stretto/job-torchrun-none-29500");
}

TEST_F(JobTest, NonsenseIsRefused) {
  EXPECT_EQ(reason({{"RANK", "0"}}), "RANK is set without WORLD_SIZE");
  EXPECT_EQ(reason({{"RANK", "4"}, {"WORLD_SIZE", "4"}}), "RANK=4: ranks of a job of 4 are 0 to 3");
  EXPECT_THAT(reason({{"RANK", "one"}, {"WORLD_SIZE", "4"}}), HasSubstr("RANK='one': a number"));
  EXPECT_THAT(reason({{"RANK", "0"}, {"WORLD_SIZE", "99999999999999999999"}}),
              HasSubstr("a number from 1 to 1024"));
  EXPECT_THAT(reason({{"RANK", "0"}, {"WORLD_SIZE", "16"}, {"LOCAL_WORLD_SIZE", "8"}}),
              HasSubstr("8 of 16 ranks are on this machine"));
  EXPECT_THAT(reason({{"RANK", "0"}, {"WORLD_SIZE", "4"}}),
              HasSubstr("set TORCHELASTIC_RUN_ID or"));
  const Variables by_hand = {{"STRETTO_RANK", "0"}, {"STRETTO_RANKS", "2"}};
  Variables more = by_hand;
  more["STRETTO_ADDRESS"] = "localhost:7777";
  EXPECT_THAT(reason(more), HasSubstr("STRETTO_ADDRESS needs STRETTO_JOB_SECRET"));
  more["STRETTO_JOB_SECRET"] = "short";
  EXPECT_THAT(reason(more), HasSubstr("must be 64 hexadecimal digits"));
  more["STRETTO_JOB_SECRET"] = std::string(63, '0') + "g";
  EXPECT_THAT(reason(more), HasSubstr("must be 64 hexadecimal digits"));
  more["STRETTO_JOB_SECRET"] = std::string(64, '0');
  EXPECT_EQ(reason(more), "accepted");
  for (const char* address : {"localhost", "localhost:", ":7", "localhost:0", "localhost:70000"}) {
    more["STRETTO_ADDRESS"] = address;
    EXPECT_NE(reason(more), "accepted") << address;
  }
}

TEST_F(JobTest, ProcessesFindEachOtherByTheMeetingFile) {
  const auto texts = on_processes(3, [&](int rank) {
    if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(150));
    const auto job = job_from(from(
        {{"STRETTO_RANK", std::to_string(rank)}, {"STRETTO_RANKS", "3"}, {"STRETTO_JOB", "find"}}));
    return meet(*job)->all_gather("ranks", std::to_string(rank))[2];
  });
  EXPECT_THAT(texts, Each("2"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/stretto/job-stretto-find")) << "left behind";
}

TEST_F(JobTest, AFileOfAnEarlierJobDoesNotMislead) {
  // Another job with another secret listens where the old file points to.
  const TcpServer earlier({"127.0.0.1", 0}, 2, new_secret());
  write_meeting(meeting_path("stretto-again"), {{"127.0.0.1", earlier.port()}, new_secret()});
  const auto texts = on_processes(2, [&](int rank) {
    if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const auto job = job_from(from({{"STRETTO_RANK", std::to_string(rank)},
                                    {"STRETTO_RANKS", "2"},
                                    {"STRETTO_JOB", "again"}}));
    return meet(*job)->all_gather("ranks", std::to_string(rank))[1];
  });
  EXPECT_THAT(texts, Each("1"));
}

TEST_F(JobTest, ADamagedFileOfAnEarlierJobIsReadAgain) {
  for (const std::string& left :
       {std::string("nonsense\n"),
        "stretto meeting 1\n127.0.0.1:99999\n" + std::string(64, '0') + "\n"}) {
    const std::string path = meeting_path("stretto-damaged");
    Meeting meeting;
    meeting.address = {"127.0.0.1", 1};
    meeting.secret = new_secret();
    write_meeting(path, meeting);
    std::ofstream(path, std::ios::trunc) << left;
    const auto texts = on_processes(2, [&](int rank) {
      if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
      const auto job = job_from(from({{"STRETTO_RANK", std::to_string(rank)},
                                      {"STRETTO_RANKS", "2"},
                                      {"STRETTO_JOB", "damaged"}}));
      return meet(*job)->all_gather("ranks", std::to_string(rank))[1];
    });
    EXPECT_THAT(texts, Each("1"));
  }
}

TEST_F(JobTest, WithoutRankZeroTheFileIsNamed) {
  const auto job = job_from(from({{"STRETTO_RANK", "1"},
                                  {"STRETTO_RANKS", "2"},
                                  {"STRETTO_JOB", "lonely"},
                                  {"STRETTO_JOIN_SECONDS", "1"}}));
  try {
    meet(*job);
    FAIL() << "met nobody";
  } catch (const SystemError& error) {
    EXPECT_EQ(error.what(),
              "rank 0 did not leave " + folder_ + "/stretto/job-stretto-lonely within 1 s");
  }
}

TEST_F(JobTest, ByAddressAndSecret) {
  const int port = port_of(listen_at({"127.0.0.1", 0}));
  const std::string secret = new_secret();
  const auto texts = on_processes(2, [&](int rank) {
    const auto job = job_from(from({{"STRETTO_RANK", std::to_string(rank)},
                                    {"STRETTO_RANKS", "2"},
                                    {"STRETTO_ADDRESS", "127.0.0.1:" + std::to_string(port)},
                                    {"STRETTO_JOB_SECRET", secret}}));
    return meet(*job)->all_gather("ranks", std::to_string(rank))[1];
  });
  EXPECT_THAT(texts, Each("1"));
}

}  // namespace
}  // namespace stretto::fabric
