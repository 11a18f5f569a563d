// The text form of plans; docs/plan-format.md is its grammar, parse.cpp its inverse.
#include <charconv>

#include "core/text.h"
#include "stretto/error.h"
#include "stretto/plan.h"

namespace stretto {
namespace {

// Plans have hundreds of thousands of regions: everything is appended in place.
class Printer {
 public:
  explicit Printer(const Plan& plan) : plan_(plan) {}

  std::string take() { return std::move(out_); }

  void plan() {
    out_.reserve(256 + 40 * (plan_.num_instrs() + plan_.operands.size()));
    text("stretto-plan ").number(kPlanVersion).text("\n");
    if (find_graph(plan_.op.name()) != plan_.op.text) {
      const std::string graph = stretto::print(*plan_.op.text);
      for (const std::string_view line : split(graph, '\n')) {
        if (!line.empty()) text("| ").text(line).text("\n");
      }
    }
    text("operator ").text(to_string(plan_.op)).text("\n");
    if (plan_.run_of > 0) text("run-of ").number(plan_.run_of).text("\n");
    if (!plan_.schedule.empty()) text("schedule ").text(plan_.schedule).text("\n");
    if (plan_.library_gemms) {
      multiplied(plan_.few_rows_gemms, std::nullopt, plan_.library_algorithm);
    }
    for (const LibraryKernel& one : plan_.library_kernels) {
      multiplied(one.few_rows, one.behind, one.algorithm);
    }
    if (plan_.low_latency_collectives) text("collectives low-latency\n");
    if (plan_.cluster != 1) text("cluster ").number(plan_.cluster).text("\n");
    text("sms ").number(plan_.sms).text("\n");
    for (const Partition& p : plan_.partitions) partition(p);
    for (const Buffer& b : plan_.buffers) buffer(b);
    for (const SignalArray& s : plan_.signals) signals(s);
    for (const Lane& l : plan_.lanes) lane(l);
    text("end\n");
  }

  void instr(const Lane& lane, const Instr& instr) {
    text(to_string(instr.op));
    switch (instr.form()) {
      case OpForm::wait:
        text(" ").signal(instr.signal).text(" >= ").number(instr.amount);
        if (instr.lag > 0) text(" lag ").number(instr.lag);
        return;
      case OpForm::notify:
        text(" ").signal(instr.signal);
        text("@").number(instr.rank).text(" += ").number(instr.amount);
        return;
      case OpForm::boundary:
        text(" ").number(instr.id);
        return;
      case OpForm::collective:
        text(" ").text(to_string(instr.collective)).text(" ").number(instr.id);
        if (instr.team > 0) text(" team=").number(instr.team);
        if (instr.kernel() > 0) kernel(instr);
        attribute(form_of(instr.collective).attribute, instr);
        count(form_of(instr.collective).count, instr.count(0));
        break;
      case OpForm::task_kind:
        if (instr.tile >= 0) text(" #").number(instr.tile);
        if (instr.fused) text(" fused");
        attribute(instr.kind()->attribute, instr);
        for (int i = 0; i < 2; ++i) count(instr.kind()->counts[i], instr.count(i));
        break;
      case OpForm::deliver:
        break;
    }
    for (const Region& read : plan_.reads(instr)) region(lane, read);
    if (instr.op == Opcode::deliver) return;
    text(" ->");
    for (const Region& write : plan_.writes(instr)) region(lane, write);
  }

 private:
  void attribute(std::string_view name, const Instr& instr) {
    if (!name.empty()) text(" ").text(name).text("=").decimal(instr.attribute());
  }

  void kernel(const Instr& instr) {
    STRETTO_ASSERT(instr.kernel() <= plan_.op.kernels.size(), "kernel out of range");
    text(" kernel=").text(plan_.op.kernels[instr.kernel() - 1].name);
  }

  void count(std::string_view name, int64_t value) {
    if (!name.empty()) text(" ").text(name).text("=").number(value);
  }

  Printer& text(std::string_view text) {
    out_.append(text);
    return *this;
  }

  Printer& number(int64_t value) {
    char digits[24];
    const auto [end, error] = std::to_chars(digits, digits + sizeof digits, value);
    out_.append(digits, static_cast<size_t>(end - digits));
    return *this;
  }

  // As short as it can be read back.
  Printer& decimal(float value) {
    char digits[32];
    const auto [end, error] = std::to_chars(digits, digits + sizeof digits, value);
    out_.append(digits, static_cast<size_t>(end - digits));
    return *this;
  }

  Printer& signal(const SignalRef& ref) {
    STRETTO_ASSERT(ref.array < plan_.signals.size(), "signal array out of range");
    return text(plan_.signals[ref.array].name).text(".").number(ref.index);
  }

  void region(const Lane& lane, const Region& r) {
    STRETTO_ASSERT(r.buffer < plan_.buffers.size(), "buffer out of range");
    text(" ").text(plan_.buffers[r.buffer].name);
    if (r.rank != lane.rank) text("@").number(r.rank);
    // Regions are most of a text: their numbers are put together before they are appended.
    constexpr size_t kMostDigits = 12;
    char range[8 * kMostDigits];
    char* end = range;
    const auto put = [&end](char before, int32_t value) {
      *end++ = before;
      end = std::to_chars(end, end + kMostDigits, value).ptr;
    };
    const Partition* const of = plan_.partition_of(r);
    if (of != nullptr && r.rows() == of->rows && r.row0 % of->rows == 0) {
      *end++ = '[';
      put('e', r.row0 / of->rows);
    } else {
      put('[', r.row0);
      put(':', r.row1);
    }
    put(',', r.col0);
    put(':', r.col1);
    *end++ = ']';
    out_.append(range, static_cast<size_t>(end - range));
  }

  void multiplied(bool few_rows, std::optional<int32_t> behind, int algorithm) {
    text(few_rows ? "gemm few-rows" : "gemm library");
    if (behind) text(" behind=").number(*behind);
    if (algorithm != 0) text(" algorithm=").number(algorithm);
    text("\n");
  }

  void buffer(const Buffer& b) {
    text("buffer ").text(b.name).text(" ").text(to_string(b.dtype)).text(" ");
    number(b.rows).text("x").number(b.cols).text(" ").text(to_string(b.role));
    if (b.sharded_rows > 0) text(" sharded=").number(b.sharded_rows);
    if (b.sharded_cols > 0) text(" columns=").number(b.sharded_cols);
    if (b.copies != 1) text(" copies=").number(b.copies);
    if (b.partition >= 0) {
      const auto of = static_cast<size_t>(b.partition);
      STRETTO_ASSERT(of < plan_.partitions.size(), "partition out of range");
      text(" by=").text(plan_.partitions[of].name);
    }
    text("\n");
  }

  void partition(const Partition& p) {
    text("partition ").text(p.name).text(" ").number(p.entries).text("x").number(p.rows);
    if (p.blocks != 1) text(" blocks=").number(p.blocks);
    if (p.expected != 0) text(" expected=").number(p.expected);
    text("\n");
  }

  void signals(const SignalArray& s) {
    text("signals ").text(s.name).text(" ").number(s.count);
    if (s.copies != 1) text(" copies=").number(s.copies);
    text("\n");
  }

  void lane(const Lane& l) {
    text("\nlane ").number(l.rank).text(" ").text(to_string(l.kind)).text(" ");
    number(l.index).text("\n");
    for (const Instr& i : l.instrs) {
      text("  ");
      instr(l, i);
      text("\n");
    }
  }

  const Plan& plan_;
  std::string out_;
};

}  // namespace

std::string print(const Plan& plan) {
  Printer printer(plan);
  printer.plan();
  return printer.take();
}

std::string print(const Plan& plan, const Lane& lane, const Instr& instr) {
  Printer printer(plan);
  printer.instr(lane, instr);
  return printer.take();
}

}  // namespace stretto
