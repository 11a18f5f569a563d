#include "report/deflate.h"

#include <zlib.h>

#include <algorithm>
#include <cstdint>

#include "stretto/error.h"

namespace stretto {

std::string deflate(std::string_view bytes) {
  constexpr int kWithoutHeader = -15, kMemory = 9;
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kWithoutHeader, kMemory,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    throw SystemError("zlib has no memory to pack a report");
  }
  std::string packed(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(std::min<size_t>(packed.size(), UINT32_MAX));
  const bool fits = bytes.size() <= UINT32_MAX;
  const bool is_whole = fits && ::deflate(&stream, Z_FINISH) == Z_STREAM_END;
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  if (!fits) throw SystemError("a report's data is larger than 4 GiB: take fewer schedules");
  if (!is_whole) throw SystemError("zlib could not pack a report's data");
  return packed;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) {
      group = group << 8 | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    }
    for (size_t j = 0; j < 4; ++j) {
      out += j <= count ? kDigits[group >> (18 - 6 * j) & 63] : '=';
    }
  }
  return out;
}

}  // namespace stretto
