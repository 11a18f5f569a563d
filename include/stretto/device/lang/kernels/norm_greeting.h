// What ranks that reduce and norm rows together must agree on (greeting.h).
#pragma once

#include "stretto/device/lang/kernels/call.h"
#include "stretto/device/lang/kernels/greeting.h"

namespace stretto::device {

// Chunks of more rows are refused before the launch.
inline constexpr uint32 kMostRowsPerChunk = (1u << 27) - 1;

struct NormGreeting {
  // `shots`: which kernel, 0 for the one that works by chunks; `rows_per_chunk`: its, else 0.
  template <class Args>
  STRETTO_PRIMITIVE static NormGreeting of(const Args& args, uint32 shots, uint32 own_rows,
                                           uint32 rows_per_chunk) {
    const bool fp8 = static_cast<bool>(args.norm.fp8_scale);
    return {rows_per_chunk << 4 | shots << 2 | (own_rows != 0 ? 2u : 0u) | (fp8 ? 1u : 0u),
            static_cast<uint32>(args.tokens), static_cast<uint32>(args.row_vectors),
            static_cast<uint32>(args.max_tokens)};
  }
  STRETTO_PRIMITIVE Vec16 words() const { return {{form, tokens, row_vectors, max_tokens}}; }
  template <class Block>
  STRETTO_PRIMITIVE bool same(Block& block, int rank, const Vec16& theirs) const {
    const char* name = nullptr;
    uint32 own = 0, other = 0;
    const auto compare = [&](const char* number, uint32 ours, uint32 its) {
      if (ours == its || name != nullptr) return;
      name = number;
      own = ours;
      other = its;
    };
    compare("tokens", tokens, theirs.word[1]);
    compare("row_vectors", row_vectors, theirs.word[2]);
    compare("max_tokens", max_tokens, theirs.word[3]);
    compare("shots", form >> 2 & 3, theirs.word[0] >> 2 & 3);
    compare("own_rows", form >> 1 & 1, theirs.word[0] >> 1 & 1);
    compare("fp8", form & 1, theirs.word[0] & 1);
    compare("rows_per_chunk", form >> 4, theirs.word[0] >> 4);
    if (name != nullptr) block.disagree(rank, name, 0, own, other);
    return name == nullptr;
  }
  uint32 form;
  uint32 tokens, row_vectors, max_tokens;
};

}  // namespace stretto::device
