// Locks beside files: one holder at a time, none left by the dead, and errors that say which file.
#include "core/file_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "stretto/error.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::HasSubstr;

class Lock : public testing::Test {
 protected:
  Lock() : folder_(fs::temp_directory_path() / ("stretto_lock_" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~Lock() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  static std::string error_of(const std::string& path) {
    try {
      FileLock lock(path, milliseconds(30));
    } catch (const SystemError& error) {
      return error.what();
    }
    return "";
  }

 private:
  fs::path folder_;
};

TEST_F(Lock, HasOneHolderAtATime) {
  {
    const FileLock lock(path("x"));
    EXPECT_THAT(error_of(path("x")), HasSubstr("another process has held"));
    EXPECT_THAT(error_of(path("x")), HasSubstr("x.lock'"));
    EXPECT_EQ(error_of(path("y")), "");
  }
  EXPECT_EQ(error_of(path("x")), "");
}

TEST_F(Lock, IsWaitedFor) {
  std::optional<FileLock> lock(path("x"));
  std::thread other([&] { EXPECT_NO_THROW(FileLock(path("x"), std::chrono::seconds(30))); });
  std::this_thread::sleep_for(milliseconds(20));
  lock.reset();
  other.join();
}

TEST_F(Lock, IsOneForAllLinksToAFile) {
  std::ofstream(path("x")) << "text";
  fs::create_symlink(path("x"), path("link"));
  const FileLock lock(path("x"));
  EXPECT_THAT(error_of(path("link")), HasSubstr("another process has held"));
}

TEST_F(Lock, IsNotLeftByAProcessThatIsKilled) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const FileLock lock(path("x"));
    if (::write(ready[1], "x", 1) != 1) ::_exit(1);
    while (true) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_NE(error_of(path("x")), "");
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(error_of(path("x")), "");
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(Lock, NamesWhatCannotBeLocked) {
  EXPECT_THAT(error_of(path("no/such/folder")), HasSubstr("No such file"));
  fs::create_directories(path("x.lock"));
  EXPECT_THAT(error_of(path("x")), HasSubstr("Is a directory"));
  if (::geteuid() == 0) return;  // whom no permission stops
  fs::create_directories(path("read_only"));
  fs::permissions(path("read_only"), fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_THAT(error_of(path("read_only/x")), HasSubstr("Permission denied"));
}

}  // namespace
}  // namespace stretto
