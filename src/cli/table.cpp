#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/terminal.h"

namespace stretto::cli {
namespace {

constexpr size_t kGap = 2, kNarrowGap = 1;

std::string blanks(size_t wanted, size_t had) {
  return std::string(wanted > had ? wanted - had : 0, ' ');
}

}  // namespace

Table::Table(std::vector<std::string> header) {
  for (std::string& cell : header) cell = paint(Style::heading, cell);
  add(std::move(header));
}

std::string Table::print_columns(const std::vector<size_t>& widths, size_t from, size_t to,
                                 size_t gap) const {
  std::string out;
  for (const Row& row : rows_) {
    if (!row.remark.empty()) {
      if (from == 1) out += labelled(row.cells.front(), row.remark, widths[0] + gap);
      continue;
    }
    out += row.cells[0] + blanks(widths[0], display_width(row.cells[0]));
    for (size_t i = from; i < std::min(to, row.cells.size()); ++i) {
      out += blanks(widths[i] + gap, display_width(row.cells[i])) + row.cells[i];
    }
    while (!out.empty() && out.back() == ' ') out.pop_back();
    out += '\n';
  }
  return out;
}

std::string Table::print() const {
  std::vector<size_t> widths(rows_.front().cells.size());
  for (const Row& row : rows_) {
    for (size_t i = 0; i < row.cells.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(row.cells[i]));
    }
  }
  const auto room = static_cast<size_t>(terminal_columns());
  const auto width_with = [&](size_t gap) {
    size_t width = widths[0];
    for (size_t i = 1; i < widths.size(); ++i) width += gap + widths[i];
    return width;
  };
  const size_t gap = width_with(kGap) <= room ? kGap : kNarrowGap;
  std::string out;
  size_t from = 1;
  do {
    size_t to = from, width = widths[0];
    while (to < widths.size() && (to == from || width + gap + widths[to] <= room)) {
      width += gap + widths[to++];
    }
    if (from > 1) out += '\n';
    out += print_columns(widths, from, to, gap);
    from = to;
  } while (from < widths.size());
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
  const auto room = static_cast<size_t>(text_columns());
  std::string out;
  size_t column = indent;  // the caller has written that much of the first line
  while (!text.empty()) {
    const size_t length = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, length);
    text.remove_prefix(std::min(length + 1, text.size()));
    if (word.empty()) continue;
    const size_t width = display_width(word);
    if (column > indent && column + 1 + width > room) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
    }
    if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += width;
  }
  return out + '\n';
}

std::string labelled(std::string_view label, std::string_view text, size_t width) {
  const size_t had = display_width(label);
  std::string out(label);
  out += had < width ? blanks(width, had) : '\n' + std::string(width, ' ');
  return out + wrap(text, width);
}

}  // namespace stretto::cli
