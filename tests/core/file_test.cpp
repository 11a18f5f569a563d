#include "core/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "stretto/error.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;

class File : public testing::Test {
 protected:
  File() {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) / (std::string("stretto_file_") + info->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~File() override { fs::remove_all(folder_); }

  std::string path(const char* name) const { return (folder_ / name).string(); }
  long num_entries() const {
    return std::distance(fs::directory_iterator(folder_), fs::directory_iterator());
  }

  fs::path folder_;
};

TEST_F(File, ReadsBackWhatWasWritten) {
  const std::string content("a\0b\n", 4);
  write_file(path("x"), content);
  EXPECT_EQ(read_file(path("x"), 4), content);
  write_file(path("x"), "shorter");
  EXPECT_EQ(read_file(path("x"), 100), "shorter");
  EXPECT_EQ(num_entries(), 1) << "temporary files must not stay";
}

TEST_F(File, RefusesMoreThanTheLimit) {
  write_file(path("x"), "12345");
  EXPECT_THROW(read_file(path("x"), 4), UsageError);
}

TEST_F(File, NamesFileAndReason) {
  try {
    read_file(path("absent"), 10);
    FAIL() << "must throw";
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("absent"));
    EXPECT_THAT(error.what(), testing::HasSubstr("No such file"));
  }
  EXPECT_THROW(read_file(folder_.string(), 10), SystemError);
  EXPECT_THROW(write_file(path("no/such/folder"), "x"), SystemError);
}

bool file_size_signal_is_as_ever() {
  sigset_t pending, blocked;
  ::sigpending(&pending);
  ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  return ::sigismember(&pending, SIGXFSZ) == 0 && ::sigismember(&blocked, SIGXFSZ) == 0;
}

// In a process whose files have at most 10 bytes, as on a disk that is full; the signal of it would
// end the process.
TEST_F(File, AFailedWriteKeepsTheOldContent) {
  write_file(path("x"), "old");
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit limit{10, 10};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(1);
    try {
      write_file(path("x"), std::string(100, 'n'));
      ::_exit(2);
    } catch (const SystemError& error) {
      if (!file_size_signal_is_as_ever()) ::_exit(4);
      ::_exit(std::string(error.what()).find("/x': File too large") == std::string::npos ? 3 : 0);
    }
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(read_file(path("x"), 100), "old");
  EXPECT_EQ(num_entries(), 1) << "a failed write must leave no trace";
}

// Threads of one process, or containers that share a folder, whose processes have equal numbers.
TEST_F(File, WritersOfOneFileDoNotDisturbEachOther) {
  constexpr int kWriters = 8, kTimes = 50;
  std::atomic<int> failures = 0, torn = 0;
  std::vector<std::thread> writers;
  write_file(path("x"), std::string(5000, 'a'));
  for (int writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([&, writer] {
      const std::string mine(5000, static_cast<char>('a' + writer));
      for (int i = 0; i < kTimes; ++i) {
        try {
          write_file(path("x"), mine);
        } catch (const SystemError&) {
          ++failures;
        }
        const std::string seen = read_file(path("x"), 10000);
        if (seen != std::string(5000, seen.empty() ? 'a' : seen[0])) ++torn;
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(num_entries(), 1);
}

TEST_F(File, KeepsPermissionsAndLinks) {
  write_file(path("x"), "old");
  fs::permissions(path("x"), fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink(path("x"), path("link"));
  write_file(path("link"), "new");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(read_file(path("x"), 100), "new");
  EXPECT_EQ(fs::status(path("x")).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(File, TellsEarlyWhetherItCanBeWritten) {
  write_file(path("x"), "old");
  EXPECT_NO_THROW(check_writable(path("x")));
  EXPECT_NO_THROW(check_writable(path("new")));
  EXPECT_THROW(check_writable(path("no/such/folder")), SystemError);
  EXPECT_THROW(check_writable(folder_.string()), SystemError);
  EXPECT_EQ(read_file(path("x"), 100), "old");
  EXPECT_EQ(num_entries(), 1) << "probing must leave no trace";
}

TEST_F(File, IsTheSameUnderItsOtherNames) {
  write_file(path("x"), "old");
  fs::create_symlink(path("x"), path("link"));
  EXPECT_TRUE(is_same_file(path("x"), folder_.string() + "/./x"));
  EXPECT_TRUE(is_same_file(path("x"), path("link")));
  EXPECT_TRUE(is_same_file("not-yet", "./not-yet"));
  EXPECT_FALSE(is_same_file(path("x"), path("y")));
  EXPECT_FALSE(is_same_file("/dev/null", "/dev/null")) << "nothing in it can be lost";
}

// Also where a signal cannot be caught: the content has no name before it is complete.
TEST_F(File, AProcessThatIsEndedInMidWriteLeavesNothing) {
  const std::string content(size_t{4} << 20, 'n');
  for (const int signal : {SIGHUP, SIGINT, SIGTERM, SIGKILL}) {
    for (int round = 0; round < 4; ++round) {
      const std::string name = "x" + std::to_string(signal);
      const pid_t child = ::fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        while (true) write_file(path(name.c_str()), content);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(3 + 7 * round));
      ::kill(child, signal);
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFSIGNALED(status));
      for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
        EXPECT_EQ(entry.path().extension(), "") << entry.path();
        EXPECT_EQ(fs::file_size(entry), content.size());
      }
    }
  }
}

TEST_F(File, RefusesPipesAndDevicesWhereAFileIsNeeded) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  for (const std::string& no_file : {path("pipe"), std::string("/dev/zero")}) {
    try {
      read_regular_file(no_file, 10);
      FAIL() << "must throw";
    } catch (const UsageError& error) {
      EXPECT_EQ(error.what(), "'" + no_file + "' is a pipe or a device; a file is needed");
    }
  }
  EXPECT_THROW(read_regular_file(folder_.string(), 10), SystemError);
  write_file(path("x"), "content");
  EXPECT_EQ(read_regular_file(path("x"), 10), "content");
  EXPECT_THROW(read_regular_file(path("x"), 6), UsageError);
}

TEST_F(File, LongPathsAreCutInMessages) {
  const std::string longer = folder_.string() + "/" + std::string(5000, 'a') + "end";
  const auto expect_short = [&](const auto& use) {
    try {
      use(longer);
      FAIL() << "must throw";
    } catch (const SystemError& error) {
      EXPECT_LT(std::string(error.what()).size(), 400u);
      EXPECT_THAT(error.what(), testing::HasSubstr("aend'"));
      EXPECT_THAT(error.what(), testing::HasSubstr(folder_.string()));
      EXPECT_THAT(error.what(), testing::HasSubstr("File name too long"));
    }
  };
  expect_short([](const std::string& file) { read_file(file, 10); });
  expect_short([](const std::string& file) { write_file(file, ""); });
  expect_short([](const std::string& file) { check_writable(file); });
}

TEST_F(File, WritesToDevices) {
  EXPECT_NO_THROW(write_file("/dev/null", "x"));
  try {
    write_file("/dev/full", "x");
    FAIL() << "must throw";
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("'/dev/full': No space left"));
  }
}

}  // namespace
}  // namespace stretto
