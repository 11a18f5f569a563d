// What an element type may be called, for the messages about what is none.
#pragma once

#include <string_view>

#include "stretto/segment.h"

namespace stretto {

inline constexpr std::string_view kDTypeNames[] = {
#define STRETTO_NAME(name, text, bytes, bits) text,
    STRETTO_DTYPES(STRETTO_NAME)
#undef STRETTO_NAME
};

}  // namespace stretto
