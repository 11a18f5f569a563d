// Reads the text form of plans; docs/plan-format.md is its grammar, print.cpp its inverse.
#include <fmt/format.h>

#include <limits>
#include <unordered_map>

#include "core/text.h"
#include "plan/cursor.h"
#include "plan/faults.h"
#include "stretto/error.h"
#include "stretto/schedule.h"

namespace stretto {
namespace {

constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxIndex = std::numeric_limits<uint16_t>::max();
constexpr int64_t kMaxByte = std::numeric_limits<uint8_t>::max();
// Sums of notifies over a run stay far from 64 bits' end.
constexpr int64_t kMaxAmount = int64_t{1} << 40;

#define STRETTO_TEXT(name, text, ...) text,
constexpr std::string_view kDTypes[] = {STRETTO_DTYPES(STRETTO_TEXT)};
constexpr std::string_view kRoles[] = {STRETTO_BUFFER_ROLES(STRETTO_TEXT)};
constexpr std::string_view kLaneKinds[] = {STRETTO_LANE_KINDS(STRETTO_TEXT)};
constexpr std::string_view kOpcodes[] = {STRETTO_OPCODES(STRETTO_TEXT)};
constexpr std::string_view kCollectives[] = {STRETTO_COLLECTIVES(STRETTO_TEXT)};
#undef STRETTO_TEXT

class Parser {
 public:
  Parser(std::string_view text, std::string_view file_name) : in_(text, file_name) {}

  Plan parse() {
    header();
    declarations();
    while (in_.accept_token("lane")) lane();
    ending();
    return std::move(plan_);
  }

 private:
  // Moves to the next line, which there must be.
  void line(std::string_view expected) {
    in_.expect_line_end();
    if (!in_.next_line()) in_.fail(in_.position(), expected);
  }

  template <typename Enum, size_t kSize>
  Enum one_of(std::string_view what, const std::string_view (&names)[kSize]) {
    const std::string_view token = in_.peek();
    for (size_t i = 0; i < kSize; ++i) {
      if (names[i] != token) continue;
      in_.word(what);
      return static_cast<Enum>(i);
    }
    std::string expected;
    for (size_t i = 0; i < kSize; ++i) {
      expected += i == 0 ? "" : i + 1 == kSize ? " or " : ", ";
      expected += names[i];
    }
    in_.fail(in_.position(), expected);
  }

  int32_t number_after_blanks(int64_t least, int64_t most, std::string_view expected) {
    in_.skip_blanks();
    return static_cast<int32_t>(in_.number(least, most, expected));
  }

  void header() {
    if (!in_.next_line()) in_.fail(in_.position(), "'stretto-plan 1'");
    if (!in_.accept_token("stretto-plan")) in_.fail(in_.position(), "'stretto-plan 1'");
    in_.skip_blanks();
    const char* where = in_.position();
    const int64_t version = in_.number(1, kMaxInt32, "the plan's version");
    if (version > kPlanVersion) {
      in_.fail_with(where, fmt::format("expected a plan of version {} or older, found version {}: "
                                       "a newer stretto wrote it",
                                       kPlanVersion, version));
    }
    line("'operator'");
    in_.expect_token("operator");
    in_.skip_blanks();
    const char* operator_start = in_.position();
    const std::string_view operator_text = in_.rest();
    try {
      plan_.op = parse_operator(operator_text);
    } catch (const UsageError& error) {
      in_.fail_with(operator_start, fmt::format("expected an operator, found {}: {}",
                                                quote(operator_text, 80), error.what()));
    }
    line("'sms'");
    if (in_.accept_token("schedule")) {
      in_.skip_blanks();
      const char* schedule_start = in_.position();
      plan_.schedule = in_.rest();
      if (!is_schedule_text(plan_.schedule)) in_.fail(schedule_start, "a schedule's text");
      line("'sms'");
    }
    if (in_.accept_token("gemm")) {
      library();
      line("'sms'");
    }
    if (in_.accept_token("collectives")) {
      in_.expect_token("low-latency");
      plan_.low_latency_collectives = true;
      line("'sms'");
    }
    if (!in_.accept_token("sms")) {
      in_.fail(in_.position(), plan_.low_latency_collectives ? "'sms'"
                               : plan_.library_gemms         ? "'collectives' or 'sms'"
                               : plan_.schedule.empty()
                                   ? "'schedule', 'gemm', 'collectives' or 'sms'"
                                   : "'gemm', 'collectives' or 'sms'");
    }
    plan_.sms = number_after_blanks(1, kMaxInt32, "the number of SMs");
  }

  void library() {
    in_.expect_token("library");
    plan_.library_gemms = true;
    int64_t value = 0;
    if (option("algorithm", kMostAlgorithms - 1, value)) {
      plan_.library_algorithm = static_cast<int>(value);
    }
    if (!in_.at_line_end()) in_.fail(in_.position(), "algorithm=NUMBER or nothing");
  }

  void declarations() {
    const std::string_view expected = "'buffer', 'signals', 'lane' or 'end'";
    while (true) {
      line(expected);
      if (in_.accept_token("buffer")) {
        buffer();
      } else if (in_.accept_token("signals")) {
        signals();
      } else if (in_.peek() == "lane" || in_.peek() == "end") {
        return;
      } else {
        in_.fail(in_.position(), expected);
      }
    }
  }

  // A declaration's name, entered into `ids` as the next number.
  std::string declared(std::unordered_map<std::string_view, uint16_t>& ids,
                       std::string_view expected) {
    in_.skip_blanks();
    const char* where = in_.position();
    const std::string_view name = in_.name(expected);
    if (!is_name(name)) {
      in_.fail(where, fmt::format("{} of at most {} characters", expected, kMaxNameLength));
    }
    if (ids.size() >= static_cast<size_t>(kMaxIndex)) {
      in_.fail(where, fmt::format("at most {} declarations", kMaxIndex));
    }
    if (!ids.emplace(name, static_cast<uint16_t>(ids.size())).second) {
      in_.fail(where, fmt::format("{} that is not taken yet", expected));
    }
    return std::string(name);
  }

  // "key=NUMBER" if it stands here.
  bool option(std::string_view key, int64_t most, int64_t& value) {
    const std::string_view token = in_.peek();
    if (token.substr(0, token.find('=')) != key) return false;
    in_.name(key);
    in_.expect('=');
    value = in_.number(1, most, key);
    return true;
  }

  void buffer() {
    Buffer buffer;
    buffer.name = declared(buffer_ids_, "a buffer's name");
    buffer.dtype = one_of<DType>("an element type", kDTypes);
    buffer.rows = number_after_blanks(1, kMaxInt32, "rows");
    in_.expect('x');
    buffer.cols = static_cast<int32_t>(in_.number(1, kMaxInt32, "columns"));
    buffer.role = one_of<BufferRole>("a role", kRoles);
    int64_t value = 0;
    if (option("sharded", kMaxInt32, value)) buffer.sharded_rows = static_cast<int32_t>(value);
    if (option("copies", kMaxByte, value)) buffer.copies = static_cast<uint8_t>(value);
    if (!in_.at_line_end()) in_.fail(in_.position(), "sharded=ROWS, copies=COUNT or nothing");
    plan_.buffers.push_back(std::move(buffer));
  }

  void signals() {
    SignalArray signals;
    signals.name = declared(signal_ids_, "a signal array's name");
    signals.count = number_after_blanks(0, kMaxInt32, "the number of signals");
    int64_t value = 0;
    if (option("copies", kMaxByte, value)) signals.copies = static_cast<uint8_t>(value);
    if (!in_.at_line_end()) in_.fail(in_.position(), "copies=COUNT or nothing");
    plan_.signals.push_back(std::move(signals));
  }

  void lane() {
    in_.skip_blanks();
    const char* where = in_.position();
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
      const std::string_view token = in_.peek();
      if (token == "lane" || token == "end") break;
      lane.instrs.push_back(instr(lane));
    }
    lane.instrs.shrink_to_fit();
    plan_.lanes.push_back(std::move(lane));
  }

  Instr instr(const Lane& lane) {
    const char* where = in_.position();
    Instr instr;
    instr.op = opcode();
    switch (instr.op) {
      case Opcode::wait:
        instr.signal = signal();
        in_.expect_token(">=");
        in_.skip_blanks();
        instr.amount = in_.number(1, kMaxAmount, "a threshold");
        if (in_.accept_token("lag")) {
          instr.lag = static_cast<uint8_t>(number_after_blanks(1, kMaxByte, "runs back"));
        }
        break;
      case Opcode::notify:
        instr.signal = signal();
        in_.expect('@');
        instr.rank = static_cast<uint16_t>(in_.number(0, plan_.ranks() - 1, "a rank"));
        in_.expect_token("+=");
        in_.skip_blanks();
        instr.amount = in_.number(1, kMaxAmount, "an increment");
        break;
      case Opcode::boundary:
        instr.id = number_after_blanks(0, kMaxInt32, "the boundary's number");
        break;
      case Opcode::collective:
        instr.collective = one_of<CollectiveKind>("a collective", kCollectives);
        instr.id = number_after_blanks(0, kMaxInt32, "the collective's number");
        operands(lane, instr);
        break;
      case Opcode::gemm:
      case Opcode::reduce:
      case Opcode::copy:
        in_.skip_blanks();
        if (in_.accept('#')) {
          instr.tile = static_cast<int32_t>(in_.number(0, kMaxInt32, "the tile's number"));
        }
        operands(lane, instr);
        break;
      case Opcode::deliver:
        operands(lane, instr);
        break;
    }
    in_.expect_line_end();
    if (const std::string fault = fault_in(plan_, lane, instr); !fault.empty()) {
      in_.fail_with(where, fault);
    }
    return instr;
  }

  Opcode opcode() {
    const std::string_view token = in_.peek();
    for (size_t i = 0; i < std::size(kOpcodes); ++i) {
      if (kOpcodes[i] != token) continue;
      in_.word("an instruction");
      return static_cast<Opcode>(i);
    }
    in_.fail(in_.position(), "an instruction, 'lane' or 'end'");
  }

  SignalRef signal() {
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

  void operands(const Lane& lane, Instr& instr) {
    if (plan_.operands.size() > std::numeric_limits<uint32_t>::max() - 2 * kMaxOperands) {
      in_.fail(in_.position(), "a plan with fewer operands");
    }
    instr.first_operand = static_cast<uint32_t>(plan_.operands.size());
    instr.num_reads = regions(lane);
    if (instr.op == Opcode::deliver) return;
    if (!in_.accept_token("->")) in_.fail(in_.position(), "a region or '->'");
    instr.num_writes = regions(lane);
  }

  // Regions up to "->" or the end of the line; their number.
  uint16_t regions(const Lane& lane) {
    size_t count = 0;
    while (!in_.at_line_end() && in_.peek() != "->") {
      if (++count > kMaxOperands) {
        in_.fail(in_.position(), fmt::format("at most {} regions", kMaxOperands));
      }
      plan_.operands.push_back(region(lane));
    }
    return static_cast<uint16_t>(count);
  }

  Region region(const Lane& lane) {
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
    range(region.row0, region.row1, "a row");
    in_.expect(',');
    range(region.col0, region.col1, "a column");
    in_.expect(']');
    return region;
  }

  void range(int32_t& first, int32_t& stop, std::string_view what) {
    first = static_cast<int32_t>(in_.number(0, kMaxInt32, what));
    in_.expect(':');
    stop = static_cast<int32_t>(in_.number(first, kMaxInt32, what));
  }

  void ending() {
    if (!in_.accept_token("end")) in_.fail(in_.position(), "'end'");
    in_.expect_line_end();
    if (in_.next_line()) in_.fail(in_.position(), "nothing after 'end'");
  }

  Cursor in_;
  Plan plan_;
  std::unordered_map<std::string_view, uint16_t> buffer_ids_, signal_ids_;
};

}  // namespace

Plan parse_plan(std::string_view text, std::string_view file_name) {
  return Parser(text, file_name).parse();
}

}  // namespace stretto
