// Dispatch and combine as plain loops, and the routings that they are tested on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stretto/device/lang/kernels/combine.h"
#include "stretto/device/lang/kernels/dispatch.h"

namespace stretto::fibre {

// What one rank routes: ids and weights of tokens x top_k.
struct Routing {
  uint32_t tokens = 0;
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

enum class Pattern { kUniform, kZipf, kOneHot, kOneRank, kEmptyRank, kDropped, kBadIds };
inline constexpr const char* kPatternNames[] = {"Uniform",   "Zipf",    "OneHot", "OneRank",
                                                "EmptyRank", "Dropped", "BadIds"};

inline uint64_t mixed(uint64_t value) {
  value = (value + 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull;
  value = (value ^ (value >> 29)) * 0x94d049bb133111ebull;
  return value ^ (value >> 32);
}

// The k ids of a token differ, as a router's do, where there are that many experts to choose from.
inline Routing route(Pattern pattern, const device::ExpertShape& shape, uint32_t ranks, int rank,
                     uint64_t seed, uint32_t tokens) {
  Routing routing;
  routing.tokens = pattern == Pattern::kEmptyRank && rank == 1 ? 0 : tokens;
  const uint32_t local = shape.experts / ranks;
  for (uint32_t t = 0; t < routing.tokens; ++t) {
    std::vector<int32_t> chosen;
    for (uint32_t j = 0; j < shape.top_k; ++j) {
      uint64_t bits = mixed(seed * 1000003 + static_cast<uint64_t>(rank) * 7919 + t * 31 + j);
      uint32_t id = static_cast<uint32_t>(bits % shape.experts);
      if (pattern == Pattern::kZipf) {
        id = shape.experts - 1;
        while (id > 0 && bits % (id + 1) != 0) bits = mixed(bits), --id;
        id = shape.experts / (1 + static_cast<uint32_t>(bits >> 32) % shape.experts);
        id %= shape.experts;
      }
      if (pattern == Pattern::kOneHot && j == 0) id = shape.experts / 2;
      if (pattern == Pattern::kOneRank) id = (ranks - 1) * local + id % local;
      auto taken = [&] {
        for (int32_t other : chosen) {
          if (other == static_cast<int32_t>(id)) return true;
        }
        return false;
      };
      const uint32_t choices = pattern == Pattern::kOneRank ? local : shape.experts;
      for (uint32_t step = 0; step < choices && taken(); ++step) {
        id = pattern == Pattern::kOneRank ? (ranks - 1) * local + (id + 1) % local
                                          : (id + 1) % shape.experts;
      }
      chosen.push_back(static_cast<int32_t>(id));
      if (pattern == Pattern::kDropped && bits >> 20 & 1) chosen.back() = -1;
      if (pattern == Pattern::kBadIds && (bits >> 20) % 4 == 0) {
        chosen.back() = bits >> 30 & 1 ? static_cast<int32_t>(shape.experts) : -7;
      }
      routing.weights.push_back(static_cast<float>(1 + (bits >> 8) % 8) / 8);
    }
    routing.ids.insert(routing.ids.end(), chosen.begin(), chosen.end());
  }
  return routing;
}

// One row that a rank's experts get.
struct ExpectedRow {
  int source = 0;
  uint32_t token = 0;
  uint32_t entry = 0;
};

// Rows of one rank by local expert, in the order of source and token; each list begins at a
// multiple of row_align. What does not fit below max_rows is left out by its row number.
inline std::vector<std::vector<ExpectedRow>> expected_rows(const std::vector<Routing>& routings,
                                                           const device::ExpertShape& shape,
                                                           int rank) {
  const auto ranks = static_cast<uint32_t>(routings.size());
  const uint32_t local = shape.experts / ranks;
  std::vector<std::vector<ExpectedRow>> rows(local);
  for (uint32_t source = 0; source < ranks; ++source) {
    const Routing& routing = routings[source];
    for (uint32_t t = 0; t < routing.tokens; ++t) {
      for (uint32_t j = 0; j < shape.top_k; ++j) {
        const int32_t id = routing.ids[t * shape.top_k + j];
        if (id < 0 || id >= static_cast<int32_t>(shape.experts)) continue;
        if (id / static_cast<int32_t>(local) != rank) continue;
        rows[static_cast<uint32_t>(id) % local].push_back({static_cast<int>(source), t, j});
      }
    }
  }
  return rows;
}

}  // namespace stretto::fibre
