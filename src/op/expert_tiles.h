// Which tiles the kernel of experts takes, and how long they take it: the kernel chooses by this,
// and so do choices between plans. docs/notes/moe-gemm.md has what it is fitted to.
#pragma once

#include <cstdint>

namespace stretto {

// Rows that choose experts, by each expert's matrix of columns x k; about.
struct ExpertLoad {
  int64_t rows = 0;     // of one expert
  int64_t experts = 1;  // that have some
  int64_t columns = 0;
  int64_t k = 0;
  bool scatters = false;  // rows of the result are stored by index
  bool joins = false;     // of two columns one is stored, as SwiGLU makes it
};

struct ExpertTile {
  int columns = 256, rows = 128, stages = 4;
  int ranges = 1;    // of K, by a block of a cluster each
  int together = 1;  // chunks of a finished tile that are handed over at once

  constexpr bool operator==(const ExpertTile&) const = default;
};

// About, by one H200. `gathers`: rows are gathered while they are loaded.
double expert_us(const ExpertTile& tile, const ExpertLoad& of, bool gathers, int sms);

// The fastest. How many ranges it has, on which bits of results hang, does not depend on `sms`.
ExpertTile expert_tile(const ExpertLoad& of, bool gathers, int sms);

// How many times longer a product takes whose rows are gathered while they are loaded.
double gathers_times(const ExpertLoad& of, int sms);

}  // namespace stretto
