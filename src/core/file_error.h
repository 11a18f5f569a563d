// What a system call said of a file, as an error.
#pragma once

#include <string>
#include <string_view>

namespace stretto {

// Throws SystemError: "cannot read 'x': No such file or directory", by `errno`.
[[noreturn]] void fail_at(std::string_view doing, const std::string& path);

}  // namespace stretto
