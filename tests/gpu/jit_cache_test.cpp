// The cache of compiled kernels: whole or absent, whatever happened to its folder.
#include "gpu/jit_cache.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>

#include "gpu/compiler.h"

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

TEST_F(JitCacheTest, NothingIsWrittenThroughALinkThatHasAKernelsName) {
  const JitCache cache(folder_);
  std::filesystem::create_directories(folder_);
  const std::string victim = folder_ + "/victim";
  std::ofstream(victim) << "precious";
  std::filesystem::create_symlink(victim, cache.path_of("key"));
  EXPECT_EQ(cache.find("key"), std::nullopt);
  EXPECT_TRUE(cache.put("key", "content"));
  EXPECT_EQ(cache.find("key"), "content");
  std::ifstream file(victim);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "precious");
}

TEST_F(JitCacheTest, APipeThatHasAKernelsNameIsNotWaitedFor) {
  const JitCache cache(folder_);
  std::filesystem::create_directories(folder_);
  ASSERT_EQ(::mkfifo(cache.path_of("key").c_str(), 0600), 0);
  EXPECT_EQ(cache.find("key"), std::nullopt);
  EXPECT_TRUE(cache.put("key", "content"));
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

size_t files_in(const std::string& folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

// A limit on the size of files stands for the full disk: a write ends in the middle.
TEST_F(JitCacheTest, ADiskThatIsFullKeepsNothingAndLeavesNothing) {
  const JitCache cache(folder_);
  ASSERT_TRUE(cache.put("small", "content"));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit full{1 << 16, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  const bool kept = cache.put("large", std::string(1 << 20, 'c'));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_FALSE(kept);
  EXPECT_EQ(cache.find("large"), std::nullopt);
  EXPECT_EQ(cache.find("small"), "content");
  EXPECT_EQ(files_in(folder_), 1);
  EXPECT_TRUE(cache.put("large", std::string(1 << 20, 'c')));
}

TEST_F(JitCacheTest, WhatKilledWritersLeftGoesAfterADay) {
  namespace fs = std::filesystem;
  const JitCache cache(folder_);
  fs::create_directories(folder_);
  const auto leave = [&](const std::string& name, int hours) {
    const fs::path path = fs::path(folder_) / name;
    std::ofstream(path) << "half of";
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(hours));
    return path;
  };
  const fs::path abandoned = leave("ab.kernel.0123456789abcdef.tmp", 25);
  const fs::path young = leave("ab.kernel.0123456789abcde0.tmp", 23);
  const fs::path foreign = leave("notes.tmp", 25), kernel = leave("cd.kernel", 25);
  ASSERT_TRUE(cache.put("key", "content"));
  EXPECT_FALSE(fs::exists(abandoned));
  for (const fs::path& path : {young, foreign, kernel}) EXPECT_TRUE(fs::exists(path)) << path;
}

TEST(KernelKey, DiffersWithEverythingThatMachineCodeDependsOn) {
  const EmbeddedText headers[] = {{"a.h", "int a;"}, {"b.h", "int b;"}};
  const EmbeddedText renamed[] = {{"a.h", "int a;"}, {"c.h", "int b;"}};
  const EmbeddedText changed[] = {{"a.h", "int a;"}, {"b.h", "int c;"}};
  const EmbeddedText moved[] = {{"a.h", "int a;int b;"}, {"b.h", ""}};
  const KernelInputs inputs{"nvrtc 13.0 12ab", {"--arch=sm_90a", "-v"}, "kernel", headers};
  std::vector<KernelInputs> others(10, inputs);
  others[0].compiler = "nvrtc 13.0 12ac";
  others[1].options[0] = "--arch=sm_80";
  others[2].options.pop_back();
  others[3].options = {"--arch=sm_90a-v"};
  others[4].source = "kernel2";
  others[5].headers = renamed;
  others[6].headers = changed;
  others[7].headers = moved;
  others[8].headers = others[8].headers.first(1);
  others[9].options.pop_back();
  others[9].source = "-v\nkernel";
  std::set<std::string> keys = {key_of(inputs)};
  for (const KernelInputs& other : others) keys.insert(key_of(other));
  EXPECT_EQ(keys.size(), 1 + others.size());
  EXPECT_EQ(key_of(KernelInputs(inputs)), key_of(inputs));
}

}  // namespace
}  // namespace stretto::cuda
