// A program that the command runs and waits for.
#pragma once

#include <csignal>
#include <string>
#include <vector>

namespace stretto::cli {

// Signals that would end the command end that program instead, as long as there is one of these;
// the command ends by them as it goes. So what was made for the program can be cleared up before.
// One at a time.
class Child {
 public:
  Child();
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Of the program with its arguments, which is looked for on PATH, and given to no shell: the
  // status that it ended with, its words in the file `said`. -1: there is no such program. Throws
  // SystemError, also where a signal has come.
  int run(const std::vector<std::string>& words, const std::string& said);

 private:
  static constexpr int kSignals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
  struct sigaction before_[std::size(kSignals)] = {};
};

}  // namespace stretto::cli
