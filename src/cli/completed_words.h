// What may stand behind a verb or an option, for the scripts of shells.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stretto::cli {

// What a value may be; empty for numbers and free texts.
struct Values {
  std::vector<std::string> words;
  bool is_file = false;  // a file's name, too
  bool is_list = false;  // several words, separated by commas
};

struct CompletedOption {
  std::vector<std::string> names;  // "-o", "--output"
  std::string meaning;
  bool has_value = false;
  Values values;
};

struct CompletedVerb {
  std::string name, meaning;
  std::vector<CompletedOption> options;
  Values words;  // of the first word behind the verb
};

// Of every verb, from the options that the command line has.
std::vector<CompletedVerb> completed_verbs();

}  // namespace stretto::cli
