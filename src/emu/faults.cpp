#include "emu/faults.h"

#include <fmt/format.h>

#include "emu/random.h"

namespace stretto::emu {
namespace {

constexpr size_t kKept = 50;
// Beyond this many different faults the rest are only counted.
constexpr size_t kRemembered = 100'000;

enum Kind { kUnfitRead, kOvertaken, kBounds, kForeign, kDisagreement };

std::string count_unfit(const Unfit& unfit, int64_t of) {
  std::string text = fmt::format("{} of {} elements", unfit.count(), of);
  const char* joint = ":";
  const auto part = [&](int64_t count, const char* what) {
    if (count == 0) return;
    text += fmt::format("{} {} {}", joint, count, what);
    joint = ",";
  };
  part(unfit.never, "never written");
  part(unfit.stale, "left from an earlier run");
  part(unfit.newer, "already overwritten by a later run");
  return text + fmt::format("; first at [{},{}]", unfit.row, unfit.col);
}

}  // namespace

bool Faults::is_new(const Where& where, int kind, const Region& region) {
  if (seen_.size() >= kRemembered) {
    ++count_;
    return false;
  }
  uint64_t key = 0;
  for (const uint64_t part :
       {uint64_t{where.lane} << 32 | where.pos,
        static_cast<uint64_t>(where.run) << 32 | static_cast<uint64_t>(kind),
        uint64_t{region.buffer} << 16 | region.rank,
        static_cast<uint64_t>(region.row0) << 32 | static_cast<uint64_t>(region.col0)}) {
    key = Random(key ^ part).next();
  }
  return seen_.insert(key).second;
}

void Faults::add(EmulateFault fault) {
  ++count_;
  if (kept_.size() < kKept) kept_.push_back(std::move(fault));
}

void Faults::add(const Where& where, std::string_view what) {
  const Lane& lane = plan_.lanes[where.lane];
  const Instr& instr = lane.instrs[where.pos];
  const std::string tile = instr.tile >= 0 ? fmt::format(" tile {}", instr.tile) : "";
  add({fmt::format("run {}: {} instruction {} ({}{}){}", where.run, describe(lane), where.pos,
                   to_string(instr.op), tile, what),
       InstrRef{where.lane, where.pos}});
}

void Faults::unfit_read(const Where& where, const Region& region, const Unfit& unfit) {
  if (!is_new(where, kUnfitRead, region)) return;
  add(where,
      fmt::format(" reads {}: {}", describe(plan_, region), count_unfit(unfit, region.elements())));
}

void Faults::overtaken_write(const Where& where, const Region& region, int64_t elements) {
  if (!is_new(where, kOvertaken, region)) return;
  add(where, fmt::format(" overwrites {} elements of {} that a later run has already written",
                         elements, describe(plan_, region)));
}

void Faults::out_of_bounds(const Where& where, const Region& region) {
  if (!is_new(where, kBounds, region)) return;
  const Buffer& buffer = plan_.buffers[region.buffer];
  add(where,
      fmt::format(" names {}, but {} has {} rows and {} columns there", describe(plan_, region),
                  buffer.name, buffer.rows_on(region.rank), buffer.cols_on(region.rank)));
}

void Faults::foreign(const Where& where, const Region& region) {
  if (!is_new(where, kForeign, region)) return;
  add(where, fmt::format(" touches {}, but {} memory is out of reach of other ranks",
                         describe(plan_, region), to_string(plan_.buffers[region.buffer].role)));
}

void Faults::disagreement(const Where& where, const std::string& about) {
  if (!is_new(where, kDisagreement, {})) return;
  add(where, ": " + about);
}

void Faults::in_kernel(const Where& where, const std::string& name, const std::string& finding) {
  add(where, fmt::format(": kernel {}: {}", name, finding));
}

void Faults::unfit_output(int rank, int run, const Region& region, const Unfit& unfit) {
  add({fmt::format("run {}: the caller of rank {} reads {}: {}", run, rank, describe(plan_, region),
                   count_unfit(unfit, region.elements()))});
}

std::vector<EmulateFault> Faults::all() const {
  std::vector<EmulateFault> all = kept_;
  if (count_ > all.size()) all.push_back({fmt::format("and {} more faults", count_ - all.size())});
  return all;
}

}  // namespace stretto::emu
