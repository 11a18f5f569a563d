// A page of docs/ as a test sees it: the commands that it has, what it shows of their output, and
// the files in its fences.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"

namespace stretto {

struct Step {
  std::string command;
  std::vector<std::string> shown;  // what the page shows of its output
};

struct File {
  std::string name, content;
};

struct Page {
  std::vector<Step> steps;
  std::vector<File> files;  // a name with a slash is the repository's, of which it is a part
};

// "    $ COMMAND" and the lines below it, up to prose; "```LANGUAGE NAME" and what it encloses.
Page parse_page(const std::string& text);

// The first of the shown lines that is not in what the command said, in their order; empty when
// all are. Of numbers, which a better simulator would change, only the place is compared.
std::string not_shown(const Step& step, const std::string& said);

// Words behind one blank each, without charts, and with # for a number: columns stay apart.
std::string places_of(const std::string& line);

// Runs commands in a folder of the test's own, where `stretto` is the one that was built.
class Shell {
 public:
  explicit Shell(std::string preamble = "") : preamble_(std::move(preamble)) {}
  struct Said {
    int exit_code = -1;
    std::string output;  // standard output and standard error together
  };
  Said run(const std::string& command) const;
  const ScratchFolder& folder() const { return scratch_; }

 private:
  std::string preamble_;  // lines of sh before each command
  ScratchFolder scratch_;
};

}  // namespace stretto
