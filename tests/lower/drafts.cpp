#include "lower/drafts.h"

#include <optional>
#include <stdexcept>

#include "core/sampling.h"

namespace stretto {

Machine small_machine(int ranks, int sms, int ranks_per_node) {
  Machine machine;
  machine.name = "small";
  machine.ranks_per_node = ranks_per_node > 0 ? ranks_per_node : ranks;
  machine.nodes = (ranks + machine.ranks_per_node - 1) / machine.ranks_per_node;
  machine.sms = sms;
  machine.nccl_sms = 2;
  machine.gemm_tflops = machine.fp32_tflops = 1;
  machine.block_hbm_gb_per_s = 10;
  return machine;
}

Draft draft_after(const Segment& op, const Schedule& schedule, const Machine& machine,
                  std::string_view step) {
  struct Reached {};
  std::optional<Draft> found;
  try {
    lower(op, schedule, machine, [&](const LowerStep& done, const Draft& draft) {
      if (done.name != step) return;
      found.emplace(draft);
      throw Reached{};
    });
  } catch (const Reached&) {
    return *std::move(found);
  }
  throw std::invalid_argument("no step " + std::string(step));
}

Draft draft_of(const std::string& op, const std::string& schedule, const Machine& machine) {
  const Segment parsed = parse_segment(op);
  return draft_after(parsed, parse_schedule(schedule, parsed, machine), machine);
}

std::vector<Task> tasks_of(const Draft& draft, Opcode op) {
  std::vector<Task> tasks;
  for (size_t at = 0; at < draft.program.size(); ++at) {
    const Lane& lane = draft.plan.lanes[draft.program[at].lane];
    const Instr& instr = lane.instrs[draft.program[at].pos];
    if (instr.op == op) tasks.push_back({&lane, &instr, at});
  }
  return tasks;
}

std::vector<Task> tasks_of(const Draft& draft, Opcode op, int rank) {
  std::vector<Task> tasks = tasks_of(draft, op);
  std::erase_if(tasks, [&](const Task& task) { return task.lane->rank != rank; });
  return tasks;
}

uint16_t buffer_of(const Draft& draft, std::string_view name) {
  return draft.plan.find_buffer(name).value();
}

std::vector<Schedule> legal_schedules(const Segment& op, const Machine& machine) {
  constexpr int kTiles[][2] = {{16, 16}, {8, 24}, {32, 16}, {24, 32}};
  std::vector<Schedule> found;
  Schedule s;
  auto add = [&] {
    const size_t i = found.size();
    s.tile_m = kTiles[i % 4][0];
    s.tile_n = kTiles[i % 4][1];
    s.swizzle = 1 + static_cast<int>(i % 3);
    s.reuse = i % 2 ? Reuse::ack : Reuse::double_buffer;
    s.partials = i % 5 && s.reduction != Reduction::nccl ? DType::fp32 : op.dtype;
    if (!op.makes_terms()) s.partials = op.dtype;
    if (legal(op, s, machine).empty()) found.push_back(s);
  };
  for (const Granularity granularity : {Granularity::whole, Granularity::chunk, Granularity::waves,
                                        Granularity::slice, Granularity::tile}) {
    s.granularity = granularity;
    for (const Order order : {Order::plain, Order::own_first, Order::arrival, Order::peer_staggered,
                              Order::interleaved, Order::node_then_local}) {
      s.order = order;
      for (const Mover mover :
           {Mover::epilogue, Mover::comm_blocks, Mover::copy_engine, Mover::nccl}) {
        s.mover = mover;
        for (const Sync sync : {Sync::event, Sync::counter, Sync::flag}) {
          s.sync = sync;
          for (const Reduction reduction : {Reduction::none, Reduction::slots, Reduction::nccl,
                                            Reduction::one_shot, Reduction::two_shot}) {
            s.reduction = reduction;
            for (const int comm_sms : {0, 3}) {
              s.comm_sms = comm_sms;
              s.chunks = 1;
              s.groups.clear();
              add();
              if (granularity == Granularity::chunk) {
                s.chunks = 3;
                add();
                s.groups = {1, 3};
                add();
              }
              if (granularity == Granularity::waves) {
                s.groups = {1, 2, 3};
                add();
              }
            }
          }
        }
      }
    }
  }
  std::vector<Schedule> sample;
  for (size_t i = 0; i < found.size(); i += kSampleStep) sample.push_back(found[i]);
  return sample;
}

}  // namespace stretto
