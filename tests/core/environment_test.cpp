#include "core/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace stretto {
namespace {

TEST(Environment, EveryVariableIsReadOnceAndDocumented) {
  ASSERT_FALSE(environment_variables().empty());
  const std::string before = environment().machine_path;
  ::setenv("STRETTO_MACHINE_PATH", "/elsewhere", 1);
  EXPECT_EQ(environment().machine_path, before) << "the environment is read once";
  for (const EnvironmentVariable& row : environment_variables()) {
    // Our own names, or those that the CUDA toolkit gave.
    EXPECT_TRUE(row.variable.starts_with("STRETTO_") || row.variable.starts_with("CUDA_"))
        << row.variable;
    EXPECT_FALSE(row.meaning.empty());
  }
}

TEST(Environment, UserFoldersAreWhereTheVariableSaysOrInTheHomeFolder) {
  ::setenv("STRETTO_TEST_FOLDER", "/data", 1);
  EXPECT_EQ(user_folder("STRETTO_TEST_FOLDER", ".data"), "/data/stretto");
  ::setenv("STRETTO_TEST_FOLDER", "", 1);
  ::setenv("HOME", "/home/me", 1);
  EXPECT_EQ(user_folder("STRETTO_TEST_FOLDER", ".local/share"), "/home/me/.local/share/stretto");
  ::unsetenv("HOME");
  EXPECT_EQ(user_folder("STRETTO_TEST_FOLDER", ".data"), "");
}

}  // namespace
}  // namespace stretto
