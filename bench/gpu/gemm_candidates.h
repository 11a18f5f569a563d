// What gemm_bench times: the shapes of the baseline table, and kernels for a shape.
#pragma once

#include <cstdint>
#include <vector>

#include "launch/gemm_choice.h"
#include "product_shape.h"
#include "stretto/device/gemm_task.h"

namespace stretto::bench {

using device::GemmConfig;
using device::OutputType;
using device::Shared;

// One rank's GEMM of every row of the baseline table, 8 ranks.
inline std::vector<Shape> baseline_shapes() {
  std::vector<Shape> shapes;
  const Shape local[] = {{0, 7168, 8192}, {0, 6144, 12288}, {0, 3584, 4096}, {0, 1280, 8192},
                         {0, 8192, 3584}, {0, 12288, 6144}, {0, 4096, 1792}, {0, 8192, 1024}};
  for (const Shape& shape : local) {
    for (const int64_t m : {512, 1024, 2048, 4096, 8192}) shapes.push_back({m, shape.n, shape.k});
  }
  return shapes;
}

struct Candidate {
  GemmConfig config;
  int band;
  int ranges = 1;  // of K, as tasks of their own: a plan of one rank
};

inline std::vector<GemmConfig> configs() {
  std::vector<GemmConfig> all;
  const auto add = [&](int m, int n, int stages, int consumers, Shared shared,
                       bool overlap = true) {
    all.push_back({m, n, stages, consumers, shared, true, OutputType::bf16, overlap});
  };
  for (const Shared shared : {Shared::b, Shared::a, Shared::none}) {
    add(128, 256, 4, 2, shared);
    add(128, 224, 4, 2, shared);
    add(128, 192, 4, 2, shared);
    add(128, 160, 5, 2, shared);
    add(128, 128, 6, 2, shared);
    add(128, 96, 6, 2, shared);
    add(256, 128, 4, 2, shared);
    add(64, 256, 5, 1, shared);
  }
  add(128, 256, 4, 2, Shared::b, false);
  return all;
}

inline std::vector<Candidate> candidates(bool quick) {
  std::vector<Candidate> all;
  for (const GemmConfig& config : configs()) {
    if (quick) {
      all.push_back({config, 8});
    } else {
      for (const int band : {4, 8, 16, 32}) all.push_back({config, band});
    }
  }
  return all;
}

// Where tiles leave SMs idle.
inline void add_split(const Shape& shape, int sms, std::vector<Candidate>& all) {
  for (const int columns : {64, 96, 128, 192}) {
    const int64_t tiles = (shape.m + 127) / 128 * ((shape.n + columns - 1) / columns);
    for (const int ranges : {2, 3, 4}) {
      if (tiles >= sms) continue;
      GemmConfig config = cuda::config_of(DType::bf16, DType::bf16, 128, columns);
      config.splits = true;
      all.push_back({config, 8, ranges});
    }
  }
}

}  // namespace stretto::bench
