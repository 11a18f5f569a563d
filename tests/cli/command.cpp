#include "cli/command.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace stretto {
namespace {

// For the shell, which only redirects; every argument arrives as it is.
std::string shell_word(const std::string& text) {
  std::string word = "'";
  for (char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

}  // namespace

std::string why_not_timed(const std::vector<std::string>& run) {
  constexpr int kSystemFault = 3;
  if (std::getenv("STRETTO_RANKS_A_GPU") != nullptr) return "ranks that share GPUs are not timed";
  const Said probe = stretto_says(run);
  return probe.exit_code == kSystemFault ? probe.err : "";
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Said stretto_says(const std::vector<std::string>& arguments, const std::string& redirection) {
  const ScratchFolder scratch;
  std::string command = "COLUMNS=${COLUMNS:-100} " + shell_word(STRETTO_BINARY);
  for (const std::string& argument : arguments) {
    command += ' ';
    command += shell_word(argument);
  }
  command +=
      " </dev/null >" + shell_word(scratch.path("out")) + " 2>" + shell_word(scratch.path("err"));
  command += " " + redirection;
  const int status = std::system(command.c_str());
  Said said;
  said.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  said.out = content_of(scratch.path("out"));
  said.err = content_of(scratch.path("err"));
  return said;
}

ScratchFolder::ScratchFolder() {
  std::string pattern = testing::TempDir() + "/stretto_cli_XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no scratch folder");
  folder_ = pattern;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string ScratchFolder::file(const std::string& name, const std::string& content) const {
  std::ofstream(path(name), std::ios::binary) << content;
  return path(name);
}

std::vector<std::string> small_operator() {
  return {"gemm-rs", "--m", "192", "--n", "160", "--k", "128", "--ranks", "4"};
}

std::vector<std::string> operator+(std::vector<std::string> left,
                                   const std::vector<std::string>& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

}  // namespace stretto
