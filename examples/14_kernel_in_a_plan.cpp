// A kernel of one's own as an edge of a plan, from a program: ring_sum.h makes the all-reduce of
// ring.graph. The plan is proved around it, and the emulator executes the kernel itself. Then one
// that takes every call for the first, which is right once.
#include <fstream>
#include <iterator>

#include "expect.h"
#include "ring_sum.h"
#include "stretto/check.h"
#include "stretto/emulate.h"
#include "stretto/fibre/edge_kernels.h"
#include "stretto/lower.h"

using namespace stretto;

template <class Format, class Block>
STRETTO_KERNEL void forgetful_sum(Block& block, const EdgeArgs<Block>& args) {
  go_round<Format>(block, args, 0);
}

// Under these names graphs find them.
STRETTO_EDGE_KERNEL(ring_sum)
STRETTO_EDGE_KERNEL(forgetful_sum)

// The graph's text, with a second kernel that has as much memory.
std::string graph_text() {
  std::ifstream file(STRETTO_EXAMPLES "/ring.graph");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t end_of_first_line = text.find("\nkernel ");
  expect(end_of_first_line != std::string::npos, "the graph names a kernel");
  return text.insert(end_of_first_line,
                     "\nkernel forgetful_sum all-reduce \"14.h\" slots=2*ranks signals=16");
}

Plan plan_of(const Operator& op, const std::string& kernel) {
  const Machine machine = default_machine(op.ranks);
  return lower(op, parse_schedules("sequential,kernel=" + kernel, op, machine), machine);
}

int main() {
  return run_example([] {
    const auto graph = parse_graph(graph_text(), "ring.graph");
    for (const int ranks : {2, 3, 4, 8}) {
      const Operator op =
          make_graph(graph, {{"m", 37}, {"h", 64}, {"f", 128}, {"n", 64}}, ranks, DType::bf16);
      const Plan plan = plan_of(op, "ring_sum");
      expect(check(plan).clean(), "every access of the plan is ordered");
      const EmulateResult result = emulate(plan, {.fill = Fill::integers, .runs = 3});
      expect(result.verified, "the kernel's sums are those of the reference, exactly");
      fmt::print("{} ranks: 3 runs, right\n", ranks);

      // A plan of the other kernel is as right; what the kernel does is not.
      const Plan other = plan_of(op, "forgetful_sum");
      expect(check(other).clean(), "the plan is not what is wrong");
      expect(emulate(other, {.runs = 1}).verified, "its first call is right");
      std::string found;
      for (uint64_t seed = 1; seed <= 20 && found.empty(); ++seed) {
        const EmulateResult wrong = emulate(other, {.seed = seed, .runs = 2});
        if (!wrong.faults.empty()) found = wrong.faults.front().text;
      }
      expect(!found.empty(), "its second call does not wait for the ranks before it");
      if (ranks == 2) fmt::print("{}\n", found);
    }
  });
}
