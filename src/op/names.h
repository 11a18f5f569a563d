// What an element type may be called, for the messages about what is none.
#pragma once

#include <string>
#include <string_view>

#include "stretto/segment.h"

namespace stretto {

inline constexpr std::string_view kDTypeNames[] = {
#define STRETTO_NAME(name, text, bytes, bits) text,
    STRETTO_DTYPES(STRETTO_NAME)
#undef STRETTO_NAME
};

// What is wrong with a name that is none of these, and which is meant by one that others have.
std::string unknown_dtype(std::string_view name);

}  // namespace stretto
