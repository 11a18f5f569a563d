// What of Stretto works on this machine, found out piece by piece and without changing anything.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stretto::cli {

// good: there, and usable. absent: not there, and not needed by all. wrong: there, and to be
// mended.
enum class State : uint8_t { good, absent, wrong };
std::string_view to_string(State state);

struct Finding {
  std::string name;
  State state = State::good;
  std::string found;       // one line
  std::string to_do = "";  // what would make it good; may be empty where it is
};

// What a user may want to do here.
struct Ability {
  std::string what;
  bool works = true;
  std::string lacks = "";  // the findings that are not good
};

struct Health {
  std::vector<Finding> findings;
  std::vector<Ability> abilities;
};

// Asks the driver and the libraries, which takes a moment where there are GPUs.
Health look_around();

}  // namespace stretto::cli
