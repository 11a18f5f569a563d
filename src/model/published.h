// The data file of published models: one object, each model's name with the keys of its config.json
// that say its sizes, and its source.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "core/embedded_text.h"
#include "model/model.h"

namespace stretto {

std::span<const EmbeddedText> shipped_models();
// Throws UsageError.
std::vector<Model> parse_published(std::string_view text, std::string_view file_name);

}  // namespace stretto
