// Every kind of task that says it has a kernel is one that some kernel does: none is served by what
// another kind happens to be.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "gpu/kernel_words.h"
#include "launch/gemm_needs.h"
#include "plan/tile_task.h"
#include "stretto/error.h"
#include "tables/mover_tasks.h"
#include "tables/routed_kinds.h"

namespace stretto::cuda {
namespace {

const std::vector<Opcode> kAll = [] {
  std::vector<Opcode> all;
#define STRETTO_ONE(name, text, meaning) all.push_back(Opcode::name);
  STRETTO_OPCODES(STRETTO_ONE)
#undef STRETTO_ONE
  return all;
}();

template <typename Function>
bool is_refused(const Function& function) {
  try {
    function();
    return false;
  } catch (const InternalError&) {
    return true;
  }
}

bool is_mapped(Opcode op) {
  return !is_refused([&] { mover_map_of(op); });
}

TEST(KindsOfKernels, EveryKindWithAKernelHasOne) {
  size_t kinds = 0;
  for (Opcode op : kAll) {
    const TaskKind* const kind = kind_of(op);
    if (kind == nullptr || !kind->has_kernel) continue;
    ++kinds;
    const bool is_known =
        is_product(op) || op == Opcode::norm || is_routed_move(op) || is_mapped(op);
    EXPECT_TRUE(is_known) << to_string(op) << " says that GPUs have a kernel for it";
  }
  EXPECT_GT(kinds, 20u);
}

TEST(KindsOfKernels, MoversMapWhatGoesByElementsAndRefuseTheRest) {
  std::set<device::MoverMap> maps;
  for (Opcode op : kAll) {
    const bool adds = op == Opcode::copy || op == Opcode::reduce || op == Opcode::bias;
    EXPECT_EQ(is_mapped(op), adds || follows_product(op)) << to_string(op);
    if (!is_mapped(op)) continue;
    const device::MoverMap map = mover_map_of(op);
    EXPECT_EQ(map == device::MoverMap::none, adds) << to_string(op);
    EXPECT_TRUE(adds || maps.insert(map).second) << to_string(op) << " is another's";
  }
}

TEST(KindsOfKernels, TilesAreFollowedByActivationsAndRefuseTheRest) {
  for (Opcode op : kAll) {
    const bool is_activation = follows_product(op) && op != Opcode::bias;
    EXPECT_EQ(!is_refused([&] { follower_of(op); }), is_activation) << to_string(op);
    if (!is_activation) continue;
    EXPECT_EQ(std::string(to_string(op)), name_of(follower_of(op)));
  }
}

}  // namespace
}  // namespace stretto::cuda
