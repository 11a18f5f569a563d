#include "op/read_input.h"

#include <utility>

namespace stretto {
namespace {

// [rows, columns], or [matrices, rows, columns] of a stack.
bool read_shape(GraphWords& words, InputText& input) {
  if (!words.character('[') || !words.extent(input.rows) || !words.character(',') ||
      !words.extent(input.cols)) {
    return false;
  }
  words.skip_blanks();
  if (words.is_at(',')) {
    words.skip();
    input.matrices = std::exchange(input.rows, std::exchange(input.cols, {}));
    if (!words.extent(input.cols)) return false;
  }
  return words.character(']');
}

}  // namespace

bool read_input(GraphWords& words, InputText& input) {
  if (!read_shape(words, input)) return false;
  words.skip_blanks();
  const int column = words.place().column;
  const bool is_way = words.held(input.held);
  // What stands behind a word that is no way to hold a tensor can be read, too.
  const bool has_word = words.place().column > column;
  const bool is_team = has_word && words.of_team(input.team);
  input.knows_held = is_way && is_team;
  if (!input.knows_held) input.team.clear();
  input.knows_dtype = is_team && words.own_type(input.dtype);
  if (input.knows_dtype) words.end_of_line();
  return true;
}

}  // namespace stretto
