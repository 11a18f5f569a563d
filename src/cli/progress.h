// A line on standard error that says how far long work is. Only on a terminal; silent otherwise.
#pragma once

#include <chrono>
#include <string>

namespace stretto::cli {

class Progress {
 public:
  Progress();
  ~Progress();  // wipes the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // What is being done; `share` is 0..1. Redraws at most some times a second.
  void show(const std::string& doing, double share);

 private:
  bool enabled_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point next_draw_;
};

}  // namespace stretto::cli
