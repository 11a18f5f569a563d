#include "algorithm_words.h"

#include <fmt/format.h>

#include <utility>

#include "stretto/error.h"

namespace stretto::bench {
namespace {

// Values of cublasLtMatmulAlgoConfigAttributes_t.
constexpr std::pair<const char*, int> kWords[] = {{"id", 0},        {"tile", 1},    {"split_k", 2},
                                                  {"reduction", 3}, {"swizzle", 4}, {"custom", 5},
                                                  {"stages", 6}};
constexpr std::pair<const char*, int> kHalfWords[] = {{"inner", 7}, {"cluster", 8}};

}  // namespace

AlgorithmWords::AlgorithmWords() : library_(cuda::open_cublas_lt()) {
  const cuda::Import imports[] = {
      {"cublasLtMatmulAlgoConfigGetAttribute", reinterpret_cast<void**>(&get_)}};
  if (const char* missing = cuda::import_all(library_, imports)) {
    throw SystemError(fmt::format("cuBLAS lacks {}", missing));
  }
}

nlohmann::json AlgorithmWords::of(const cuda::LibraryMatmul::Algorithm& algorithm) const {
  nlohmann::json words;
  const auto ask = [&](const auto& names, auto value) {
    size_t written = 0;
    for (const auto& [name, attribute] : names) {
      if (get_(&algorithm, attribute, &value, sizeof(value), &written) == 0) words[name] = value;
    }
  };
  ask(kWords, uint32_t{0});
  ask(kHalfWords, uint16_t{0});
  return words;
}

}  // namespace stretto::bench
