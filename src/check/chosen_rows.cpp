#include "check/chosen_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "check/wording.h"
#include "plan/chosen_operands.h"
#include "stretto/call.h"

namespace stretto::checker {
namespace {

// What a buffer's rows are, as those who write it leave them.
enum class Rows : uint8_t {
  all,
  given,       // by the caller: of the choices whose expert is the rank's
  dispatched,  // those that choose an expert of the rank
  terms,       // of sums, of tokens with a row at the rank that made them
};

class ChosenRows {
 public:
  ChosenRows(const Plan& plan, bool is_fragment, Findings& findings)
      : plan_(plan), findings_(findings), rows_(plan.buffers.size(), Rows::all) {
    if (!is_fragment) note_inputs();
    for_each_task([&](InstrRef ref) { note_writes(instr(ref)); });
  }

  void run() {
    const auto is_whole = [](Rows rows) { return rows == Rows::all; };
    if (std::all_of(rows_.begin(), rows_.end(), is_whole)) return;
    for_each_task([&](InstrRef ref) { check_reads(ref); });
  }

 private:
  const Instr& instr(InstrRef ref) const { return plan_.lanes[ref.lane].instrs[ref.pos]; }

  template <typename Visit>
  void for_each_task(const Visit& visit) const {
    for (uint32_t lane = 0; lane < plan_.lanes.size(); ++lane) {
      const std::vector<Instr>& instrs = plan_.lanes[lane].instrs;
      for (uint32_t pos = 0; pos < instrs.size() && !findings_.full(); ++pos) {
        if (instrs[pos].is_task()) visit({lane, pos});
      }
    }
  }

  void note_inputs() {
    for (const CallerTensor& tensor : caller_tensors(plan_.op)) {
      if (tensor.is_output || tensor.held != Held::routed) continue;
      const auto buffer = plan_.find_buffer(plan_.op.tensor(tensor.tensor).name);
      if (buffer && plan_.buffers[*buffer].role == BufferRole::input) rows_[*buffer] = Rows::given;
    }
  }

  void note_writes(const Instr& of) {
    if (const TaskKind* const kind = of.kind(); kind != nullptr && kind->leaves != RowsLeft::all) {
      for (const Region& to : plan_.writes(of)) {
        rows_[to.buffer] = kind->leaves == RowsLeft::terms ? Rows::terms : Rows::dispatched;
      }
    } else if (of.op == Opcode::collective) {
      const CollectiveForm& form = form_of(of.collective);
      if (form.goes_by_ids() && !form.adds) {
        rows_[dispatched(plan_, of).rows->buffer] = Rows::dispatched;
      }
    }
  }

  // Whether the task takes, of what it reads there, only rows that choices or a table of theirs
  // say.
  bool picks(const Instr& of, size_t read) const {
    const size_t reads = plan_.reads(of).size();
    if (of.op == Opcode::collective) {
      const CollectiveForm& form = form_of(of.collective);
      return form.goes_by_ids() && form.adds && read == 2 && !chosen_operands(plan_, of).round_trip;
    }
    const TaskKind* const kind = kind_of(of.op);
    return kind != nullptr && kind->reads_tables != 0 && read + kind->num_others >= reads;
  }

  // Whether it adds the terms of those who have one, as ids say.
  static bool merges(const Instr& of) {
    return of.kind() != nullptr && of.kind()->adds_terms && of.kind()->reads_ids != 0;
  }

  void check_reads(InstrRef ref) {
    const Instr& of = instr(ref);
    if (of.op == Opcode::deliver) return;  // the caller knows which rows are there
    const auto reads = plan_.reads(of);
    for (size_t i = 0; i < reads.size(); ++i) {
      if (reads[i].empty()) continue;
      const Rows rows = rows_[reads[i].buffer];
      const bool is_known = rows == Rows::all || (rows == Rows::terms ? merges(of) : picks(of, i));
      if (!is_known) report(ref, reads[i], rows);
    }
  }

  void report(InstrRef ref, const Region& region, Rows rows) {
    findings_.add(DiagnosticKind::never_written, uint64_t{ref.lane} << 16 | region.buffer, [&] {
      Diagnostic d;
      d.buffer = region.buffer;
      d.where = ref;
      d.tile = instr(ref).tile;
      d.message = fmt::format("{} reads all of {}, but nobody writes rows of {}", at(plan_, ref),
                              describe(plan_, region), whose(rows));
      d.hint = rows == Rows::terms ? "merge adds terms by the ids of their tokens"
                                   : "take such rows by ids or tables of choices, as permute, "
                                     "gather_gemm and combine do";
      return d;
    });
  }

  static std::string_view whose(Rows rows) {
    switch (rows) {
      case Rows::given:
        return "choices whose expert another rank has";
      case Rows::dispatched:
        return "tokens that choose no expert of the rank";
      case Rows::all:
      case Rows::terms:
        break;
    }
    return "tokens that have none where the terms are made";
  }

  const Plan& plan_;
  Findings& findings_;
  std::vector<Rows> rows_;  // by buffer
};

}  // namespace

void check_chosen_rows(const Plan& plan, bool is_fragment, Findings& findings) {
  ChosenRows(plan, is_fragment, findings).run();
}

}  // namespace stretto::checker
