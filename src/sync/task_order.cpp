#include "sync/task_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "stretto/derive.h"
#include "sync/cell_grid.h"

namespace stretto {
namespace {

constexpr uint32_t kNone = ~0u;

struct Access {
  uint32_t instr = 0;
  Region region;
  bool writes = false;
};

// `before` ends before `after` begins; instructions by number, lane by lane.
struct Edge {
  uint32_t before = 0, after = 0;
  bool by_data = false;
};

class TaskOrder {
 public:
  TaskOrder(const Plan& plan, bool by_events) : plan_(plan), by_events_(by_events) {
    for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
      first_.push_back(static_cast<uint32_t>(refs_.size()));
      for (uint32_t pos = 0; pos < plan.lanes[lane].instrs.size(); ++pos) {
        refs_.push_back({lane, pos});
      }
    }
    node_.resize(refs_.size());
    for (uint32_t i = 0; i < refs_.size(); ++i) node_[i] = i;
  }

  std::vector<InstrRef> find() {
    join(Opcode::boundary);
    join(Opcode::collective);
    if (by_events_) find_boundaries();
    for (uint32_t i = 1; i < refs_.size(); ++i) {
      if (refs_[i].lane == refs_[i - 1].lane) edges_.push_back({i - 1, i, false});
    }
    add_accesses();
    return by_level();
  }

 private:
  const Instr& instr(uint32_t i) const { return plan_.lanes[refs_[i].lane].instrs[refs_[i].pos]; }
  const Lane& lane(uint32_t i) const { return plan_.lanes[refs_[i].lane]; }

  std::string name(uint32_t i) const {
    const Instr& one = instr(i);
    std::string what(to_string(one.op));
    if (one.op == Opcode::collective)
      what = fmt::format("{} {}", to_string(one.collective), one.id);
    if (one.op == Opcode::boundary) what += fmt::format(" {}", one.id);
    if (one.kind() != nullptr && one.tile >= 0) what += fmt::format(" #{}", one.tile);
    return fmt::format("{} instruction {} ({})", describe(lane(i)), refs_[i].pos, what);
  }

  // Lanes that meet: the compute lanes of a rank at its boundaries, nccl lanes at collectives. What
  // meets is one node, that of the first lane's; where teams do, of the first lane's of each.
  void join(Opcode op) {
    const auto ranks = static_cast<size_t>(op == Opcode::boundary ? plan_.ranks() : 1);
    std::vector<std::vector<uint32_t>> meetings(ranks);     // of the group's first lane
    std::vector<uint32_t> lanes(ranks, kNone);              // which that is
    std::map<std::pair<uint32_t, int>, uint32_t> of_teams;  // nodes
    const LaneKind kind = op == Opcode::boundary ? LaneKind::compute : LaneKind::nccl;
    for (uint32_t at = 0; at < plan_.lanes.size(); ++at) {
      if (plan_.lanes[at].kind != kind) continue;
      const size_t group = op == Opcode::boundary ? plan_.lanes[at].rank : 0;
      if (kind == LaneKind::nccl && at > 0 && plan_.lanes[at - 1].kind == kind &&
          plan_.lanes[at - 1].rank == plan_.lanes[at].rank) {
        throw UnorderedPlan(describe(plan_.lanes[at - 1]) + " and " + describe(plan_.lanes[at]) +
                                " both start collectives; give a rank one nccl lane",
                            InstrRef{at, 0});
      }
      const bool is_first = lanes[group] == kNone;
      if (is_first) lanes[group] = at;
      size_t met = 0;
      for (uint32_t pos = 0; pos < plan_.lanes[at].instrs.size(); ++pos) {
        const uint32_t i = first_[at] + pos;
        if (instr(i).op != op) continue;
        if (is_first) {
          meetings[group].push_back(i);
        } else if (met >= meetings[group].size() || !are_one(meetings[group][met], i)) {
          refuse_meeting(lanes[group], at, pos);
        } else {
          node_[i] = meetings[group][met];
        }
        if (instr(i).team > 0) {
          const int team = plan_.joined_by(instr(i), plan_.lanes[at].rank).first;
          node_[i] = of_teams.try_emplace({meetings[group][met], team}, i).first->second;
        }
        ++met;
      }
      if (met != meetings[group].size()) refuse_meeting(lanes[group], at, 0);
    }
  }
  bool are_one(uint32_t one, uint32_t other) const {
    return instr(one).id == instr(other).id && instr(one).team == instr(other).team;
  }
  [[noreturn]] void refuse_meeting(uint32_t one, uint32_t other, uint32_t pos) const {
    const bool blocks = plan_.lanes[one].kind == LaneKind::compute;
    throw UnorderedPlan(
        fmt::format("{} and {} have different {}; {} list the same ones in the same order",
                    describe(plan_.lanes[one]), describe(plan_.lanes[other]),
                    blocks ? "boundaries" : "collectives",
                    blocks ? "the compute lanes of a rank" : "all ranks"),
        InstrRef{other, pos});
  }

  void add_accesses() {
    const auto ranks = static_cast<size_t>(plan_.ranks());
    std::vector<std::vector<Access>> places(plan_.buffers.size() * ranks);
    for (uint32_t i = 0; i < refs_.size(); ++i) {
      if (!instr(i).is_task()) continue;
      const auto add = [&](const Region& region, bool writes) {
        if (region.empty()) return;
        const Buffer& buffer = plan_.buffers[region.buffer];
        if (region.row0 < 0 || region.col0 < 0 || region.row1 > buffer.rows ||
            region.col1 > buffer.cols) {
          throw UnorderedPlan(
              fmt::format("{} has {}, but {} has {} rows and {} columns", name(i),
                          describe(plan_, region), buffer.name, buffer.rows, buffer.cols),
              refs_[i]);
        }
        places[region.buffer * ranks + region.rank].push_back({i, region, writes});
      };
      for (const Region& region : plan_.reads(instr(i))) add(region, false);
      for (const Region& region : plan_.writes(instr(i))) add(region, true);
    }
    for (const std::vector<Access>& of_place : places) order_place(of_place);
  }

  // Accesses to one rank's instance of a buffer, lane by lane.
  void order_place(const std::vector<Access>& accesses) {
    const auto first_write = std::find_if(accesses.begin(), accesses.end(),
                                          [](const Access& access) { return access.writes; });
    if (first_write == accesses.end()) return;
    const CellGrid grid(plan_.buffers[first_write->region.buffer], first_write->region);
    std::vector<std::vector<uint32_t>> cells(grid.count());
    for (uint32_t i = 0; i < accesses.size(); ++i) {
      grid.for_each(accesses[i].region, [&](uint32_t cell, bool) { cells[cell].push_back(i); });
    }
    const auto lane_of = [&](uint32_t access) { return refs_[accesses[access].instr].lane; };
    for (const std::vector<uint32_t>& cell : cells) {
      const bool is_of_one_lane = !cell.empty() && lane_of(cell.front()) == lane_of(cell.back());
      for (size_t at = 0; at < cell.size(); ++at) {
        const Access& write = accesses[cell[at]];
        if (!write.writes) continue;
        require_reader(accesses, cell, at);
        if (is_of_one_lane) continue;
        for (const uint32_t other : cell) {
          if (other != cell[at] && write.region.overlaps(accesses[other].region)) {
            order_pair(write, accesses[other]);
          }
        }
      }
    }
  }

  void order_pair(const Access& write, const Access& other) {
    if (node_[write.instr] == node_[other.instr]) return;
    const bool same_lane = refs_[write.instr].lane == refs_[other.instr].lane;
    if (same_lane) return;
    if (!other.writes) {
      if (!also_writes(other, write)) add_edge(write.instr, other.instr);
      return;
    }
    if (write.instr > other.instr) return;  // each pair once
    const bool one = is_update(write), two = is_update(other);
    if (one == two) {
      throw UnorderedPlan(
          fmt::format("{} and {} both write {}, and nothing says which comes first; let one lane "
                      "write it, or give each a place of its own",
                      name(write.instr), name(other.instr), describe(plan_, other.region)),
          refs_[other.instr]);
    }
    add_edge(one ? other.instr : write.instr, one ? write.instr : other.instr);
  }

  // Whether the instruction reads what it writes here: a collective in place.
  bool is_update(const Access& write) const {
    if (instr(write.instr).op != Opcode::collective) return false;
    const auto reads = plan_.reads(instr(write.instr));
    return std::any_of(reads.begin(), reads.end(),
                       [&](const Region& region) { return region.overlaps(write.region); });
  }
  // Whether the instruction of this read writes there as well: then it is in the order of writes.
  bool also_writes(const Access& read, const Access& there) const {
    const auto writes = plan_.writes(instr(read.instr));
    return std::any_of(writes.begin(), writes.end(),
                       [&](const Region& region) { return region.overlaps(there.region); });
  }

  // Of two writes of one lane, the first is read in between by the lane itself: others read last.
  // What is read before the next write is so before all later ones.
  void require_reader(const std::vector<Access>& accesses, const std::vector<uint32_t>& cell,
                      size_t at) const {
    const Access& first = accesses[cell[at]];
    for (++at; at < cell.size(); ++at) {
      const Access& next = accesses[cell[at]];
      if (refs_[next.instr].lane != refs_[first.instr].lane) return;
      if (!next.region.overlaps(first.region) || next.instr == first.instr) continue;
      if (!next.writes) return;
      throw UnorderedPlan(
          fmt::format("{} overwrites {}, which {} has written, before its lane has read it; other "
                      "lanes read after the last write: give each a place of its own",
                      name(next.instr), describe(plan_, next.region), name(first.instr)),
          refs_[next.instr]);
    }
  }

  void add_edge(uint32_t before, uint32_t after) {
    edges_.push_back({before, after, true});
    if (plan_.cluster == 2 && lane(after).kind == LaneKind::compute) {
      const uint32_t at = refs_[after].lane;
      const uint32_t partner = plan_.lanes[at].index % 2 == 0 ? at + 1 : at - 1;
      edges_.push_back({before, first_[partner] + refs_[after].pos, true});
    }
    if (!by_events_) return;
    const uint32_t release = boundary_behind(before), acquire = boundary_before(after);
    const bool one_kernel = lane(before).kind == LaneKind::compute &&
                            lane(after).kind == LaneKind::compute &&
                            lane(before).rank == lane(after).rank &&
                            boundary_node(boundary_before(before)) == boundary_node(acquire);
    if (one_kernel) return;
    const Edge edge{release == kNone ? before : release, acquire == kNone ? after : acquire, true};
    if (node_[edge.before] != node_[edge.after]) edges_.push_back(edge);
  }
  uint32_t boundary_node(uint32_t i) const { return i == kNone ? kNone : node_[i]; }
  uint32_t boundary_before(uint32_t i) const { return boundary_before_[i]; }
  uint32_t boundary_behind(uint32_t i) const { return boundary_behind_[i]; }
  // Those of compute lanes; kNone for others, and where there is none.
  void find_boundaries() {
    boundary_before_.assign(refs_.size(), kNone);
    boundary_behind_.assign(refs_.size(), kNone);
    for (uint32_t at = 0; at < plan_.lanes.size(); ++at) {
      if (plan_.lanes[at].kind != LaneKind::compute) continue;
      const auto count = static_cast<uint32_t>(plan_.lanes[at].instrs.size());
      uint32_t last = kNone;
      for (uint32_t i = first_[at]; i < first_[at] + count; ++i) {
        boundary_before_[i] = last;
        if (instr(i).op == Opcode::boundary) last = i;
      }
      last = kNone;
      for (uint32_t i = first_[at] + count; i-- > first_[at];) {
        boundary_behind_[i] = last;
        if (instr(i).op == Opcode::boundary) last = i;
      }
    }
  }

  // Each as early as it can be, so that ranks that are alike take turns alike.
  std::vector<InstrRef> by_level() {
    const size_t count = refs_.size();
    std::vector<uint32_t> starts(count + 1, 0), needed(count, 0), level(count, 0);
    for (const Edge& edge : edges_) {
      ++starts[node_[edge.before] + 1];
      ++needed[node_[edge.after]];
    }
    for (size_t i = 1; i <= count; ++i) starts[i] += starts[i - 1];
    std::vector<uint32_t> after(edges_.size()), next(starts.begin(), starts.end() - 1);
    for (const Edge& edge : edges_) after[next[node_[edge.before]]++] = node_[edge.after];
    std::vector<uint32_t> ready;
    for (uint32_t i = 0; i < count; ++i) {
      if (node_[i] == i && needed[i] == 0) ready.push_back(i);
    }
    for (size_t done = 0; done < ready.size(); ++done) {
      const uint32_t i = ready[done];
      for (uint32_t e = starts[i]; e < starts[i + 1]; ++e) {
        level[after[e]] = std::max(level[after[e]], level[i] + 1);
        if (--needed[after[e]] == 0) ready.push_back(after[e]);
      }
    }
    refuse_circle(needed);
    std::vector<uint32_t> order(count);
    for (uint32_t i = 0; i < count; ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return level[node_[a]] < level[node_[b]]; });
    std::vector<InstrRef> program;
    program.reserve(count);
    for (const uint32_t i : order) program.push_back(refs_[i]);
    return program;
  }

  // `needed`: of each node what has not come before it.
  void refuse_circle(const std::vector<uint32_t>& needed) const {
    std::vector<const Edge*> into(needed.size(), nullptr);  // one of those that have not
    uint32_t at = kNone;
    for (const Edge& edge : edges_) {
      if (needed[node_[edge.before]] == 0 || needed[node_[edge.after]] == 0) continue;
      into[node_[edge.after]] = &edge;
      at = node_[edge.after];
    }
    if (at == kNone) return;
    std::vector<bool> seen(needed.size(), false);
    for (; !seen[at]; at = node_[into[at]->before]) seen[at] = true;
    // Lane order alone makes no circle.
    while (!into[at]->by_data) at = node_[into[at]->before];
    const Edge& edge = *into[at];
    throw UnorderedPlan(
        fmt::format(
            "{} needs what {} makes, which comes after it by the order of lanes and of what "
            "else is read: put what makes it first",
            name(edge.after), name(edge.before)),
        refs_[edge.after]);
  }

  const Plan& plan_;
  const bool by_events_;
  std::vector<InstrRef> refs_;   // by number
  std::vector<uint32_t> first_;  // by lane
  std::vector<uint32_t> node_;   // the number of what an instruction meets
  std::vector<uint32_t> boundary_before_, boundary_behind_;  // with by_events
  std::vector<Edge> edges_;
};

}  // namespace

std::vector<InstrRef> order_tasks(const Plan& plan, bool by_events) {
  return TaskOrder(plan, by_events).find();
}

}  // namespace stretto
