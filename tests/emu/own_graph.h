// Graphs that tests write down: a name, and the lines below the one that names their sizes.
#pragma once

#include <ostream>

namespace stretto {

struct OwnGraph {
  const char* name;
  const char* lines;
};

inline void PrintTo(const OwnGraph& graph, std::ostream* out) { *out << graph.name; }

}  // namespace stretto
