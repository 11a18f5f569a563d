// Reads a plan line by line: parse.cpp has its header and declarations, parse_lanes.cpp its lanes.
#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "plan/cursor.h"
#include "stretto/plan.h"

namespace stretto {

class Parser {
 public:
  Parser(std::string_view text, std::string_view file_name)
      : text_(text), file_name_(file_name), in_(text, file_name) {}

  Plan parse();
  PlanLines take_lines() { return std::move(lines_); }

 private:
  static constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
  static constexpr int64_t kMaxIndex = std::numeric_limits<uint16_t>::max();
  static constexpr int64_t kMaxByte = std::numeric_limits<uint8_t>::max();

  void header();
  std::shared_ptr<const GraphText> own_graph();
  void multiplied();
  void declarations();
  void partition();
  void buffer();
  void signals();
  void lane();
  void ending();
  void lanes();
  [[noreturn]] void fail_at_line(uint32_t line, const std::string& what);

  Instr instr(const Lane& lane);
  Opcode opcode();
  // NAME=NUMBER, where what is read has a number of that name.
  void attribute(std::string_view name, Instr& instr);
  void count(std::string_view name, int64_t least, int number, Instr& instr);
  void kernel(Instr& instr);
  SignalRef signal();
  void operands(const Lane& lane, Instr& instr);
  // Regions up to "->" or the end of the line; their number.
  uint16_t regions(const Lane& lane);
  Region region(const Lane& lane);
  void range(int32_t& first, int32_t& stop, std::string_view what);

  // Moves to the next line, which there must be.
  void line(std::string_view expected);
  // A declaration's name, entered into `ids` as the next number.
  std::string declared(std::unordered_map<std::string_view, uint16_t>& ids,
                       std::string_view expected);
  // "key=NUMBER" if it stands here.
  bool option(std::string_view key, int64_t most, int64_t& value, int64_t least = 1);
  int32_t number_after_blanks(int64_t least, int64_t most, std::string_view expected);
  // The value whose name stands here.
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

  const std::string_view text_, file_name_;
  Cursor in_;
  Plan plan_;
  PlanLines lines_;
  uint32_t clusters_line_ = 0;  // which says that there are some
  uint32_t library_line_ = 0;   // the last that says who multiplies
  bool says_fused_ = false;     // the text, as its version has the word
  std::unordered_map<std::string_view, uint16_t> partition_ids_, buffer_ids_, signal_ids_;
};

}  // namespace stretto
