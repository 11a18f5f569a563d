// What an operator and an element type may be called, for the messages about what is neither.
#pragma once

#include <string_view>

#include "stretto/operator.h"

namespace stretto {

inline constexpr std::string_view kOperatorNames[] = {
#define STRETTO_NAME(name, text, description) text,
    STRETTO_OPERATORS(STRETTO_NAME)
#undef STRETTO_NAME
};

inline constexpr std::string_view kDTypeNames[] = {
#define STRETTO_NAME(name, text, bytes, bits) text,
    STRETTO_DTYPES(STRETTO_NAME)
#undef STRETTO_NAME
};

}  // namespace stretto
