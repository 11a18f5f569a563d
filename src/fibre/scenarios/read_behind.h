// What follows a call on its stream: a kernel that reads what the call left. The host looks only
// after all ranks have ended, when all that was on its way has arrived.
#pragma once

#include "stretto/fibre/world.h"

namespace stretto::fibre {

// Reads count(rank) elements of each rank's memory and gives a copy that nobody writes again.
template <class T, class Count>
Buffer<T> read_behind(World& world, const Buffer<T>& output, Count count, int stream = 0) {
  const auto kept = world.local<T>("kept", output.size());
  const Shape& shape = world.shape();
  for (int rank = 0; rank < shape.ranks; ++rank) {
    world.launch_on(rank, stream, shape.blocks, shape.threads, [=](Block& block) {
      const auto step = static_cast<size_t>(block.num_blocks() * block.num_threads());
      auto i = static_cast<size_t>(block.block_idx() * block.num_threads() + block.thread_idx());
      for (; i < count(rank); i += step) {
        const T value = output.at(rank)[i];
        kept.at(rank)[i] = value;
      }
    });
  }
  return kept;
}

// All of it.
template <class T>
Buffer<T> read_behind(World& world, const Buffer<T>& output, int stream = 0) {
  return read_behind(
      world, output, [size = output.size()](int) { return size; }, stream);
}

}  // namespace stretto::fibre
