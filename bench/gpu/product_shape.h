// The shape of a product of one GPU, and lists of shapes as users write them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stretto::bench {

struct Shape {
  int64_t m, n, k;
};

// Of words "MxNxK". Throws UsageError.
std::vector<Shape> shapes_from(const std::vector<std::string>& words);
// Of a file with a line "m n k" for each, at least one. Throws UsageError.
std::vector<Shape> shapes_of_file(const std::string& path);

}  // namespace stretto::bench
