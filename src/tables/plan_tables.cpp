#include "tables/plan_tables.h"

#include <algorithm>

#include "launch/gemm_choice.h"
#include "launch/passes.h"
#include "stretto/device/pass.h"
#include "stretto/error.h"
#include "stretto/serve.h"
#include "tables/gemm_tasks.h"
#include "tables/mover_tasks.h"
#include "tables/routed_kinds.h"
#include "tables/routed_tasks.h"
#include "tables/table_basis.h"
#include "tables/task_sync.h"

namespace stretto::cuda {
namespace {

using device::GemmTask;
using device::MoverTask;

class TableBuilder {
 public:
  explicit TableBuilder(const TableBasis& basis) : basis_(basis), choices_(basis.plan) {
    if (!basis.serves) return;
    const RowShards owners = row_owners(basis.plan.op);
    rows_ = {nullptr, static_cast<int32_t>(basis.plan.op.rows()), owners.ranks,
             static_cast<int32_t>(owners.block()), 0};
  }

  RankTables build(const RankProgram& program) && {
    for (size_t i = 0; i < program.gemms.size(); ++i) {
      if (program.needs[i].library) continue;
      add_launch(tiles_of(program, i), program.needs[i]);
    }
    for (size_t i = 0; i < program.moves.size(); ++i) {
      add_mover(program, i);
    }
    return std::move(tables_);
  }

 private:
  // Without the rows that blocks norm behind their tiles: these have a table of their own.
  static std::vector<BlockPart> tiles_of(const RankProgram& program, size_t kernel) {
    std::vector<BlockPart> parts = program.gemms[kernel];
    if (const std::optional<uint32_t> rows = program.rows[kernel]) {
      for (size_t i = 0; i < parts.size(); ++i) parts[i].end = program.moves[*rows][i].begin;
    }
    return parts;
  }

  void add_launch(const std::vector<BlockPart>& parts, const GemmNeeds& needs) {
    GemmLaunch& launch = tables_.gemms.emplace_back();
    launch.config = config_for(basis_.plan, needs, basis_.serves);
    launch.table.map_sets = static_cast<uint32_t>(basis_.sets);
    launch.table.rows = rows_;
    GemmTasks gemms(basis_, launch);
    TaskSync sync(basis_.plan, basis_.signals, basis_.rank, launch.table);
    size_t waits = 0, notifies = 0, gemms_of_all = 0;
    std::vector<size_t> num_gemms;
    for (const BlockPart& part : parts) {
      size_t& own = num_gemms.emplace_back(0);
      const std::vector<Instr>& instrs = basis_.plan.lanes[part.lane].instrs;
      for (uint32_t at = part.begin; at < part.end; ++at) {
        waits += instrs[at].op == Opcode::wait;
        notifies += instrs[at].op == Opcode::notify;
        own += is_product(instrs[at].op);
      }
      gemms_of_all += own;
    }
    launch.table.waits.reserve(waits);
    launch.table.notifies.reserve(notifies);
    launch.table.destinations.reserve(gemms_of_all);
    if (launch.config.grouped) launch.table.entries.resize(launch.table.map_sets);
    for (const BlockPart& part : parts) {
      for (auto& set : launch.table.entries) set.emplace_back();
      launch.lanes.push_back(part.lane);
      const Lane& lane = basis_.plan.lanes[part.lane];
      std::vector<GemmTask>& tasks = launch.table.blocks.emplace_back();
      tasks.reserve(num_gemms[launch.table.blocks.size() - 1]);
      launch.positions.emplace_back().reserve(tasks.capacity());
      if (launch.config.splits) launch.table.splits.emplace_back();
      if (launch.config.bias || launch.config.follower == device::Follower::swiglu) {
        launch.table.follows.emplace_back();
      }
      if (launch.config.sources) launch.table.sources.emplace_back();
      for (uint32_t at = part.begin; at < part.end; ++at) {
        const Instr& instr = lane.instrs[at];
        if (instr.op == Opcode::wait) {
          sync.add_wait(instr);
        } else if (instr.op == Opcode::notify) {
          STRETTO_ASSERT(!tasks.empty() && !sync.has_unclaimed_waits(),
                         "a compute lane notifies without a task");
          sync.add_notify(instr, tasks.back());
        } else if (is_product(instr.op)) {
          at = add_tile(part.lane, at, gemms, sync, launch);
        } else {
          add_part(part.lane, at, gemms, sync, launch);
        }
      }
    }
    gemms.finish();
    add_end_waits(parts, launch.table);
  }

  void add_end_waits(const std::vector<BlockPart>& parts, GemmTable& table) const {
    const bool any = std::any_of(parts.begin(), parts.end(),
                                 [](const BlockPart& part) { return !part.at_end.empty(); });
    if (!any) return;
    for (const BlockPart& part : parts) {
      std::vector<device::WaitEntry>& waits = table.end_waits.emplace_back();
      for (const Step& wait : part.at_end) {
        waits.push_back(
            basis_.signals.wait_entry(basis_.plan, basis_.rank, wait.instr(basis_.plan)));
      }
    }
  }

  // The tile of the gemm at `at` of plan.lanes[index] and what is added to it, or follows it,
  // before it is stored; where that ends.
  uint32_t add_tile(uint32_t index, uint32_t at, GemmTasks& gemms, TaskSync<GemmTable>& sync,
                    GemmLaunch& launch) {
    std::vector<GemmTask>& tasks = launch.table.blocks.back();
    const std::vector<Instr>& instrs = basis_.plan.lanes[index].instrs;
    std::vector<const Instr*> notifies;  // between what is one task: they come behind it
    uint32_t block = 0;                  // of K, the last gemm's first
    const auto add_signal = [&](const Instr& instr) {
      if (instr.op == Opcode::wait) sync.add_wait(instr, block);
      if (instr.op == Opcode::notify) notifies.push_back(&instr);
    };
    for (const uint32_t last = basis_.sums.last_of(index, at); at < last;) {
      block += blocks_of_k(basis_.plan, instrs[at]);
      for (++at; !is_product(instrs[at].op); ++at) add_signal(instrs[at]);
    }
    const TileSum sum = basis_.sums.of(index, at).before_stores();
    const FollowedTile* const tile = basis_.sums.followed_from(index, at);
    const uint32_t product = tile != nullptr ? tile->product : at;
    if (tile != nullptr) {
      while (at < tile->last_gemm()) add_signal(instrs[++at]);
    }
    // The first task of a tile awaits, the last notifies.
    const size_t first = tasks.size();
    if (is_routed_product(instrs[product].op)) {
      gemms.add_entries(index, product, tasks, followed_by(index, tile));
    } else {
      gemms.add(index, product, sum, tasks, followed_by(index, tile));
    }
    std::vector<uint32_t>& positions = launch.positions.back();
    while (positions.size() < tasks.size()) positions.push_back(at);
    const auto add_signals_before_sum = [&] {
      while (++at < sum.position) add_signal(instrs[at]);
    };
    // A sum that is in registers is stored like a tile: nothing is awaited behind it.
    if (sum && !sum.reads_memory()) add_signals_before_sum();
    sync.claim_waits(tasks[first]);
    tasks.back().first_notify = tasks[first].first_notify;
    if (sum.reads_memory()) {
      add_signals_before_sum();
      sync.claim_late_waits(tasks.back());
      if (sum.of_ranks != 0) gemms.add_sources(instrs[at], sum, tasks.back());
    }
    for (const Instr* notify : notifies) sync.add_notify(*notify, tasks.back());
    return tile != nullptr ? tile->last : at;
  }

  FollowedBy followed_by(uint32_t index, const FollowedTile* tile) const {
    FollowedBy followed;
    if (tile == nullptr) return followed;
    const std::vector<Instr>& instrs = basis_.plan.lanes[index].instrs;
    followed.other = tile->other;
    for (size_t i = 0; i < 2; ++i) {
      if (tile->bias[i] != 0) followed.bias[i] = &basis_.plan.reads(instrs[tile->bias[i]])[1];
    }
    followed.last = &instrs[tile->last];
    return followed;
  }

  // The reduce at `at` of the rank's part of the tile before it.
  void add_part(uint32_t index, uint32_t at, GemmTasks& gemms, TaskSync<GemmTable>& sync,
                GemmLaunch& launch) {
    std::vector<GemmTask>& tasks = launch.table.blocks.back();
    std::vector<uint32_t>& positions = launch.positions.back();
    const TileSum sum = positions.empty() ? TileSum{} : basis_.sums.of(index, positions.back());
    STRETTO_ASSERT(sum.stores_before() && sum.of_ranks == at, "a sum without its tile");
    gemms.add_part(index, positions.back(), sum, tasks);
    positions.push_back(at);
    sync.claim_late_waits_alone(tasks.back());
    gemms.add_sources(basis_.plan.lanes[index].instrs[at], sum, tasks.back());
  }

  void add_mover(const RankProgram& program, size_t number) {
    const std::vector<BlockPart>& parts = program.moves[number];
    const bool in_gemm = program.is_in_gemm(number);
    MoverTable& table = tables_.moves.emplace_back();
    table.regions.resize(static_cast<size_t>(basis_.sets));
    table.rows = rows_;
    TaskSync sync(basis_.plan, basis_.signals, basis_.rank, table);
    for (const BlockPart& part : parts) {
      table.lanes.push_back(part.lane);
      const Lane& lane = basis_.plan.lanes[part.lane];
      std::vector<MoverTask>& tasks = table.blocks.emplace_back();
      std::vector<uint32_t>& positions = table.positions.emplace_back();
      LaneHazards hazards;
      uint32_t at = part.begin;
      const bool routes = basis_.routes();
      const size_t first_routed = table.routed.size();
      const auto add = [&](const MoverTask& task) {
        sync.claim_waits(tasks.emplace_back(task));
        positions.push_back(at);
      };
      for (; at < part.end; ++at) {
        const Instr& instr = lane.instrs[at];
        if (instr.op == Opcode::wait) {
          // More than a task holds have tasks of their own, and so do notifies.
          if (sync.num_unclaimed_waits() == UINT16_MAX) add(MoverTask{});
          sync.add_wait(instr);
        } else if (instr.op == Opcode::notify) {
          // The first notify of a lane, or one after waits that no task follows, has a task of its
          // own.
          if (tasks.empty() || sync.has_unclaimed_waits() ||
              tasks.back().num_notifies == UINT16_MAX) {
            add(MoverTask{});
          }
          sync.add_notify(instr, tasks.back());
        } else if (const NormedRows rows = rows_normed_at(lane, at); rows.norm) {
          if (rows.sum != nullptr) ++at;
          add(norm_task(basis_, rows, table, hazards));
        } else if (routes && is_routed_move(instr.op)) {
          add(routed_task(basis_, choices_, instr, table, hazards));
        } else {
          add(mover_task(basis_, instr, table, hazards));
          if (in_gemm) require_vectors(tasks.back());
        }
      }
      if (makes_partition(table, first_routed)) {
        keep_off_the_ring(tasks);
      } else {
        stage_sums(tasks, table, first_routed);
      }
      // Waits that no task of the lane follows, and those of the kernel's end.
      const auto end = [&] {
        MoverTask task{};
        task.tile = device::kAtEnd;
        if (sync.has_unclaimed_waits()) add(task);
      };
      end();
      for (size_t i = 0; i < part.at_end.size(); ++i) {
        sync.add_wait(part.at_end[i].instr(basis_.plan));
        if ((i + 1) % UINT16_MAX == 0) end();
      }
      end();
    }
    table.cluster = !in_gemm && basis_.sets <= 2 ? partition_blocks(basis_.plan, parts) : 0;
    table.passes = !in_gemm && basis_.sets <= 2 && is_pass(basis_.plan, program, parts) &&
                   all_in_vectors(table);
  }

  // What the plan does not say: where a caller's tensors begin. Nor are tasks of a pass made in
  // order.
  static bool all_in_vectors(const MoverTable& table) {
    const auto is_fit = [&](const MoverTask& task) {
      const bool in_vectors =
          task.routed == 0 ? task.vectors != 0 : table.routed[task.routed - 1].vectors != 0;
      return task.drains == 0 && in_vectors &&
             task.num_sources + task.num_destinations < static_cast<int>(device::kPassRegions);
    };
    return std::all_of(table.blocks.begin(), table.blocks.end(), [&](const auto& tasks) {
      return std::all_of(tasks.begin(), tasks.end(), is_fit);
    });
  }

  // Movers in the GEMM kernel copy nothing else. What of it is the plan's has been seen to; where a
  // caller's tensors begin has not.
  static void require_vectors(const MoverTask& task) {
    if (task.num_sources == 0 || task.vectors != 0) return;
    throw UsageError(
        "a buffer that is moved begins at an address that is no multiple of 16 bytes; give tensors "
        "that begin at one");
  }

  TableBasis basis_;
  const ChoiceRows choices_;
  device::RowsOfRun rows_{};
  RankTables tables_;
};

}  // namespace

device::TensorMap encode_map(const MapSpec& spec, const device::GemmConfig& config) {
  switch (spec.use) {
    case MapSpec::Use::a:
      return map_for_a(spec.matrix, config);
    case MapSpec::Use::b:
      return map_for_b(spec.matrix, config);
    case MapSpec::Use::sums:
      return map_for_sums(spec.matrix, config, spec.box_rows);
    case MapSpec::Use::store:
      break;
  }
  return map_for_store(spec.matrix, config, spec.box_rows);
}

RankTables tables_for(const Plan& plan, int rank, const RankProgram& program,
                      const BufferPlaces& places, const SignalLayout& signals, bool serves) {
  const TableBasis basis{plan, rank, places, signals, *program.sums, serves, num_sets(plan)};
  return TableBuilder(basis).build(program);
}

void encode_maps(GemmLaunch& launch) {
  launch.table.maps.clear();
  for (const MapSpec& spec : launch.maps) {
    launch.table.maps.push_back(encode_map(spec, launch.config));
  }
}

}  // namespace stretto::cuda
