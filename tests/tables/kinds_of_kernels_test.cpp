// Every kind of task that says it has a kernel is one that some kernel does: none is served by what
// another kind happens to be.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
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

std::string_view text_of(const TaskKind& kind) {
  const auto found =
      std::find_if(kAll.begin(), kAll.end(), [&](Opcode op) { return kind_of(op) == &kind; });
  return to_string(*found);
}

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

// Whoever leaves one out has a row that does not compile.
static_assert(!std::is_default_constructible_v<TaskCost> &&
              !std::is_default_constructible_v<TaskKernels> &&
              !std::is_default_constructible_v<TaskKind>);

std::vector<const TaskKind*> all_kinds() { return {std::begin(kTaskKinds), std::end(kTaskKinds)}; }

TEST(KindsOfKernels, RowsSayWhatTheirKernelNeeds) {
  std::set<device::RoutedKind> routed;
  for (const TaskKind* kind : all_kinds()) {
    const TaskKernels& kernels = kind->kernels;
    const std::string_view name = text_of(*kind);
    EXPECT_EQ(kernels.by == KernelKind::gemm, kind->in_tile == TileRole::product) << name;
    EXPECT_EQ(kernels.by == KernelKind::norm, kind->in_tile == TileRole::norm) << name;
    EXPECT_TRUE(kernels.by != KernelKind::routed || kernels.routed != nullptr) << name;
    EXPECT_TRUE(!kernels.gathers || kernels.of_entries) << name;
    const bool is_activation =
        kind->in_tile == TileRole::activation || kind->in_tile == TileRole::gate;
    EXPECT_EQ(kernels.follower != device::Follower::none, is_activation) << name;
    EXPECT_EQ(kernels.map != device::MoverMap::none, is_activation) << name;
    if (kernels.routed == nullptr) continue;
    EXPECT_TRUE(routed.insert(kernels.routed->kind).second) << name << " is another's";
  }
  EXPECT_GT(routed.size(), 15u);
}

TEST(KindsOfKernels, RowsSayWhatTheirKernelCosts) {
  for (const TaskKind* kind : all_kinds()) {
    const std::string_view name = text_of(*kind);
    const bool multiplies = kind->kernels.by == KernelKind::gemm;
    EXPECT_EQ(kind->cost.rate == Rate::mmas, multiplies) << name;
    EXPECT_EQ(kind->cost.flops != nullptr, multiplies) << name;
    const bool is_in_pieces = kind->kernels.by == KernelKind::tiles;  // longer than its bytes
    EXPECT_TRUE(multiplies || is_in_pieces || kind->cost.times == 1) << name;
    EXPECT_EQ(kind->cost.rate == Rate::moves, kind->worker == Worker::copy_engine) << name;
    const bool follows_product = kind->in_tile == TileRole::row ||
                                 kind->in_tile == TileRole::activation ||
                                 kind->in_tile == TileRole::gate;
    EXPECT_EQ(kind->cost.in_registers_ps > 0, follows_product) << name;
  }
}

TEST(KindsOfKernels, EveryKindWithAKernelHasOne) {
  size_t kinds = 0;
  for (Opcode op : kAll) {
    const TaskKind* const kind = kind_of(op);
    if (kind == nullptr || kind->kernels.by == KernelKind::none) continue;
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
    const bool adds =
        op == Opcode::copy || op == Opcode::reduce || op == Opcode::restore || op == Opcode::bias;
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
