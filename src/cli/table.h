// Plain tables and paragraphs, as wide as the terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stretto::cli {

// Columns as wide as their widest cell; the first is left aligned, the others right. Cells may be
// painted. Columns that the terminal has no room for follow below, behind the first column again.
class Table {
 public:
  explicit Table(std::vector<std::string> header);

  void add(std::vector<std::string> cells) { rows_.push_back({std::move(cells), ""}); }
  // A row with a first cell and then one remark across the other columns.
  void add_remark(std::string first, std::string remark) {
    rows_.push_back({{std::move(first)}, std::move(remark)});
  }
  std::string print() const;

 private:
  struct Row {
    std::vector<std::string> cells;
    std::string remark;
  };
  std::string print_columns(const std::vector<size_t>& widths, size_t from, size_t to,
                            size_t gap) const;

  std::vector<Row> rows_;  // the header first
};

std::vector<std::string> joined(std::vector<std::string> first,
                                const std::vector<std::string>& second,
                                const std::vector<std::string>& third = {});

// `text` in lines of text_columns(); every line but the first is indented by `indent` blanks.
std::string wrap(std::string_view text, size_t indent);

// "label      text ...", the text wrapped beside a label column of `width`; a label that is wider
// has a line of its own.
std::string labelled(std::string_view label, std::string_view text, size_t width);

}  // namespace stretto::cli
