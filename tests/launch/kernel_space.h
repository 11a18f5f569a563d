// All GEMM kernels that a plan can ask for, and some more that there are.
#pragma once

#include <array>
#include <iterator>
#include <set>
#include <vector>

#include "gpu/gemm_kernel.h"
#include "launch/gemm_choice.h"

namespace stretto::cuda {

// Every tile, of both input types, with every set of what a kernel can do beside multiplying, as
// far as why_illegal() lets it.
inline std::vector<device::GemmConfig> every_kernel() {
  constexpr int kMostSources = 7;  // on the 8 ranks of a node
  std::vector<device::GemmConfig> all;
  const auto add = [&](const device::GemmConfig& config) {
    if (why_illegal(config).empty()) all.push_back(config);
  };
  const auto add_tile = [&](device::GemmConfig config, int step_of_adds) {
    for (int does = 0; does < 16; ++does) {
      config.serves = (does & 1) != 0;
      config.splits = (does & 2) != 0;
      config.phases = (does & 4) != 0;
      config.moves = (does & 8) != 0;
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

// Those that tests compile every time, minutes of work instead of two hours: all that have a
// register budget of their own, and of the others so many that every two choices (of tile, types,
// sources and each thing that a kernel does) meet in one of them wherever they may.
inline std::vector<device::GemmConfig> kernels_of_each_sort() {
  const std::vector<device::GemmConfig> all = every_kernel();
  const auto has_own_budget = [](const device::GemmConfig& config) {
    return device::registers_of(config) != device::registers_of({}) &&
           config.follower == device::Follower::none && !config.bias;
  };
  std::set<std::array<int, 4>> met;  // two choices, each by its place and what it is
  const auto meets_anew = [&](const device::GemmConfig& c) {
    const int choices[] = {c.tile_m * 1000 + c.tile_n,
                           c.bf16,
                           static_cast<int>(c.output),
                           static_cast<int>(c.shared),
                           c.serves,
                           c.splits,
                           c.phases,
                           c.moves,
                           c.adds,
                           static_cast<int>(c.follower),
                           c.bias};
    bool is_new = false;
    for (int i = 0; i < static_cast<int>(std::size(choices)); ++i) {
      for (int j = 0; j < i; ++j) is_new |= met.insert({i, choices[i], j, choices[j]}).second;
    }
    return is_new;
  };
  std::vector<device::GemmConfig> some;
  for (size_t i = 0; i < all.size(); ++i) {
    // In great steps, so that those that follow one another differ in much.
    const device::GemmConfig& config = all[i * 1009 % all.size()];
    if (has_own_budget(config) || meets_anew(config)) some.push_back(config);
  }
  return some;
}

}  // namespace stretto::cuda
