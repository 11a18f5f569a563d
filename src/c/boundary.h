// What every function of the C interface does at its edge: no exception leaves it, and texts that
// it hands out outlive it.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>

#include "stretto/error.h"
#include "stretto/segment.h"

namespace stretto::c {

// What the work threw becomes the function's result and the thread's last error.
int guarded(const std::function<void()>& work);

// Keeps a text for the calling thread until its next function; `slot` is 0 or 1, since a function
// may hand out two.
const char* keep(int slot, std::string text);

// Arguments that must not be NULL, each named as in the header; throws UsageError.
[[noreturn]] inline void refuse_null(std::string_view name) {
  throw UsageError(fmt::format("{} is NULL; it must point to something", name));
}
template <typename T>
const T& require(const T* argument, std::string_view name) {
  if (argument == nullptr) refuse_null(name);
  return *argument;
}
template <typename T>
T& require(T* argument, std::string_view name) {
  if (argument == nullptr) refuse_null(name);
  return *argument;
}

std::string_view text_of(const char* argument, std::string_view name);
DType dtype_of(const char* dtype);

}  // namespace stretto::c
