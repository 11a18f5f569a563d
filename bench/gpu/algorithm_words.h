// What cuBLAS says of an algorithm of its own: its number, tile, stages and so on, by name.
#pragma once

#include <nlohmann/json.hpp>

#include "gpu/library_matmul.h"

namespace stretto::bench {

class AlgorithmWords {
 public:
  AlgorithmWords();  // throws SystemError where cuBLAS cannot say
  nlohmann::json of(const cuda::LibraryMatmul::Algorithm& algorithm) const;

 private:
  cuda::DynamicLibrary library_;
  int (*get_)(const void*, int, void*, size_t, size_t*) = nullptr;
};

}  // namespace stretto::bench
