// Where machine files lie: in the folders of STRETTO_MACHINE_PATH, then inside the binary.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stretto {

// A machine's name: letters, digits, '-', '_' and '.', not beginning with '.'; never a path.
bool is_machine_name(std::string_view name);

struct MachineFile {
  std::string text;
  std::string name;  // for messages: its path, or `name`.json of those inside the binary
};

// The file that load_machine() takes this name from: the name where that is a path, `name`.json in
// one of the folders; empty where it is none of these.
std::string machine_file_of(std::string_view name);

// That file, or `name`.json inside the binary. Throws UsageError listing what there is when none
// has.
MachineFile read_machine_file(std::string_view name);
// The same of names only: what a machine's file says must not make us read just any file.
MachineFile read_machine_named(std::string_view name);

}  // namespace stretto
