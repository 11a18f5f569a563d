// Lanes of plans in text form: instructions with their signals and regions.
#include <fmt/format.h>

#include <algorithm>

#include "core/meant.h"
#include "core/text.h"
#include "plan/faults.h"
#include "plan/parser.h"

namespace stretto {
namespace {

// Sums of notifies over a run stay far from 64 bits' end.
constexpr int64_t kMaxAmount = int64_t{1} << 40;

#define STRETTO_TEXT(name, text, ...) text,
constexpr std::string_view kLaneKinds[] = {STRETTO_LANE_KINDS(STRETTO_TEXT)};
constexpr std::string_view kOpcodes[] = {STRETTO_OPCODES(STRETTO_TEXT)};
constexpr std::string_view kCollectives[] = {STRETTO_COLLECTIVES(STRETTO_TEXT)};
#undef STRETTO_TEXT

}  // namespace

void Parser::lane() {
  in_.skip_blanks();
  const char* where = in_.position();
  PlanLines::Of lines{in_.line(), {}};
  Lane lane;
  lane.rank = static_cast<uint16_t>(number_after_blanks(0, plan_.ranks() - 1, "a rank"));
  lane.kind = one_of<LaneKind>("a lane's kind", kLaneKinds);
  lane.index = static_cast<uint16_t>(number_after_blanks(0, kMaxIndex, "a lane's index"));
  const Lane* previous = plan_.lanes.empty() ? nullptr : &plan_.lanes.back();
  if (const std::string fault = fault_in(plan_, previous, lane); !fault.empty()) {
    in_.fail_with(where, fault);
  }
  while (true) {
    line("an instruction, 'lane' or 'end'");
    if (in_.is_at("lane") || in_.is_at("end")) break;
    lines.instrs.push_back(in_.line());
    lane.instrs.push_back(instr(lane));
  }
  lane.instrs.shrink_to_fit();
  lines.instrs.shrink_to_fit();
  plan_.lanes.push_back(std::move(lane));
  lines_.lanes.push_back(std::move(lines));
}

Instr Parser::instr(const Lane& lane) {
  const char* where = in_.position();
  Instr instr;
  instr.op = opcode();
  switch (instr.form()) {
    case OpForm::wait:
      instr.signal = signal();
      in_.expect_token(">=");
      in_.skip_blanks();
      instr.amount = in_.number(1, kMaxAmount, "a threshold");
      if (in_.accept_token("lag")) {
        instr.lag = static_cast<uint8_t>(number_after_blanks(1, kMaxByte, "runs back"));
      }
      break;
    case OpForm::notify:
      instr.signal = signal();
      in_.expect('@');
      instr.rank = static_cast<uint16_t>(in_.number(0, plan_.ranks() - 1, "a rank"));
      in_.expect_token("+=");
      in_.skip_blanks();
      instr.amount = in_.number(1, kMaxAmount, "an increment");
      break;
    case OpForm::boundary:
      instr.id = number_after_blanks(0, kMaxInt32, "the boundary's number");
      break;
    case OpForm::collective:
      instr.collective = one_of<CollectiveKind>("a collective", kCollectives);
      instr.id = number_after_blanks(0, kMaxInt32, "the collective's number");
      in_.skip_blanks();
      if (int64_t team = 0; option("team", plan_.ranks(), team, 1)) {
        instr.team = static_cast<uint16_t>(team);
      }
      kernel(instr);
      attribute(form_of(instr.collective).attribute, instr);
      count(form_of(instr.collective).count, 1, 0, instr);
      operands(lane, instr);
      break;
    case OpForm::task_kind:
      in_.skip_blanks();
      if (in_.accept('#')) {
        instr.tile = static_cast<int32_t>(in_.number(0, kMaxInt32, "the tile's number"));
      }
      instr.fused = says_fused_ && in_.accept_token("fused");
      attribute(instr.kind()->attribute, instr);
      for (int i = 0; i < 2; ++i) {
        count(instr.kind()->counts[i], instr.kind()->least_count, i, instr);
      }
      operands(lane, instr);
      break;
    case OpForm::deliver:
      operands(lane, instr);
      break;
  }
  in_.expect_line_end();
  if (const std::string fault = fault_in(plan_, lane, instr); !fault.empty()) {
    in_.fail_with(where, fault);
  }
  return instr;
}

void Parser::attribute(std::string_view name, Instr& instr) {
  if (name.empty()) return;
  in_.skip_blanks();
  const std::string_view token = in_.peek();
  if (token.substr(0, token.find('=')) != name) {
    in_.fail(in_.position(), fmt::format("{}=NUMBER", name));
  }
  in_.name(name);
  in_.expect('=');
  instr.set_attribute(in_.decimal(name));
}

// kernel=NAME, if it stands here.
void Parser::kernel(Instr& instr) {
  in_.skip_blanks();
  const std::string_view token = in_.peek();
  if (token.substr(0, token.find('=')) != "kernel") return;
  in_.name("kernel");
  in_.expect('=');
  const char* const where = in_.position();
  const std::string_view name = in_.name("a kernel");
  const auto& known = plan_.op.kernels;
  const auto found = std::find_if(known.begin(), known.end(),
                                  [&](const EdgeKernel& one) { return one.name == name; });
  if (found == known.end()) in_.fail(where, "one of the graph's kernels");
  instr.set_kernel(static_cast<size_t>(found - known.begin()) + 1);
}

void Parser::count(std::string_view name, int64_t least, int number, Instr& instr) {
  if (name.empty()) return;
  int64_t value = 0;
  in_.skip_blanks();
  if (!option(name, kMaxInt32, value, least)) {
    in_.fail(in_.position(), fmt::format("{}=NUMBER", name));
  }
  instr.set_count(number, value);
}

Opcode Parser::opcode() {
  const std::string_view token = in_.peek();
  for (size_t i = 0; i < std::size(kOpcodes); ++i) {
    if (kOpcodes[i] != token) continue;
    in_.word("an instruction");
    return static_cast<Opcode>(i);
  }
  in_.fail_with(in_.position(), fmt::format("expected an instruction, 'lane' or 'end', found {}{}",
                                            quote(token), meant(token, kOpcodes)));
}

SignalRef Parser::signal() {
  in_.skip_blanks();
  const char* where = in_.position();
  const auto found = signal_ids_.find(in_.name("a signal, like flags.3"));
  if (found == signal_ids_.end()) in_.fail(where, "a declared signal array");
  in_.expect('.');
  SignalRef ref;
  ref.array = found->second;
  const int32_t count = plan_.signals[ref.array].count;
  if (count == 0) in_.fail(where, "a signal array that has signals");
  ref.index = static_cast<int32_t>(in_.number(0, count - 1, "a signal's index"));
  return ref;
}

void Parser::operands(const Lane& lane, Instr& instr) {
  if (plan_.operands.size() > std::numeric_limits<uint32_t>::max() - 2 * kMaxOperands) {
    in_.fail(in_.position(), "a plan with fewer operands");
  }
  instr.first_operand = static_cast<uint32_t>(plan_.operands.size());
  instr.num_reads = regions(lane);
  if (instr.op == Opcode::deliver) return;
  if (!in_.accept_token("->")) in_.fail(in_.position(), "a region or '->'");
  instr.num_writes = regions(lane);
}

uint16_t Parser::regions(const Lane& lane) {
  size_t count = 0;
  while (!in_.at_line_end() && !in_.is_at("->")) {
    if (++count > kMaxOperands) {
      in_.fail(in_.position(), fmt::format("at most {} regions", kMaxOperands));
    }
    plan_.operands.push_back(region(lane));
  }
  return static_cast<uint16_t>(count);
}

Region Parser::region(const Lane& lane) {
  const char* where = in_.position();
  const auto found = buffer_ids_.find(in_.name("a region, like out[0:128,0:256]"));
  if (found == buffer_ids_.end()) in_.fail(where, "a declared buffer");
  Region region;
  region.buffer = found->second;
  region.rank = lane.rank;
  if (in_.accept('@')) {
    region.rank = static_cast<uint16_t>(in_.number(0, plan_.ranks() - 1, "a rank"));
  }
  in_.expect('[');
  if (const Partition* const of = plan_.partition_of(region); of != nullptr && in_.accept('e')) {
    const auto entry = in_.number(0, of->entries - 1, "an entry");
    region.row0 = static_cast<int32_t>(entry * of->rows);
    region.row1 = region.row0 + of->rows;
  } else {
    range(region.row0, region.row1, "a row");
  }
  in_.expect(',');
  range(region.col0, region.col1, "a column");
  in_.expect(']');
  return region;
}

void Parser::range(int32_t& first, int32_t& stop, std::string_view what) {
  first = static_cast<int32_t>(in_.number(0, kMaxInt32, what));
  in_.expect(':');
  stop = static_cast<int32_t>(in_.number(first, kMaxInt32, what));
}

}  // namespace stretto
