#include "product_shape.h"

#include <sstream>

#include "core/file.h"
#include "core/text.h"
#include "stretto/error.h"

namespace stretto::bench {
namespace {

Shape shape_from(const std::string& word) {
  std::vector<int64_t> sizes;
  for (const std::string_view part : split(word, 'x')) {
    const auto value = int_from(part);
    if (!value || *value < 1) throw UsageError("a shape is MxNxK, not '" + word + "'");
    sizes.push_back(*value);
  }
  if (sizes.size() != 3) throw UsageError("a shape is MxNxK, not '" + word + "'");
  return {sizes[0], sizes[1], sizes[2]};
}

}  // namespace

std::vector<Shape> shapes_from(const std::vector<std::string>& words) {
  std::vector<Shape> shapes;
  for (const std::string& word : words) shapes.push_back(shape_from(word));
  return shapes;
}

std::vector<Shape> shapes_of_file(const std::string& path) {
  std::istringstream lines(read_file(path, 1 << 20));
  std::vector<Shape> shapes;
  Shape shape{};
  while (lines >> shape.m >> shape.n >> shape.k) shapes.push_back(shape);
  if (shapes.empty() || !lines.eof()) throw UsageError(path + ": each line is 'm n k'");
  return shapes;
}

}  // namespace stretto::bench
