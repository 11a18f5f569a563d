#include "check/memory_reports.h"

#include <fmt/format.h>

#include "check/order_hint.h"
#include "check/wording.h"

namespace stretto::checker {

void MemoryReports::stale_read(const Access& read, const Access& write) {
  findings_.add(DiagnosticKind::read_before_write, cause(read), [&] {
    Diagnostic d = about(read, write, 0);
    if (read.instr == write.instr) {
      d.message = fmt::format("{} reads {}, which nobody but it writes", task(read), region(read));
      d.hint = "a task must write this place before in the same run";
    } else if (execution_.clocks().precedes(
                   execution_.event(read.lane, read.instr, 0),
                   execution_.begin(write.lane, write.instr, write.op, 0))) {
      d.message = fmt::format("{} reads {} before {} writes it: it would get an earlier run's data",
                              task(read), region(read), task(write));
    } else {
      d.message = fmt::format("{} reads {}, which {} writes without an order between them",
                              task(read), region(read), task(write));
    }
    return d;
  });
}

void MemoryReports::unordered_read(const Access& read, const Access& write) {
  findings_.add(DiagnosticKind::read_before_write, cause(read), [&] {
    Diagnostic d = about(read, write, 0);
    d.message = fmt::format("{} reads {}, which {} writes without an order between them",
                            task(read), region(read), task(write));
    return d;
  });
}

void MemoryReports::written_twice(const Access& before, const Access& after) {
  findings_.add(DiagnosticKind::unordered_writes, cause(after), [&] {
    Diagnostic d = about(after, before, 0);
    if (before.instr == after.instr) {
      d.message = fmt::format("{} writes {} twice", task(after), region(after));
      d.hint = "the regions that a task writes must not overlap";
    } else {
      d.message = fmt::format("{} writes {}, which {} writes without an order between them",
                              task(after), region(after), task(before));
    }
    return d;
  });
}

void MemoryReports::overwritten(const Access& read, const Access& write) {
  findings_.add(DiagnosticKind::overwrite_unread, cause(write), [&] {
    Diagnostic d = about(write, read, 0);
    if (read.instr == write.instr) {
      d.message = fmt::format("{} writes {} over what it reads itself, {}", task(write),
                              region(write), region(read));
      d.hint = "only collectives may write in place, over exactly what they read";
    } else {
      d.message = fmt::format("{} overwrites {}, which {} reads without an order between them",
                              task(write), region(write), task(read));
    }
    return d;
  });
}

void MemoryReports::overwritten_by_a_later_run(const Access& access, const Access& write, int lag) {
  const bool read = !access.is_write;
  const auto kind = read ? DiagnosticKind::overwrite_unread : DiagnosticKind::unordered_writes;
  findings_.add(kind, cause(write), [&] {
    Diagnostic d = about(write, access, lag);
    d.message =
        fmt::format("{} may write {} while {}, {} earlier, still {} it", task(write), region(write),
                    task(access), counted(lag, "run"), read ? "reads" : "writes");
    return d;
  });
}

void MemoryReports::overwritten_under_the_caller(const Access& write, int lag) {
  findings_.add(DiagnosticKind::overwrite_unread, cause(write), [&] {
    const int rank = write.region.rank;
    Diagnostic d = about(write);
    d.message = fmt::format(
        "{} may write {} while the caller still reads the output of {} before on rank {}",
        task(write), region(write), counted(lag, "run"), rank);
    d.hint = fmt::format("it should first hear from a task of rank {} in its own run", rank);
    return d;
  });
}

void MemoryReports::undelivered(const Access& write) {
  findings_.add(DiagnosticKind::undelivered_output, cause(write), [&] {
    const int rank = write.region.rank;
    Diagnostic d = about(write);
    d.message = fmt::format("{} writes {}, maybe after the run has ended on rank {}", task(write),
                            region(write), rank);
    d.hint = fmt::format("a deliver of this region on rank {} should wait for it", rank);
    return d;
  });
}

void MemoryReports::never_written(const Access& read, const Region& place) {
  findings_.add(DiagnosticKind::never_written, cause(read), [&] {
    Diagnostic d = about(read);
    d.message = fmt::format("{} reads {}, but nobody writes {}", task(read), region(read),
                            describe(plan_, place));
    d.hint = "a task must write all of it in the same run";
    return d;
  });
}

void MemoryReports::unwritten_output(const Region& place) {
  const uint64_t cause = uint64_t{place.rank} << 16 | place.buffer;
  findings_.add(DiagnosticKind::unwritten_output, cause, [&] {
    Diagnostic d;
    d.buffer = place.buffer;
    d.message = fmt::format("no task writes {}, part of an output of rank {}",
                            describe(plan_, place), place.rank);
    d.hint = "every element of an output must be written in every run";
    return d;
  });
}

std::string MemoryReports::task(const Access& access) const { return at(plan_, ref(access)); }

std::string MemoryReports::region(const Access& access) const {
  return describe(plan_, access.region);
}

uint64_t MemoryReports::cause(const Access& access) const {
  return uint64_t{ref(access).lane} << 16 | access.region.buffer;
}

Diagnostic MemoryReports::about(const Access& access) const {
  Diagnostic d;
  const InstrRef at = ref(access);
  d.where = at;
  d.tile = plan_.lanes[at.lane].instrs[at.pos].tile;
  return d;
}

Diagnostic MemoryReports::about(const Access& access, const Access& other, int lag) const {
  Diagnostic d = about(access);
  d.other = ref(other);
  OrderHint hint = order_hint(plan_, *d.other, *d.where, lag);
  d.signal = std::move(hint.signal);
  d.hint = std::move(hint.hint);
  d.also = std::move(hint.named);
  return d;
}

}  // namespace stretto::checker
