// The cache of compiled kernels: whole or absent, whatever happened to its folder.
#include "cuda/jit_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

namespace stretto::cuda {
namespace {

class JitCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::string(::testing::TempDir()) + "/stretto_jit_" + test->name();
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_;
};

TEST_F(JitCacheTest, FindsWhatWasPutUnderTheSameKeyOnly) {
  const JitCache cache(folder_ + "/new/deep");
  EXPECT_EQ(cache.find("key"), std::nullopt);
  EXPECT_TRUE(cache.put("key", std::string("cu\0bin", 6)));
  EXPECT_EQ(cache.find("key"), std::string("cu\0bin", 6));
  EXPECT_EQ(cache.find("other"), std::nullopt);
}

TEST_F(JitCacheTest, EveryDamagedByteAndLengthIsAMiss) {
  const JitCache cache(folder_);
  ASSERT_TRUE(cache.put("key", "content"));
  std::string whole;
  {
    std::ifstream file(cache.path_of("key"), std::ios::binary);
    whole.assign(std::istreambuf_iterator<char>(file), {});
  }
  const auto write = [&](const std::string& bytes) {
    std::ofstream(cache.path_of("key"), std::ios::binary | std::ios::trunc) << bytes;
  };
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x40);
    write(damaged);
    EXPECT_EQ(cache.find("key"), std::nullopt) << "byte " << i;
    write(whole.substr(0, i));
    EXPECT_EQ(cache.find("key"), std::nullopt) << "cut at " << i;
  }
  write(whole + "x");
  EXPECT_EQ(cache.find("key"), std::nullopt);
  write(whole);
  EXPECT_EQ(cache.find("key"), "content");
}

TEST_F(JitCacheTest, WritersOfOneKeyAllKeepIt) {
  const JitCache cache(folder_);
  const std::string content(100'000, 'c');
  std::atomic<int> kept = 0, found = 0;
  constexpr int kWriters = 8, kTimes = 20;
  std::vector<std::thread> writers;
  for (int writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([&] {
      for (int i = 0; i < kTimes; ++i) {
        kept += cache.put("key", content);
        found += cache.find("key") == content;
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(kept, kWriters * kTimes);
  EXPECT_EQ(found, kWriters * kTimes);
}

TEST_F(JitCacheTest, AFolderThatCannotBeWrittenKeepsNothing) {
  std::ofstream(folder_) << "a file where the folder should be";
  const JitCache cache(folder_);
  EXPECT_FALSE(cache.put("key", "content"));
  EXPECT_EQ(cache.find("key"), std::nullopt);
  EXPECT_FALSE(JitCache("").put("key", "content"));
  EXPECT_EQ(JitCache("").find("key"), std::nullopt);
}

}  // namespace
}  // namespace stretto::cuda
