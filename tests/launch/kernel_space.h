// All GEMM kernels that a plan can ask for, and some more that there are.
#pragma once

#include <algorithm>
#include <array>
#include <iterator>
#include <queue>
#include <set>
#include <utility>
#include <vector>

#include "gpu/gemm_kernel.h"
#include "launch/gemm_choice.h"

namespace stretto::cuda {

constexpr int kMostSources = 7;  // on the 8 ranks of a node

// Every tile, of both input types, with every set of what a kernel can do beside multiplying, as
// far as why_illegal() lets it.
inline std::vector<device::GemmConfig> every_kernel() {
  std::vector<device::GemmConfig> all;
  const auto add = [&](const device::GemmConfig& config) {
    if (why_illegal(config).empty()) all.push_back(config);
  };
  const auto add_tile = [&](device::GemmConfig config, int step_of_adds) {
    for (int does = 0; does < 64; ++does) {
      config.serves = (does & 1) != 0;
      config.splits = (does & 2) != 0;
      config.phases = (does & 4) != 0;
      config.moves = (does & 8) != 0;
      config.sources = (does & 16) != 0;
      config.norms = (does & 32) != 0;
      for (config.adds = 0; config.adds <= kMostSources; config.adds += step_of_adds) add(config);
      config.adds = 0;
      for (const device::Shared shared : {device::Shared::a, device::Shared::b}) {
        config.shared = shared;
        add(config);
      }
      config.shared = device::Shared::none;
    }
  };
  // What follows takes the same registers from one source as from many, of silu as of gelu, and of
  // both 16-bit types.
  const auto add_followers = [&](device::GemmConfig config) {
    if (!config.bf16) return;
    for (const device::Follower follower :
         {device::Follower::none, device::Follower::swiglu, device::Follower::gelu}) {
      config.follower = follower;
      config.bias = true;
      add_tile(config, kMostSources);
      config.bias = false;
      if (follower != device::Follower::none) add_tile(config, kMostSources);
    }
  };
  for (const DType input : {DType::bf16, DType::fp16}) {
    for (const DType output : {input, DType::fp32}) {
      for (const int rows : {64, 128, 256}) {
        for (const int columns : {64, 96, 128, 160, 192, 224, 256}) {
          if (rows * columns > 128 * 256) continue;
          add_tile(config_of(input, output, rows, columns), 1);
          add_followers(config_of(input, output, rows, columns));
        }
      }
    }
  }
  return all;
}

// No source, one, some or the most: each more is one more term of the same sum.
inline int sort_of_sources(const device::GemmConfig& config) {
  return config.adds < 2 ? config.adds : config.adds < kMostSources ? 2 : 3;
}

// Every two of its choices, each by its place and what it is. With a tile only the most sources
// count: fewer take no more registers.
inline std::vector<std::array<int, 4>> choices_by_two(const device::GemmConfig& config) {
  constexpr int kTile = 0, kAdded = 1;
  const int choices[] = {config.tile_m * 1000 + config.tile_n,
                         sort_of_sources(config),
                         config.bf16,
                         static_cast<int>(config.output),
                         static_cast<int>(config.shared),
                         config.serves,
                         config.splits,
                         config.phases,
                         config.sources,
                         config.moves,
                         config.norms,
                         static_cast<int>(config.follower),
                         config.bias};
  std::vector<std::array<int, 4>> pairs;
  for (int i = 0; i < static_cast<int>(std::size(choices)); ++i) {
    for (int j = 0; j < i; ++j) {
      if (i == kAdded && j == kTile && config.adds < kMostSources) continue;
      pairs.push_back({i, choices[i], j, choices[j]});
    }
  }
  return pairs;
}

// Those that tests compile every time, minutes of work instead of two hours: all of one input type
// that have a register budget of their own, and of the others so many that every two choices (of
// tile, types, sort of sources and each thing that a kernel does) meet in one of them wherever they
// may. Next comes always one that has the most that is new.
inline std::vector<device::GemmConfig> kernels_of_each_sort() {
  const std::vector<device::GemmConfig> all = every_kernel();
  std::vector<device::GemmConfig> some;
  std::set<std::array<int, 4>> met;
  const auto take = [&](const device::GemmConfig& config) {
    some.push_back(config);
    for (const auto& pair : choices_by_two(config)) met.insert(pair);
  };
  std::priority_queue<std::pair<size_t, size_t>> waiting;  // how much was new, and which
  for (size_t i = 0; i < all.size(); ++i) {
    const bool has_own_budget = device::registers_of(all[i]) != device::registers_of({}) &&
                                all[i].bf16 && !all[i].bias &&
                                all[i].follower == device::Follower::none;
    if (has_own_budget) take(all[i]);
    waiting.emplace(choices_by_two(all[i]).size(), i);
  }
  while (!waiting.empty()) {
    const size_t i = waiting.top().second;
    waiting.pop();
    const auto pairs = choices_by_two(all[i]);
    const auto num_new = static_cast<size_t>(std::count_if(
        pairs.begin(), pairs.end(), [&](const auto& pair) { return met.count(pair) == 0; }));
    if (num_new == 0) continue;
    // What is new of one only becomes less.
    if (waiting.empty() || num_new >= waiting.top().first) {
      take(all[i]);
    } else {
      waiting.emplace(num_new, i);
    }
  }
  return some;
}

}  // namespace stretto::cuda
