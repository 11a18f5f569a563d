// Prints graphs: the inverse of parse_graph.cpp. Names of enumerators come from their tables.
#include <fmt/format.h>

#include "op/graph_text.h"
#include "stretto/error.h"

namespace stretto {

#define STRETTO_CASE(name, text, ...) \
  case Enum::name:                    \
    return text;

std::string_view to_string(Held held) {
  using Enum = Held;
  switch (held) { STRETTO_HELDS(STRETTO_CASE) }
  STRETTO_ASSERT(false, "holding out of range");
}

std::string_view to_string(StageKind kind) {
  using Enum = StageKind;
  switch (kind) { STRETTO_STAGES(STRETTO_CASE) }
  STRETTO_ASSERT(false, "kind of stage out of range");
}
#undef STRETTO_CASE

size_t num_operands(StageKind kind) {
  using Enum = StageKind;
#define STRETTO_CASE(name, text, operands, goes, meaning) \
  case Enum::name:                                        \
    return operands;
  switch (kind) { STRETTO_STAGES(STRETTO_CASE) }
#undef STRETTO_CASE
  STRETTO_ASSERT(false, "kind of stage out of range");
}

std::string print(const GraphText& text) {
  std::string out = "graph " + text.name;
  for (const std::string& size : text.sizes) out += " " + size;
  out += "\n";
  const auto of_team = [](const std::string& team) { return team.empty() ? "" : " of " + team; };
  for (const TeamText& team : text.teams) {
    out += fmt::format("team {} {}\n", team.name, team.ranks.text());
  }
  for (const EdgeKernelText& kernel : text.kernels) {
    out += fmt::format("kernel {} {} \"{}\"", kernel.name, to_string(kernel.edge), kernel.header);
    if (kernel.slots) out += fmt::format(" slots={}", kernel.slots->text());
    if (kernel.signals) out += fmt::format(" signals={}", kernel.signals->text());
    if (kernel.blocks) out += fmt::format(" blocks={}", *kernel.blocks);
    if (kernel.threads) out += fmt::format(" threads={}", *kernel.threads);
    if (kernel.us) out += fmt::format(" us={}", *kernel.us);
    out += "\n";
  }
  for (const InputText& input : text.inputs) {
    const std::string stack = input.matrices ? input.matrices->text() + ", " : "";
    out += fmt::format("input {} [{}{}, {}] {}{}", input.name, stack, input.rows.text(),
                       input.cols.text(), to_string(input.held), of_team(input.team));
    if (input.dtype) out += fmt::format(" {}", to_string(*input.dtype));
    out += "\n";
  }
  for (const StageText& stage : text.stages) {
    out += fmt::format("{} = {}", stage.out, to_string(stage.kind));
    for (const std::string& in : stage.in) out += " " + in;
    if (stage.kind == StageKind::norm) out += fmt::format(" eps={}", stage.eps);
    if (stage.k) out += fmt::format(" k={}", stage.k->text());
    if (stage.groups) out += fmt::format(" groups={}", stage.groups->text());
    if (stage.best) out += fmt::format(" best={}", stage.best->text());
    if (stage.experts) out += fmt::format(" experts={}", stage.experts->text());
    if (stage.slices) out += fmt::format(" slices={}", stage.slices->text());
    if (stage.scale) out += fmt::format(" scale={}", *stage.scale);
    if (stage.normalises) out += fmt::format(" normalise={}", *stage.normalises ? 1 : 0);
    out += "\n";
  }
  for (const OutputText& output : text.outputs) {
    out += fmt::format("output {} {}{}\n", output.tensor, to_string(output.held),
                       of_team(output.team));
  }
  return out;
}

const std::string& name_of(const GraphText& text) { return text.name; }
const std::vector<std::string>& sizes_of(const GraphText& text) { return text.sizes; }

}  // namespace stretto
