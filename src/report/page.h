// Pages that need no other file: the frame (page/frame.html) filled with its style, its body, its
// code and its data.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace stretto {

// Text as HTML and SVG show it.
std::string escaped(std::string_view text);

// `body` and `code` are files of src/report/page; `json` is what the page shows, as text.
std::string fill_page(std::string_view body, std::initializer_list<std::string_view> code,
                      std::string_view title, std::string_view json);

// The page on a model: `json` is the object of `stretto model --json`.
std::string model_page(std::string_view title, std::string_view json);

}  // namespace stretto
