// The order in which a rank computes its tiles, and the kernels and waves that this makes.
#pragma once

#include <cstdint>
#include <vector>

namespace stretto {

// Tiles between two kernel boundaries: positions [first, last) of the order. Each takes as many
// tasks in a row as K has ranges. Task i of the kernel runs on compute lane i mod lanes, in wave
// first_wave + i / lanes.
struct TileKernel {
  int32_t first = 0, last = 0;
  int32_t first_wave = 0, end_wave = 0;
  bool opens = false;   // a boundary comes first: it awaits others' data
  bool closes = false;  // a boundary comes last: others await its data
};

struct TileOrder {
  std::vector<int32_t> tiles;      // in order
  std::vector<int32_t> position;   // by tile
  std::vector<int32_t> done_wave;  // by tile: the wave after which its data can be signalled
  std::vector<TileKernel> kernels;
  int32_t waves = 0;
};

}  // namespace stretto
