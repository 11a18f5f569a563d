// Names that may be of something known, or of a file.
#pragma once

#include <string_view>

namespace stretto {

// "folder/NAME" and "NAME.json" are a file's.
inline bool is_json_path(std::string_view name) {
  return name.find('/') != std::string_view::npos || name.ends_with(".json");
}

}  // namespace stretto
