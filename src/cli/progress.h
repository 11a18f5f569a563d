// A line on standard error that says how far long work is. Only on a terminal; silent otherwise.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace stretto::cli {

// A thread draws, so that work which says nothing for long is seen to go on.
class Progress {
 public:
  Progress();
  ~Progress();  // wipes the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // What is being done; `share` is 0..1.
  void show(const std::string& doing, double share);

 private:
  void keep_drawing();
  void draw();

  const std::chrono::steady_clock::time_point begin_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_ended_ = false;
  std::string doing_;
  double share_ = 0;
  std::string drawn_;  // the line on the terminal
  std::thread drawer_;
};

}  // namespace stretto::cli
