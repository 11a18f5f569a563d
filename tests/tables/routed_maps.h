// Plans of rows that choose experts, whose tables tests follow on the host.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "routed_memory.h"

namespace stretto::cuda {

struct MapsCase {
  const char *op, *schedule;
  friend void PrintTo(const MapsCase& c, std::ostream* out) { *out << c.op << " " << c.schedule; }
};

class RoutedMaps : public testing::TestWithParam<MapsCase> {
 protected:
  RoutedMaps() : memory_(GetParam().op, GetParam().schedule), plan_(memory_.plan) {}

  // check(instr, tables of the task, set) for all tasks of routed rows, once partitions are made.
  template <typename Check>
  void each_task(const Check& check) {
    for (int rank = 0; rank < plan_.ranks(); ++rank) {
      for (int set = 0; set < memory_.sets; ++set) {
        SCOPED_TRACE(fmt::format("rank {}, set {}", rank, set));
        memory_.make_partitions(rank, set);
        memory_.each_routed(rank, [&](const Instr& instr, const device::MoverTask& task,
                                      const device::RoutedTask& routed, const MoverTable& table) {
          check(instr,
                device::RoutedTables::of(task, routed,
                                         table.regions[size_of(set)].data() + task.first_region),
                set);
        });
      }
    }
  }
  device::ExpertShares shares() const { return {memory_.experts, plan_.ranks()}; }
  // The operator's output.
  uint16_t out() const {
    return *plan_.find_buffer(memory_.op.tensor(memory_.op.outputs[0].tensor).name);
  }
  bool hands_over_by_choice() const {
    return std::string(GetParam().op).find("-up") != std::string::npos || only_dispatches();
  }
  bool only_dispatches() const { return std::string(GetParam().op).starts_with("dispatch"); }
  static size_t size_of(int value) { return static_cast<size_t>(value); }

  RoutedMemory memory_;
  const Plan& plan_;
};

}  // namespace stretto::cuda
