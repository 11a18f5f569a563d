// What can be used of a tuning file that may have entries which cannot.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stretto/tune.h"

namespace stretto {

struct UsableTuning {
  struct Skipped {
    std::string why;     // with the file and the place
    std::string commit;  // as far as the entry says it
  };
  Tuning tuning;
  std::vector<Skipped> skipped;
};

// As parse_tuning(), but an entry that it would refuse is skipped. Throws UsageError where the file
// is none of this version.
UsableTuning parse_usable_tuning(std::string_view text, std::string_view file_name);

}  // namespace stretto
