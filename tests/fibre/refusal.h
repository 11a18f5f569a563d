// What the host says of arguments before a launch; of memory that only has an address.
#pragma once

#include <cstdint>
#include <string>

#include "lang/lang_arguments.h"
#include "stretto/error.h"

namespace stretto::fibre {

// All memory is symmetric.
inline constexpr uint64_t kAllMemory = ~uint64_t{0};

template <class Args>
std::string refusal(const Args& args, int ranks, int blocks,
                    const cuda::Heap& heap = {nullptr, kAllMemory}) {
  try {
    cuda::check_arguments(args, {ranks, blocks, heap});
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

// Of good arguments for two ranks of eight blocks, changed.
template <class Args, class Change>
std::string refusal_with(Args args, Change change) {
  change(args);
  return refusal(args, 2, 8);
}

template <class T>
T* address(uint64_t at) {
  return reinterpret_cast<T*>(at);
}

}  // namespace stretto::fibre
