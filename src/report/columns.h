// Many records of whole numbers, as text that a page unpacks: column by column, each number as the
// difference to the one above it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "report/deflate.h"

namespace stretto {

class Columns {
 public:
  explicit Columns(size_t columns) : bytes_(columns), before_(columns, 0) {}

  void add(std::initializer_list<int64_t> record) {
    size_t column = 0;
    for (const int64_t value : record) {
      const auto change = static_cast<uint64_t>(value) - static_cast<uint64_t>(before_[column]);
      // The sign last, so that small changes are small numbers.
      uint64_t left = change << 1 ^ (static_cast<int64_t>(change) < 0 ? ~uint64_t{0} : 0);
      for (; left >= 0x80; left >>= 7) bytes_[column] += static_cast<char>(left | 0x80);
      bytes_[column] += static_cast<char>(left);
      before_[column++] = value;
    }
    ++records_;
  }
  size_t records() const { return records_; }

  std::string pack() const {
    std::string all;
    for (const std::string& column : bytes_) all += column;
    return base64(deflate(all));
  }

 private:
  std::vector<std::string> bytes_;
  std::vector<int64_t> before_;
  size_t records_ = 0;
};

}  // namespace stretto
