// The file by which local processes find rank 0: only its user's own is believed.
#include "fabric/meeting_file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "core/file.h"
#include "stretto/error.h"

namespace stretto::fabric {
namespace {

using ::testing::HasSubstr;

class MeetingFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/stretto-meeting-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    path_ = folder_ + "/meeting";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string reason() const {
    try {
      read_meeting(path_);
    } catch (const SystemError& error) {
      return error.what();
    }
    return "read";
  }

  std::string folder_, path_;
  const Meeting meeting_{{"127.0.0.1", 4321}, new_secret()};
};

TEST_F(MeetingFileTest, WhatIsWrittenIsRead) {
  EXPECT_FALSE(read_meeting(path_).has_value());
  Meeting earlier = meeting_;
  earlier.address = {"::1", 1};
  earlier.secret = new_secret();
  write_meeting(path_, earlier);
  write_meeting(path_, meeting_);
  const auto found = read_meeting(path_);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->address.host, "127.0.0.1");
  EXPECT_EQ(found->address.port, 4321);
  EXPECT_EQ(found->secret, meeting_.secret);
  struct stat status {};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(MeetingFileTest, AFileThatOthersMayReadIsRefused) {
  write_meeting(path_, meeting_);
  chmod(path_.c_str(), 0644);
  EXPECT_THAT(reason(), HasSubstr("must belong to this user and be closed to others"));
}

TEST_F(MeetingFileTest, AnothersFileIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  write_meeting(path_, meeting_);
  ASSERT_EQ(chown(path_.c_str(), 12345, 12345), 0);
  EXPECT_THAT(reason(), HasSubstr("must belong to this user"));
}

TEST_F(MeetingFileTest, ALinkIsNotFollowed) {
  write_meeting(folder_ + "/elsewhere", meeting_);
  std::filesystem::create_symlink(folder_ + "/elsewhere", path_);
  EXPECT_THAT(reason(), HasSubstr("must not be a symbolic link"));
}

TEST_F(MeetingFileTest, APipeDoesNotHang) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(reason(), HasSubstr("is no ordinary file"));
}

TEST_F(MeetingFileTest, OtherContentIsRefused) {
  for (const std::string& content :
       {std::string(), std::string("stretto meeting 2\n127.0.0.1:1\n"), std::string(9000, 'x'),
        "stretto meeting 1\n127.0.0.1:1\n" + std::string(64, 'g') + "\n"}) {
    write_file(path_, content);
    chmod(path_.c_str(), 0600);
    EXPECT_THAT(reason(), HasSubstr("is no meeting file of this version")) << content;
  }
}

TEST_F(MeetingFileTest, SecretsDifferAndAreRecognised) {
  EXPECT_NE(new_secret(), new_secret());
  write_file(path_, meeting_.secret + "\n");
  chmod(path_.c_str(), 0600);
  EXPECT_EQ(secret_from_file(path_), meeting_.secret);
  write_file(path_, "password\n");
  chmod(path_.c_str(), 0600);
  EXPECT_THROW(secret_from_file(path_), UsageError);
  EXPECT_THROW(secret_from_file(folder_ + "/none"), SystemError);
}

TEST_F(MeetingFileTest, KeysBecomePlainNames) {
  setenv("XDG_RUNTIME_DIR", folder_.c_str(), 1);
  EXPECT_EQ(meeting_path("torchrun-../../etc/x y"),
            folder_ + "/stretto/job-torchrun-.._.._etc_x_y_38b04633bdcffb67");
  chmod((folder_ + "/stretto").c_str(), 0777);
  EXPECT_THROW(meeting_path("job"), SystemError);
  unsetenv("XDG_RUNTIME_DIR");
}

}  // namespace
}  // namespace stretto::fabric
