// How the kernel of experts gathers rows: what it takes, and what choices between plans reckon
// with.
#pragma once

#include <cstdint>

namespace stretto {

// Rows that choose experts, by columns of each expert's matrix; about.
struct ExpertLoad {
  int64_t rows = 0;     // of one expert
  int64_t experts = 1;  // that have some
  int64_t columns = 0;
};

// Whether tiles of 256 columns pad hardly more columns than those of 128.
constexpr bool fills_wide_tiles(const ExpertLoad& of) {
  return 2 * ((of.columns + 255) / 256) * 5 <= (of.columns + 127) / 128 * 6;
}

// Whether it gathers for tiles of 256 columns. An SM gathers rows for those as fast as it
// multiplies, for thin ones it does not; but of few tiles smaller ones waste less at the end.
constexpr bool gathers_for_wide_tiles(const ExpertLoad& of, int num_sms) {
  const int64_t tiles = of.experts * ((of.rows + 127) / 128) * ((of.columns + 255) / 256);
  return of.rows > 180 && fills_wide_tiles(of) && tiles >= 2 * num_sms;
}

// How many times longer a product takes whose rows are gathered while they are loaded. Few rows
// wait for weights, and what narrow experts pad is gathered for nobody (docs/notes/moe-gemm.md, one
// H100: 1.01 to 1.24 by wide tiles and by narrow experts, 1.24 where wide tiles would be few).
constexpr double gathers_times(const ExpertLoad& of, int num_sms) {
  constexpr int64_t kRowsThatStream = 80;
  constexpr double kMostly = 1.12, kFewTiles = 1.24;
  if (of.rows < kRowsThatStream || !fills_wide_tiles(of)) return kMostly;
  return gathers_for_wide_tiles(of, num_sms) ? kMostly : kFewTiles;
}

}  // namespace stretto
