// Compression that every browser and every language undoes: raw DEFLATE (RFC 1951), in base64.
#pragma once

#include <string>
#include <string_view>

namespace stretto {

std::string deflate(std::string_view bytes);
std::string base64(std::string_view bytes);

}  // namespace stretto
