#include "check/regions.h"

#include <fmt/format.h>

#include "check/wording.h"

namespace stretto::checker {
namespace {

class RegionCheck {
 public:
  RegionCheck(const Plan& plan, Findings& findings) : plan_(plan), findings_(findings) {}

  void task(InstrRef ref) {
    const Instr& instr = plan_.lanes[ref.lane].instrs[ref.pos];
    for (const Region& region : plan_.reads(instr)) read(ref, region);
    for (const Region& region : plan_.writes(instr)) write(ref, region);
  }

 private:
  void bounds(InstrRef ref, const Region& region) {
    if (in_bounds(plan_, region)) return;
    findings_.add(DiagnosticKind::out_of_bounds, cause(ref, region), [&] {
      const Buffer& buffer = plan_.buffers[region.buffer];
      Diagnostic d = about(ref, region);
      d.message = fmt::format("{} touches {}, but rank {} has {} x {} of {}", at(plan_, ref),
                              describe(plan_, region), region.rank, buffer.rows_on(region.rank),
                              buffer.cols_on(region.rank), buffer.name);
      d.hint = "clip the region to the buffer, or declare the buffer larger";
      return d;
    });
  }

  void read(InstrRef ref, const Region& region) {
    bounds(ref, region);
    const Lane& lane = plan_.lanes[ref.lane];
    const Instr& instr = lane.instrs[ref.pos];
    const BufferRole role = plan_.buffers[region.buffer].role;
    if (region.rank != lane.rank) {
      wrong(ref, region, fmt::format("reads {} of another rank", describe(plan_, region)),
            fmt::format("let rank {} push it", region.rank));
    } else if (instr.op == Opcode::deliver && role != BufferRole::output) {
      wrong(ref, region, fmt::format("delivers {}, which is no output", describe(plan_, region)),
            "deliver regions of output buffers");
    }
  }

  void write(InstrRef ref, const Region& region) {
    bounds(ref, region);
    const Lane& lane = plan_.lanes[ref.lane];
    const BufferRole role = plan_.buffers[region.buffer].role;
    const bool collective = lane.instrs[ref.pos].op == Opcode::collective;
    if (role == BufferRole::input) {
      wrong(ref, region, fmt::format("writes {}, an input", describe(plan_, region)),
            "only the caller writes inputs; write a local buffer");
    } else if (region.rank != lane.rank && (role == BufferRole::local || collective)) {
      wrong(ref, region, fmt::format("writes {} of another rank", describe(plan_, region)),
            collective ? "a collective reads and writes its own rank's memory only"
                       : "peers can write symmetric and output buffers only");
    }
  }

  Diagnostic about(InstrRef ref, const Region& region) const {
    Diagnostic d;
    d.buffer = region.buffer;
    d.where = ref;
    d.tile = plan_.lanes[ref.lane].instrs[ref.pos].tile;
    return d;
  }

  void wrong(InstrRef ref, const Region& region, const std::string& does, std::string hint) {
    findings_.add(DiagnosticKind::wrong_access, cause(ref, region), [&] {
      Diagnostic d = about(ref, region);
      d.message = fmt::format("{} {}", at(plan_, ref), does);
      d.hint = std::move(hint);
      return d;
    });
  }

  // One report for a lane, opcode and buffer.
  uint64_t cause(InstrRef ref, const Region& region) const {
    const auto op = static_cast<uint64_t>(plan_.lanes[ref.lane].instrs[ref.pos].op);
    return uint64_t{ref.lane} << 24 | op << 16 | region.buffer;
  }

  const Plan& plan_;
  Findings& findings_;
};

}  // namespace

bool in_bounds(const Plan& plan, const Region& region) {
  const Buffer& buffer = plan.buffers[region.buffer];
  return region.row0 >= 0 && region.row0 <= region.row1 &&
         region.row1 <= buffer.rows_on(region.rank) && region.col0 >= 0 &&
         region.col0 <= region.col1 && region.col1 <= buffer.cols_on(region.rank);
}

void check_regions(const Plan& plan, Findings& findings) {
  RegionCheck check(plan, findings);
  for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
    const std::vector<Instr>& instrs = plan.lanes[lane].instrs;
    for (uint32_t pos = 0; pos < instrs.size() && !findings.full(); ++pos) {
      if (instrs[pos].is_task()) check.task({lane, pos});
    }
  }
}

}  // namespace stretto::checker
