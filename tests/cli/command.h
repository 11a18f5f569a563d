// Runs the built `stretto` binary as a user would, and keeps what it said.
#pragma once

#include <string>
#include <vector>

namespace stretto {

struct Said {
  int exit_code = -1;  // 128 + signal when it was killed
  std::string out, err;
};

// `arguments` as a shell would pass them; standard input is /dev/null. `redirection` is a shell's,
// and comes after the one that keeps what is said: ">/dev/full".
Said stretto_says(const std::vector<std::string>& arguments, const std::string& redirection = "");

// A folder of the running test's own, removed with the object.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  // Writes a file into the folder and returns its path.
  std::string file(const std::string& name, const std::string& content) const;

 private:
  std::string folder_;
};

// Why times of GPUs cannot be asked for here, by a run that needs them; empty where they can.
std::string why_not_timed(const std::vector<std::string>& run);

std::string content_of(const std::string& path);

// A small operator that every strategy serves, as arguments.
std::vector<std::string> small_operator();

std::vector<std::string> operator+(std::vector<std::string> left,
                                   const std::vector<std::string>& right);

}  // namespace stretto
