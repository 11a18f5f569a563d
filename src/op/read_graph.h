// Texts of graphs that may have faults, so that these are told with those that sizes show.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "stretto/error.h"
#include "stretto/operator.h"

namespace stretto {

// Of a graph's first size. No task would be left, and a call does nothing.
inline constexpr std::string_view kNoPlanOfNoRows =
    "plans are for rows that there are; take 1 or more (a call of 0 rows does nothing and needs no "
    "plan)";

// As parse_graph, but what is wrong with lines is kept: make_graph refuses the graph for that, and
// for what is wrong with all else.
std::shared_ptr<const GraphText> read_graph(std::string_view text, std::string_view file_name);
// What is wrong whatever the sizes are: lines, and edges that there are not.
std::vector<std::string> faults_without_sizes(std::shared_ptr<const GraphText> text);
// Throws UsageError with these, if there are any.
void refuse_faults(std::shared_ptr<const GraphText> text);
// Of sizes that are no sizes: the error that says what is wrong with the graph, too.
UsageError with_faults_of(std::shared_ptr<const GraphText> text, const UsageError& of_sizes);

}  // namespace stretto
