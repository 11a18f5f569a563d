// What gemm_bench times: the shapes of the baseline table, and kernels for a shape.
#pragma once

#include <algorithm>
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

// With as many stages as an SM has room for, and no more than hide a load.
inline GemmConfig tile_of(int m, int n, Shared shared) {
  constexpr int kOthers = 1024 + 512, kChunks = 16384, kMostStages = 12;
  const int consumers = m == 64 ? 1 : 2;
  const int stages = (device::kSharedBytesOfHopper - kOthers - consumers * kChunks) /
                     (2 * device::kTileK * (m + n));
  return {m, n, std::min(stages, kMostStages), consumers, shared, true, OutputType::bf16, true};
}

inline std::vector<GemmConfig> configs() {
  std::vector<GemmConfig> all;
  for (const int n : {64, 96, 128, 160, 192, 224, 256}) {
    all.push_back(tile_of(128, n, Shared::none));
    all.push_back(tile_of(128, n, Shared::b));
    if (n >= 128) all.push_back(tile_of(128, n, Shared::a));
    all.push_back(tile_of(64, n, Shared::none));
  }
  for (const int n : {64, 96, 128}) all.push_back(tile_of(256, n, Shared::none));
  for (const Shared shared : {Shared::a, Shared::b}) all.push_back(tile_of(256, 128, shared));
  GemmConfig alone = tile_of(128, 256, Shared::b);
  alone.overlap_store = false;
  all.push_back(alone);
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
