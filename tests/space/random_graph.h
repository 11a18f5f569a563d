// Random graphs that nobody ships: products, activations, norms and sums behind one another, held
// in ways that mostly have an edge from one to the next.
#pragma once

#include <random>
#include <string>

namespace stretto {

// Of sizes m, h and f. With teams of so many ranks everything but own rows is theirs.
std::string random_graph_text(std::mt19937_64& random, int team = 0);

}  // namespace stretto
