// The text form of program listings, both ways.
#include <fmt/format.h>

#include <iterator>
#include <limits>

#include "plan/cursor.h"
#include "tables/program_listing.h"

namespace stretto::cuda {
namespace {

constexpr int kVersion = 1;

#define STRETTO_TEXT(name, text, meaning) text,
constexpr std::string_view kBlockWords[] = {STRETTO_BLOCK_WORDS(STRETTO_TEXT)};
constexpr std::string_view kStepWords[] = {STRETTO_STEP_WORDS(STRETTO_TEXT)};
constexpr std::string_view kLaneKinds[] = {STRETTO_LANE_KINDS(STRETTO_TEXT)};
#undef STRETTO_TEXT

bool has_index(StepWord word) {
  return word == StepWord::gemm || word == StepWord::move || word == StepWord::record ||
         word == StepWord::await;
}

class ListingPrinter {
 public:
  std::string print(const ProgramListing& listing) && {
    line("stretto-program {}", kVersion);
    line("operator {}", listing.op);
    for (size_t rank = 0; rank < listing.ranks.size(); ++rank) {
      line("\nrank {}", rank);
      add(listing.ranks[rank]);
    }
    line("end");
    return std::move(out_);
  }

 private:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
    out_ += '\n';
  }
  static std::string_view text_of(BlockWord word) { return kBlockWords[static_cast<size_t>(word)]; }
  static std::string_view text_of(StepWord word) { return kStepWords[static_cast<size_t>(word)]; }

  void add(const ListedRank& rank) {
    add("gemm", rank.gemms);
    add("move", rank.moves);
    for (size_t i = 0; i < rank.streams.size(); ++i) {
      line("stream {} {} {}", i, to_string(rank.streams[i].kind), rank.streams[i].lane);
    }
    for (const ListedStep& step : rank.steps) {
      if (has_index(step.word)) {
        line("  {} {} {}", step.stream, text_of(step.word), step.index);
      } else {
        line("  {} {} {}", step.stream, text_of(step.word), text_of(step.instr));
      }
    }
  }
  void add(std::string_view kind, const std::vector<ListedKernel>& kernels) {
    for (size_t i = 0; i < kernels.size(); ++i) {
      line("kernel {} {} {}", kind, i, kernels[i].config);
      for (const ListedBlock& block : kernels[i].blocks) {
        line("  block {} {}", to_string(block.kind), block.lane);
        for (const ListedBlock::Line& one : block.lines) {
          line("    {} {}", text_of(one.word), text_of(one.instr));
        }
      }
    }
  }
  static std::string text_of(const ListedInstr& instr) {
    return fmt::format("{}.{}.{} {}", to_string(instr.kind), instr.lane, instr.position,
                       instr.text);
  }

  std::string out_;
};

class ListingParser {
 public:
  ListingParser(std::string_view text, std::string_view file_name) : in_(text, file_name) {}

  ProgramListing parse() {
    ProgramListing listing;
    if (!in_.next_line()) in_.fail(in_.position(), "'stretto-program 1'");
    in_.expect_token("stretto-program");
    number(kVersion, kVersion, "version 1");
    line("'operator'");
    in_.expect_token("operator");
    in_.skip_blanks();
    listing.op = in_.rest();
    line("'rank' or 'end'");
    while (in_.peek() == "rank") {
      in_.expect_token("rank");
      const auto next = static_cast<int64_t>(listing.ranks.size());
      number(next, next, "the next rank");
      line(kInRank);
      rank(listing.ranks.emplace_back());
    }
    in_.expect_token("end");
    in_.expect_line_end();
    if (in_.next_line()) in_.fail(in_.position(), "nothing after 'end'");
    return listing;
  }

 private:
  static constexpr std::string_view kInRank = "'kernel', 'stream', 'rank' or 'end'";

  int64_t number(int64_t least, int64_t most, std::string_view expected) {
    in_.skip_blanks();
    return in_.number(least, most, expected);
  }
  void line(std::string_view expected) {
    in_.expect_line_end();
    if (!in_.next_line()) in_.fail(in_.position(), expected);
  }
  bool is_number() {
    const std::string_view token = in_.peek();
    return !token.empty() && token.front() >= '0' && token.front() <= '9';
  }
  // The value whose name begins here; moves behind it.
  template <typename Enum, size_t kSize>
  Enum one_of(std::string_view expected, const std::string_view (&names)[kSize], char end = 0) {
    const std::string_view token = in_.peek();
    const std::string_view name = end == 0 ? token : token.substr(0, token.find(end));
    for (size_t i = 0; i < kSize; ++i) {
      if (names[i] != name) continue;
      if (end == 0) {
        in_.expect_token(token);
      } else {
        in_.name(expected);
      }
      return static_cast<Enum>(i);
    }
    in_.fail(in_.position(), expected);
  }

  void rank(ListedRank& rank) {
    while (in_.peek() == "kernel") kernel(rank);
    while (in_.peek() == "stream") {
      in_.expect_token("stream");
      const auto next = static_cast<int64_t>(rank.streams.size());
      number(next, next, "the next stream");
      ListedStream& stream = rank.streams.emplace_back();
      lane(stream.kind, stream.lane);
      line(kInRank);
    }
    while (is_number()) step(rank);
  }

  void kernel(ListedRank& rank) {
    in_.expect_token("kernel");
    in_.skip_blanks();
    if (in_.peek() != "gemm" && in_.peek() != "move") in_.fail(in_.position(), "'gemm' or 'move'");
    auto& kernels = in_.accept_token("gemm") ? rank.gemms : (in_.accept_token("move"), rank.moves);
    const auto next = static_cast<int64_t>(kernels.size());
    number(next, next, "the next kernel");
    in_.skip_blanks();
    ListedKernel& kernel = kernels.emplace_back();
    kernel.config = in_.rest();
    line("'block'");
    while (in_.peek() == "block") {
      in_.expect_token("block");
      ListedBlock& block = kernel.blocks.emplace_back();
      lane(block.kind, block.lane);
      line(kInRank);
      while (is_in_block()) {
        const auto word = one_of<BlockWord>("what a block does", kBlockWords);
        block.lines.push_back({word, instr()});
        line(kInRank);
      }
    }
  }
  bool is_in_block() {
    const std::string_view token = in_.peek();
    return token != "block" && token != "kernel" && token != "stream" && token != "rank" &&
           token != "end";
  }

  void step(ListedRank& rank) {
    ListedStep& step = rank.steps.emplace_back();
    step.stream = static_cast<uint32_t>(
        number(0, static_cast<int64_t>(rank.streams.size()) - 1, "one of the rank's streams"));
    step.word = one_of<StepWord>("a step", kStepWords);
    if (has_index(step.word)) {
      step.index = static_cast<uint32_t>(number(0, kMost, "a number"));
    } else {
      step.instr = instr();
    }
    line(kInRank);
  }

  void lane(LaneKind& kind, uint16_t& index) {
    kind = one_of<LaneKind>("a lane's kind", kLaneKinds);
    index = static_cast<uint16_t>(number(0, kMostIndex, "a lane's index"));
  }

  ListedInstr instr() {
    ListedInstr instr;
    instr.kind = one_of<LaneKind>("an instruction's place", kLaneKinds, '.');
    in_.expect('.');
    instr.lane = static_cast<uint16_t>(in_.number(0, kMostIndex, "a lane's index"));
    in_.expect('.');
    instr.position = static_cast<uint32_t>(in_.number(0, kMost, "a position"));
    in_.skip_blanks();
    instr.text = in_.rest();
    return instr;
  }

  static constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
  static constexpr int64_t kMostIndex = std::numeric_limits<uint16_t>::max();
  Cursor in_;
};

}  // namespace

std::string print(const ProgramListing& listing) { return ListingPrinter().print(listing); }

ProgramListing parse_listing(std::string_view text, std::string_view file_name) {
  return ListingParser(text, file_name).parse();
}

}  // namespace stretto::cuda
