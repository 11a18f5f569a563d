// Errors, by audience. Throw for what ends the operation; return values for what callers expect.
#pragma once

#include <stdexcept>
#include <string>

namespace stretto {

// The caller asked for something that cannot be: says what is wrong and what would be right.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The world failed us: a file, a device, memory. Names the thing and the system's reason.
class SystemError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A bug of Stretto's own; carries file and line. Never raised by user input.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void fail_internal(const char* file, int line, const std::string& what);

// States an invariant of our own code; user input is checked with UsageError instead.
#define STRETTO_ASSERT(condition, what)                                   \
  do {                                                                    \
    if (!(condition)) ::stretto::fail_internal(__FILE__, __LINE__, what); \
  } while (false)

}  // namespace stretto
