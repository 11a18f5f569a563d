#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>

namespace stretto::cli {

std::string Table::print() const {
  std::vector<size_t> widths(rows_.front().cells.size());
  for (const Row& row : rows_) {
    for (size_t i = 0; i < row.cells.size(); ++i) {
      widths[i] = std::max(widths[i], row.cells[i].size());
    }
  }
  std::string out;
  const auto add_line = [&](const std::vector<std::string>& cells) {
    for (size_t i = 0; i < cells.size(); ++i) {
      out += i == 0 ? fmt::format("{:<{}}", cells[i], widths[i])
                    : fmt::format("  {:>{}}", cells[i], widths[i]);
    }
    while (!out.empty() && out.back() == ' ') out.pop_back();
    out += '\n';
  };
  for (const Row& row : rows_) {
    if (row.remark.empty()) {
      add_line(row.cells);
    } else {
      out += labelled(row.cells.front(), row.remark, widths[0] + 2);
    }
  }
  return out;
}

std::vector<std::string> joined(std::vector<std::string> first,
                                const std::vector<std::string>& second,
                                const std::vector<std::string>& third) {
  first.insert(first.end(), second.begin(), second.end());
  first.insert(first.end(), third.begin(), third.end());
  return first;
}

std::string wrap(std::string_view text, size_t indent) {
  std::string out;
  size_t column = indent;  // the caller has written that much of the first line
  while (!text.empty()) {
    const size_t length = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, length);
    text.remove_prefix(std::min(length + 1, text.size()));
    if (word.empty()) continue;
    if (column > indent && column + 1 + word.size() > kColumns) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
    }
    if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out + '\n';
}

std::string labelled(std::string_view label, std::string_view text, size_t width) {
  return fmt::format("{:<{}}", label, width) + wrap(text, width);
}

}  // namespace stretto::cli
