// Graphs that nobody ships, in tuning files: an entry has the text, which says what the name means.
#pragma once

#include <string>

#include "stretto/operator.h"

namespace stretto {

// The graph's text; empty where the operator is a shipped one.
std::string text_of_own(const Operator& op);

// Whether a tuning file may have it: its text is not too long, and what is one product alone goes
// by its sizes.
bool can_be_filed(const Operator& op);

}  // namespace stretto
