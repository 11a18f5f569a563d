// Commands that time plans of a small operator on two GPUs, from one process and from one a GPU.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/command.h"
#include "skip.h"

namespace stretto {

class TimedCommand : public testing::TestWithParam<bool> {  // whether of one process a GPU
 protected:
  void SetUp() override {
    const std::string why =
        why_not_timed(line("run", {"--target", "cuda", "--strategy", "sequential"}));
    if (!why.empty()) STRETTO_SKIP(why);
  }

  static std::vector<std::string> line(const char* verb, const std::vector<std::string>& more) {
    return std::vector<std::string>{verb,   "gemm-rs", "--m", "512",     "--n",
                                    "1024", "--k",     "512", "--ranks", "2"} +
           more;
  }
  static Said said_of(const char* verb, const std::vector<std::string>& more) {
    const std::vector<std::string> jobs = {"launch", "-n", "2", "--", STRETTO_BINARY};
    return stretto_says(GetParam() ? jobs + line(verb, more) : line(verb, more));
  }

  ScratchFolder folder_;
};

inline std::string name_of_processes(const testing::TestParamInfo<bool>& info) {
  return info.param ? "OneProcessAGpu" : "OneProcess";
}

}  // namespace stretto
