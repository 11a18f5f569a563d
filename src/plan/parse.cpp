// Reads the text form of plans; docs/plan-format.md is its grammar, print.cpp its inverse.
#include <fmt/format.h>

#include "core/text.h"
#include "plan/faults.h"
#include "plan/parser.h"
#include "stretto/error.h"
#include "stretto/schedule.h"

namespace stretto {
namespace {

#define STRETTO_TEXT(name, text, ...) text,
constexpr std::string_view kDTypes[] = {STRETTO_ALL_DTYPES(STRETTO_TEXT)};
constexpr std::string_view kRoles[] = {STRETTO_BUFFER_ROLES(STRETTO_TEXT)};
#undef STRETTO_TEXT

}  // namespace

Plan Parser::parse() {
  header();
  declarations();
  while (in_.accept_token("lane")) lane();
  ending();
  return std::move(plan_);
}

void Parser::line(std::string_view expected) {
  in_.expect_line_end();
  if (!in_.next_line()) in_.fail(in_.position(), expected);
}

int32_t Parser::number_after_blanks(int64_t least, int64_t most, std::string_view expected) {
  in_.skip_blanks();
  return static_cast<int32_t>(in_.number(least, most, expected));
}

void Parser::header() {
  constexpr std::string_view kFirst = "'stretto-plan 2'";
  static_assert(kPlanVersion == 2);
  if (!in_.next_line()) in_.fail(in_.position(), kFirst);
  if (!in_.accept_token("stretto-plan")) in_.fail(in_.position(), kFirst);
  in_.skip_blanks();
  const char* where = in_.position();
  const int64_t version = in_.number(1, kMaxInt32, "the plan's version");
  says_fused_ = version >= 2;
  if (version > kPlanVersion) {
    in_.fail_with(where, fmt::format("expected a plan of version {} or older, found version {}: "
                                     "a newer stretto wrote it",
                                     kPlanVersion, version));
  }
  line("'operator'");
  std::shared_ptr<const GraphText> graph = own_graph();
  in_.expect_token("operator");
  in_.skip_blanks();
  const char* operator_start = in_.position();
  const std::string_view operator_text = in_.rest();
  try {
    plan_.op = parse_operator(operator_text, {}, graph);
  } catch (const UsageError& error) {
    in_.fail_with(operator_start, fmt::format("expected an operator, found {}: {}",
                                              quote(operator_text, 80), error.what()));
  }
  line("'sms'");
  if (in_.accept_token("run-of")) {
    plan_.run_of = number_after_blanks(plan_.op.rows() + 1, kMaxInt32, "more rows than the run's");
    line("'sms'");
  }
  if (in_.accept_token("schedule")) {
    in_.skip_blanks();
    const char* schedule_start = in_.position();
    plan_.schedule = in_.rest();
    if (!is_schedule_text(plan_.schedule, plan_.op)) in_.fail(schedule_start, "a schedule's text");
    line("'sms'");
  }
  while (!plan_.library_gemms && in_.accept_token("gemm")) {
    multiplied();
    line("'sms'");
  }
  if (in_.accept_token("collectives")) {
    in_.expect_token("low-latency");
    plan_.low_latency_collectives = true;
    line("'sms'");
  }
  if (in_.peek() == "cluster") {
    clusters_line_ = in_.line();
    in_.expect_token("cluster");
    static_assert(kMostClustered == 2);
    in_.expect_token("2");
    plan_.cluster = 2;
    line("'sms'");
  }
  if (!in_.accept_token("sms")) {
    in_.fail(in_.position(),
             plan_.cluster != 1               ? "'sms'"
             : plan_.low_latency_collectives  ? "'cluster' or 'sms'"
             : plan_.library_gemms            ? "'collectives', 'cluster' or 'sms'"
             : !plan_.library_kernels.empty() ? "'gemm', 'collectives', 'cluster' or 'sms'"
             : plan_.schedule.empty() ? "'schedule', 'gemm', 'collectives', 'cluster' or 'sms'"
                                      : "'gemm', 'collectives', 'cluster' or 'sms'");
  }
  plan_.sms = number_after_blanks(1, kMaxInt32, "the number of SMs");
}

// A graph that is not shipped stands above its operator, behind bars.
std::shared_ptr<const GraphText> Parser::own_graph() {
  std::string text;
  const char* start = in_.position();
  while (in_.accept_token("|")) {
    text += in_.rest();
    text += '\n';
    line("'operator'");
  }
  if (text.empty()) return nullptr;
  try {
    return parse_graph(text, "graph");
  } catch (const UsageError& error) {
    in_.fail_with(start, fmt::format("expected a graph: {}", error.what()));
  }
}

// A library, or the kernel of few rows.
void Parser::multiplied() {
  library_line_ = in_.line();
  LibraryKernel kernel;
  kernel.few_rows = in_.accept_token("few-rows");
  if (!kernel.few_rows && !in_.accept_token("library")) {
    in_.fail(in_.position(), "'library' or 'few-rows'");
  }
  int64_t value = 0;
  const bool is_one = option("behind", kMaxInt32, value, 0);
  if (is_one) kernel.behind = static_cast<int32_t>(value);
  if (!kernel.few_rows && option("algorithm", kMostAlgorithms - 1, value)) {
    kernel.algorithm = static_cast<int>(value);
  }
  if (!in_.at_line_end()) {
    in_.fail(in_.position(), kernel.few_rows ? (is_one ? "nothing" : "behind=NUMBER or nothing")
                             : is_one        ? "algorithm=NUMBER or nothing"
                                             : "behind=NUMBER, algorithm=NUMBER or nothing");
  }
  if (is_one) return plan_.library_kernels.push_back(kernel);
  if (!plan_.library_kernels.empty()) in_.fail(in_.position(), "behind=NUMBER");
  plan_.library_gemms = true;
  plan_.library_algorithm = kernel.algorithm;
  plan_.few_rows_gemms = kernel.few_rows;
}

void Parser::declarations() {
  const std::string_view expected = "'partition', 'buffer', 'signals', 'lane' or 'end'";
  while (true) {
    line(expected);
    if (in_.accept_token("partition")) {
      partition();
    } else if (in_.accept_token("buffer")) {
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

std::string Parser::declared(std::unordered_map<std::string_view, uint16_t>& ids,
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

bool Parser::option(std::string_view key, int64_t most, int64_t& value, int64_t least) {
  const std::string_view token = in_.peek();
  if (token.substr(0, token.find('=')) != key) return false;
  in_.name(key);
  in_.expect('=');
  value = in_.number(least, most, key);
  return true;
}

void Parser::buffer() {
  lines_.buffers.push_back(in_.line());
  Buffer buffer;
  buffer.name = declared(buffer_ids_, "a buffer's name");
  buffer.dtype = one_of<DType>("an element type", kDTypes);
  buffer.rows = number_after_blanks(1, kMaxInt32, "rows");
  in_.expect('x');
  buffer.cols = static_cast<int32_t>(in_.number(1, kMaxInt32, "columns"));
  buffer.role = one_of<BufferRole>("a role", kRoles);
  int64_t value = 0;
  if (option("sharded", kMaxInt32, value)) buffer.sharded_rows = static_cast<int32_t>(value);
  if (option("columns", kMaxInt32, value)) {
    buffer.sharded_cols = static_cast<int32_t>(value);
  }
  if (option("copies", kMaxByte, value)) buffer.copies = static_cast<uint8_t>(value);
  in_.skip_blanks();
  const char* const where = in_.position();
  if (const std::string_view token = in_.peek(); token.substr(0, token.find('=')) == "by") {
    in_.name("by");
    in_.expect('=');
    const auto found = partition_ids_.find(in_.name("a partition"));
    if (found == partition_ids_.end()) in_.fail(where, "by=PARTITION, one that is declared");
    buffer.partition = static_cast<int16_t>(found->second);
  }
  if (!in_.at_line_end()) {
    in_.fail(in_.position(),
             "sharded=ROWS, columns=COLUMNS, copies=COUNT, by=PARTITION or "
             "nothing");
  }
  if (const std::string fault = fault_in(plan_, buffer); !fault.empty())
    in_.fail_with(where, fault);
  plan_.buffers.push_back(std::move(buffer));
}

void Parser::partition() {
  in_.skip_blanks();
  const char* const where = in_.position();
  Partition partition;
  partition.name = declared(partition_ids_, "a partition's name");
  if (plan_.partitions.size() >= kMostPartitions) {
    in_.fail(where, fmt::format("at most {} partitions", kMostPartitions));
  }
  partition.entries = number_after_blanks(1, kMaxInt32, "entries");
  in_.expect('x');
  partition.rows = static_cast<int32_t>(in_.number(1, kMaxInt32, "rows of an entry"));
  int64_t value = 0;
  if (option("blocks", kMaxInt32, value)) partition.blocks = static_cast<int32_t>(value);
  if (option("expected", kMaxInt32, value)) partition.expected = static_cast<int32_t>(value);
  if (!in_.at_line_end()) in_.fail(in_.position(), "blocks=COUNT, expected=ENTRIES or nothing");
  if (const std::string fault = fault_in(partition); !fault.empty()) in_.fail_with(where, fault);
  plan_.partitions.push_back(std::move(partition));
}

void Parser::signals() {
  lines_.signals.push_back(in_.line());
  SignalArray signals;
  signals.name = declared(signal_ids_, "a signal array's name");
  signals.count = number_after_blanks(0, kMaxInt32, "the number of signals");
  int64_t value = 0;
  if (option("copies", kMaxByte, value)) signals.copies = static_cast<uint8_t>(value);
  if (!in_.at_line_end()) in_.fail(in_.position(), "copies=COUNT or nothing");
  plan_.signals.push_back(std::move(signals));
}

void Parser::ending() {
  if (!in_.accept_token("end")) in_.fail(in_.position(), "'end'");
  in_.expect_line_end();
  if (const std::string fault = fault_in_library(plan_); !fault.empty()) {
    fail_at_line(library_line_, fault);
  }
  if (!says_fused_) fuse_tasks(plan_);
  lanes();
  if (in_.next_line()) in_.fail(in_.position(), "nothing after 'end'");
}

// What of them is wrong only together, or with what other lanes do.
void Parser::lanes() {
  const PlanFault fault = fault_in_lanes(plan_);
  if (fault.what.empty()) return;
  uint32_t line = clusters_line_;
  if (fault.lane) {
    const PlanLines::Of& lane = lines_.lanes[*fault.lane];
    line = fault.instr ? lane.instrs[*fault.instr] : lane.head;
  }
  fail_at_line(line, fault.what);
}

void Parser::fail_at_line(uint32_t line, const std::string& what) {
  Cursor at(text_, file_name_);
  while (at.next_line() && at.line() < line) at.rest();
  at.fail_with(at.position(), what);
}

Plan parse_plan(std::string_view text, std::string_view file_name, PlanLines* lines) {
  Parser parser(text, file_name);
  Plan plan = parser.parse();
  if (lines != nullptr) *lines = parser.take_lines();
  return plan;
}

}  // namespace stretto
