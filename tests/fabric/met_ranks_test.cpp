// Ranks that have met by means of their own: here by files in a folder.
#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "fabric/job.h"
#include "processes.h"
#include "stretto/error.h"

namespace stretto::fabric {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class MetRanks : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/stretto-met-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // As `place` of `ranks` in the folder.
  auto exchange(int place, int ranks) const {
    return [this, place, ranks](const std::string& mine) {
      const auto path = [&](int rank) { return folder_ + "/" + std::to_string(rank); };
      std::ofstream(path(place) + ".new") << mine;
      std::filesystem::rename(path(place) + ".new", path(place));
      std::vector<std::string> all;
      for (int rank = 0; rank < ranks; ++rank) {
        while (!std::filesystem::exists(path(rank))) {
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
        std::ifstream file(path(rank));
        all.push_back({std::istreambuf_iterator<char>(file), {}});
      }
      return all;
    };
  }

  std::string folder_;
};

TEST_F(MetRanks, AreAJobLikeAnyOther) {
  const auto texts = on_processes(3, [&](int rank) {
    const auto group = meet({rank, 3, 0, exchange(rank, 3)}, 1);
    std::string all;
    for (const std::string& one : group->all_gather("ranks", std::to_string(rank))) all += one;
    return all;
  });
  EXPECT_THAT(texts, Each("012"));
}

TEST_F(MetRanks, ThatDisagreeAreNamed) {
  const auto refusals = on_processes(2, [&](int rank) -> std::string {
    try {
      // Both say that they are rank 0.
      meet({0, 2, 0, exchange(rank, 2)}, 1);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "met";
  });
  EXPECT_THAT(refusals, Each(HasSubstr("the exchange has rank 0 in the place of rank 1")));
}

TEST_F(MetRanks, ThatAreNotAsManyAreNamed) {
  const auto refusals = on_processes(2, [&](int rank) -> std::string {
    try {
      meet({rank, rank == 0 ? 2 : 4, 0, exchange(rank, 2)}, 1);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "met";
  });
  EXPECT_THAT(refusals, ElementsAre(HasSubstr("how many they are: rank 0 says 2, rank 1 says 4"),
                                    HasSubstr("4 ranks were asked for, and the exchange has 2")));
}

TEST_F(MetRanks, AndWhatMakesNoSenseIsRefused) {
  const auto refusal = [](const MetRank& job) -> std::string {
    try {
      meet(job, 1);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "met";
  };
  EXPECT_EQ(refusal({0, 1}), "met");  // alone
  EXPECT_THAT(refusal({2, 2}), HasSubstr("rank 2 of 2: ranks are 0 to 1"));
  EXPECT_THAT(refusal({0, 2}), HasSubstr("2 ranks meet through an exchange, and none was given"));
  const auto nonsense = [](const std::string&) { return std::vector<std::string>(2, "hello"); };
  EXPECT_THAT(refusal({0, 2, 0, nonsense}), HasSubstr("not what a rank of this version"));
}

}  // namespace
}  // namespace stretto::fabric
