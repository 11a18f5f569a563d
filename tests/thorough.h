// Sweeps that tests take a sample of. STRETTO_THOROUGH=1 takes all of them, as `./dev check` does.
#pragma once

#include <cstddef>
#include <cstdlib>

namespace stretto {

inline bool is_thorough() { return std::getenv("STRETTO_THOROUGH") != nullptr; }

// How far it is to the next of a sweep that is taken: every `sampled`th, or each.
inline size_t sweep_step(size_t sampled) { return is_thorough() ? 1 : sampled; }

}  // namespace stretto
