// A kernel of the device language that a user wrote and a graph names, to make what NCCL would at
// an edge: docs/graph-format.md, "Kernels of your own". Schedules take it with kernel=NAME. The
// graph says which edge it is for and what memory it needs; what it has to compute is the edge's.
//
// Its C++ is neither compiled nor executed to plan, check or simulate. To run, the emulator takes
// the kernel that the program or the command has registered under the name (fibre/edge_kernels.h),
// and GPUs compile `source`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "stretto/edge.h"

namespace stretto {

struct EdgeKernel {
  std::string name;  // of its template
  Edge edge = Edge::all_reduce;
  std::string header;  // as the graph has it
  // Memory of a plan's collective that peers reach: slots of a part's size, and words.
  int64_t slots = 0, signals = 0;
  int blocks = kDefaultBlocks, threads = kDefaultThreads;  // its grid on GPUs
  double us = 0;                                           // what a call takes; 0: not known
  std::shared_ptr<const std::string> source = {};          // the header's text; null: not given

  static constexpr int kDefaultBlocks = 16, kDefaultThreads = 256;
  static constexpr int kMostBlocks = 1024, kMostThreads = 1024, kWarp = 32;
};

// At most so many in a graph.
inline constexpr size_t kMostEdgeKernels = 64;
// The longest name of a header.
inline constexpr size_t kMostHeaderName = 255;

struct Operator;
struct GraphText;

// The text of a kernel's header.
using KernelSource = std::function<std::shared_ptr<const std::string>(const EdgeKernel& kernel)>;
// The text of a header in the folder. Headers of the user's own that it includes, by names relative
// to its own folder, stand in their places, and compilers take each once; all else that it includes
// is left to them. Null: the header is not there. Throws UsageError where an include or a link
// leads out of the folder or there are too many, SystemError where one cannot be read.
std::shared_ptr<const std::string> read_kernel_header(const std::string& folder,
                                                      const std::string& header);
// The operator with what `source` says of each of its kernels; null keeps what there was.
Operator with_kernel_sources(const Operator& op, const KernelSource& source);

}  // namespace stretto
