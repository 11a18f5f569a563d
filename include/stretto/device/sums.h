// The two things that movers do with what a thread holds in registers: add up sources in fp32 in
// their order, and store what was loaded or summed once to every destination. Of plans' movers,
// from the stages of their ring, and of kernels of the language, from slots in memory.
//
// A thread's loads of a turn go out together, so their number, and not the number of sources, says
// how many of them it has in flight.
#pragma once

#include "stretto/device/elements.h"

namespace stretto::device {

// Adds a source's vectors, load(v) for v < kVectors, all of which are loaded first.
template <class Format, int kVectors, class Load>
STRETTO_PRIMITIVE void add_source(Load load, float (&sums)[kVectors * Format::kElements]) {
  Vec16 values[kVectors];
  STRETTO_UNROLL for (int v = 0; v < kVectors; ++v) values[v] = load(v);
  STRETTO_UNROLL for (int v = 0; v < kVectors; ++v)
      Format::add(sums + v * Format::kElements, values[v]);
}

// Adds sources 0, 1, ... `count` - 1 in this order: load(source, v). kAtOnce of them are loaded
// together.
template <class Format, int kAtOnce, int kVectors, class Load>
STRETTO_PRIMITIVE void add_sources(int count, Load load,
                                   float (&sums)[kVectors * Format::kElements]) {
  for (int first = 0; first < count; first += kAtOnce) {
    Vec16 values[kAtOnce][kVectors];
    STRETTO_UNROLL for (int s = 0; s < kAtOnce; ++s) {
      if (first + s < count) {
        STRETTO_UNROLL for (int v = 0; v < kVectors; ++v) values[s][v] = load(first + s, v);
      }
    }
    STRETTO_UNROLL for (int s = 0; s < kAtOnce; ++s) {
      if (first + s < count) {
        STRETTO_UNROLL for (int v = 0; v < kVectors; ++v)
            Format::add(sums + v * Format::kElements, values[s][v]);
      }
    }
  }
}

// Vectors v < kVectors of a thread to destinations 0, 1, ... `count` - 1: store(place, v), where
// place_of(destination) is asked for once a destination.
template <int kVectors, class PlaceOf, class Store>
STRETTO_PRIMITIVE void store_to_each(int count, PlaceOf place_of, Store store) {
  STRETTO_ROLLED for (int d = 0; d < count; ++d) {
    const auto place = place_of(d);
    STRETTO_UNROLL for (int v = 0; v < kVectors; ++v) store(place, v);
  }
}

}  // namespace stretto::device
