#include "op/read_edge_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "core/text.h"

namespace stretto {
namespace {

constexpr Edge kEdgesOfKernels[] = {Edge::gather, Edge::reduce_scatter, Edge::all_reduce};
constexpr std::string_view kAttributes[] = {"slots", "signals", "blocks", "threads", "us"};
constexpr double kMostUs = 1e9;

// It is the name of a C++ template.
bool read_name(GraphWords& words, EdgeKernelText& kernel) {
  words.skip_blanks();
  kernel.place = words.place();
  if (!words.name(kernel.name, "the name of a kernel")) return false;
  if (kernel.name == "none") {
    words.refuse_at(kernel.place,
                    "kernel none: in schedules that word is no kernel: name it otherwise");
    return false;
  }
  if (kernel.name.find_first_of("-.") == std::string::npos) return true;
  words.refuse_at(kernel.place,
                  fmt::format("kernel {}: the name of a kernel's template has letters, digits and "
                              "'_' only",
                              kernel.name));
  return false;
}

bool read_edge(GraphWords& words, EdgeKernelText& kernel) {
  words.skip_blanks();
  const TextPlace where = words.place();
  std::string word;
  if (!words.name(word, "the edge that it is for: gather, reduce-scatter or all-reduce")) {
    return false;
  }
  std::vector<std::string_view> known;
  for (const Edge edge : kEdgesOfKernels) {
    kernel.edge = edge;
    known.push_back(to_string(edge));
    if (known.back() == word) return true;
  }
  words.refuse_at(where, unknown_word("edge of a kernel", word, known));
  return false;
}

// Who runs a plan says in which folder its headers are, and none of another is taken.
bool leaves_folder(std::string_view header) {
  if (header.starts_with('/')) return true;
  const std::vector<std::string_view> parts = split(header, '/');
  return std::find(parts.begin(), parts.end(), "..") != parts.end();
}

bool read_header(GraphWords& words, EdgeKernelText& kernel) {
  words.skip_blanks();
  const TextPlace where = words.place();
  if (!words.is_at('"')) {
    return words.expected(fmt::format("the kernel's header in quotes, as \"{}.h\"", kernel.name));
  }
  words.skip();
  const std::string_view rest = words.rest();
  const size_t length = rest.find('"');
  if (length == std::string_view::npos) {
    words.refuse_at(where, "the header's name has no quote behind it");
    return false;
  }
  kernel.header = rest.substr(0, length);
  for (size_t i = 0; i <= length; ++i) words.skip();
  const bool is_printable = std::none_of(kernel.header.begin(), kernel.header.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\\';
  });
  if (kernel.header.empty() || kernel.header.size() > kMostHeaderName || !is_printable) {
    words.refuse_at(where,
                    fmt::format("a header's name has 1 to {} characters, no '\\' and none that "
                                "cannot be printed",
                                kMostHeaderName));
    return false;
  }
  if (!leaves_folder(kernel.header)) return true;
  words.refuse_at(
      where, fmt::format("{} leaves the folder: a header lies beside the graph, or in a folder "
                         "there",
                         quote(kernel.header)));
  return false;
}

bool read_count(GraphWords& words, std::optional<int>& to, int least, int most, int step) {
  const TextPlace where = words.place();
  const std::string_view rest = words.rest();
  const std::string_view word = rest.substr(0, rest.find_first_of(" \t"));
  const std::optional<int64_t> number = int_from(word);
  if (!number || *number < least || *number > most || *number % step != 0) {
    words.refuse_at(where, step == 1
                               ? fmt::format("expected a whole number from {} to {}, found {}",
                                             least, most, quote(word))
                               : fmt::format("expected a multiple of {} up to {}, found {}", step,
                                             most, quote(word)));
    return false;
  }
  to = static_cast<int>(*number);
  for (size_t i = 0; i < word.size(); ++i) words.skip();
  return true;
}

bool read_extent(GraphWords& words, std::optional<Extent>& to) {
  Extent extent;
  if (!words.extent(extent, "ranks")) return false;
  to = std::move(extent);
  return true;
}

bool read_value(GraphWords& words, EdgeKernelText& kernel, std::string_view name) {
  if (name == "slots") return read_extent(words, kernel.slots);
  if (name == "signals") return read_extent(words, kernel.signals);
  if (name == "blocks") return read_count(words, kernel.blocks, 1, EdgeKernel::kMostBlocks, 1);
  if (name == "threads") {
    return read_count(words, kernel.threads, EdgeKernel::kWarp, EdgeKernel::kMostThreads,
                      EdgeKernel::kWarp);
  }
  double us = 0;
  if (!words.decimal(us, kMostUs, "microseconds, above 0")) return false;
  kernel.us = us;
  return true;
}

}  // namespace

std::optional<EdgeKernelText> read_edge_kernel(GraphWords& words) {
  EdgeKernelText kernel;
  if (!read_name(words, kernel) || !read_edge(words, kernel) || !read_header(words, kernel)) {
    return std::nullopt;
  }
  std::set<std::string, std::less<>> seen;
  while (words.skip_blanks()) {
    const TextPlace at = words.place();
    std::string name;
    if (!words.name(name, "slots=, signals=, blocks=, threads=, us= or the end of the line")) {
      return std::nullopt;
    }
    if (std::find(std::begin(kAttributes), std::end(kAttributes), name) == std::end(kAttributes)) {
      words.refuse_at(at, unknown_word("attribute of a kernel", name, kAttributes));
      return std::nullopt;
    }
    if (!seen.insert(name).second) {
      words.refuse_at(at, fmt::format("{} is there twice", name));
      return std::nullopt;
    }
    if (!words.character('=') || !read_value(words, kernel, name)) return std::nullopt;
  }
  return kernel;
}

}  // namespace stretto
