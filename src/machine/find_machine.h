// Where machine files lie: in the folders of STRETTO_MACHINE_PATH, then inside the binary.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stretto {

// A machine's name: letters, digits, '-', '_' and '.', not beginning with '.'; never a path.
bool is_machine_name(std::string_view name);

// The content of `name`.json where it is found first. Throws UsageError listing what there
// is when none has.
std::string read_machine_file(std::string_view name);

}  // namespace stretto
