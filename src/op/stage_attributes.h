// What a stage of a graph is told behind its operands, as NAME=VALUE.
#pragma once

#include <string>
#include <string_view>

#include "op/graph_words.h"

namespace stretto {

// Of a stage whose kind is known: reads the value of the attribute `key`, which stands at `where`.
bool read_attribute(GraphWords& words, StageText& stage, std::string_view key, TextPlace where);
// What a stage of that kind must be told and this one is not; empty: nothing.
std::string missing_attribute(const StageText& stage);

}  // namespace stretto
