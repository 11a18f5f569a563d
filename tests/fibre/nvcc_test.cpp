// The device language under nvcc, as a user's file takes it: for every architecture and without a
// warning. Where there is no nvcc it is skipped, and says so.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

namespace stretto {
namespace {

struct Ended {
  int code;
  std::string text;  // of both streams
};

Ended run(const std::string& command) {
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return {-1, "cannot run " + command};
  std::string text;
  std::array<char, 4096> piece;
  while (const size_t size = std::fread(piece.data(), 1, piece.size(), pipe)) {
    text.append(piece.data(), size);
  }
  const int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, std::move(text)};
}

// In the folders of PATH, in those that the toolkit's variables name, in its usual one.
std::string find_nvcc() {
  std::vector<std::string> folders;
  if (const char* path = std::getenv("PATH")) {
    std::istringstream list(path);
    for (std::string folder; std::getline(list, folder, ':');) folders.push_back(folder);
  }
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* root = std::getenv(variable)) folders.push_back(std::string(root) + "/bin");
  }
  folders.push_back("/usr/local/cuda/bin");
  for (const std::string& folder : folders) {
    const std::string nvcc = folder + "/nvcc";
    if (access(nvcc.c_str(), X_OK) == 0) return nvcc;
  }
  return "";
}

// "Cuda compilation tools, release 13.0, V13.0.88": 13; 0 where it says something else.
int release_of(const std::string& nvcc) {
  const std::string text = run(fmt::format("'{}' --version", nvcc)).text;
  const size_t at = text.find("release ");
  return at == text.npos ? 0 : std::atoi(text.c_str() + at + 8);
}

TEST(Nvcc, CompilesAUsersKernelForEveryArchitecture) {
  const std::string nvcc = find_nvcc();
  if (nvcc.empty()) {
    GTEST_SKIP() << "[SKIP] no nvcc in PATH, CUDA_HOME/bin, CUDA_PATH/bin or /usr/local/cuda/bin";
  }
  const int release = release_of(nvcc);
  if (release < 12) {
    GTEST_SKIP() << "[SKIP] " << nvcc << " is of release " << release << "; sm_90a needs 12";
  }
  const std::string object =
      (std::filesystem::temp_directory_path() / fmt::format("stretto_nvcc_{}.o", getpid()))
          .string();
  const Ended ended = run(fmt::format(
      "'{}' -std=c++20 -Werror all-warnings -Xcompiler -Wall,-Wextra -I '{}/../../include' "
      "-gencode arch=compute_80,code=sm_80 -gencode arch=compute_89,code=sm_89 "
      "-gencode arch=compute_90a,code=sm_90a -c '{}/user_kernel.cu' -o '{}'",
      nvcc, STRETTO_TEST_DIR, STRETTO_TEST_DIR, object));
  EXPECT_EQ(ended.code, 0) << ended.text;
  EXPECT_TRUE(std::filesystem::exists(object));
  std::filesystem::remove(object);
}

}  // namespace
}  // namespace stretto
