// Random graphs with rows that choose experts, look-ups and rows of another number beside products,
// norms and sums: layers of any length, held in any way, by ids that are given or chosen.
#pragma once

#include <random>
#include <string>

namespace stretto {

// Of sizes m, h, f, e, k, tables, pool, s, d and q.
std::string random_experts_text(std::mt19937_64& random);

}  // namespace stretto
