// Graphs whose sizes are known: shapes, who holds what, and the edges that follow.
#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "op/binding.h"
#include "op/dealing.h"
#include "op/graph_text.h"
#include "op/input_sizes.h"
#include "op/read_graph.h"
#include "op/segments.h"
#include "op/stage_binder.h"
#include "stretto/error.h"
#include "stretto/operator.h"
#include "stretto/segment.h"

namespace stretto {
namespace {

// Slots of a part's size, and signals.
constexpr int64_t kMostKernelMemory = int64_t{1} << 20;

class Binder {
 public:
  Binder(std::shared_ptr<const GraphText> text, int ranks, DType dtype)
      : binding_(std::move(text), ranks, dtype),
        dealing_(binding_),
        stages_(binding_, dealing_),
        text_(binding_.text),
        graph_(binding_.graph) {}

  Operator bind(const Sizes& sizes) {
    binding_.bind_sizes(sizes);
    if (graph_.ranks < 1 || graph_.ranks > kMaxRanks) {
      binding_.reasons.push_back(
          fmt::format("ranks is {}; it must be between 1 and {}", graph_.ranks, kMaxRanks));
      graph_.ranks = 1;
      binding_.knows_ranks = false;
    }
    check_product();
    add_lines();
    binding_.throw_reasons();
    keep_scores();
    cut_segments(binding_);
    binding_.throw_reasons();
    set_input_sizes(graph_);
    return std::move(graph_);
  }

  std::vector<std::string> faults_without_sizes() {
    binding_.knows_ranks = false;
    add_lines();
    return binding_.all_reasons();
  }

 private:
  void refuse(TextPlace place, const std::string& reason) { binding_.refuse(place, reason); }

  // What is wrong with one line keeps no other from being asked. Nothing is told of what hangs on
  // tensors of which that is not known.
  void add_lines() {
    for (const TeamText& team : text_.teams) {
      if (binding_.knows_ranks && binding_.knows(team.ranks)) dealing_.add_team(team);
    }
    for (const EdgeKernelText& kernel : text_.kernels) add_kernel(kernel);
    for (const InputText& input : text_.inputs) add_input(input);
    for (const StageText& stage : text_.stages) stages_.add(stage);
    for (const OutputText& output : text_.outputs) add_output(output);
  }

  // What is wrong with a shipped operator of one product is said in its own sizes.
  void check_product() const {
    const auto kind = product_kind_from(text_.name);
    if (!kind || find_graph(text_.name).get() != &text_) return;
    binding_.throw_reasons();
    const auto size = [&](std::string_view name) { return graph_.size(name).value_or(0); };
    validate(Segment{*kind, size("m"), size("n"), size("k"), graph_.ranks, graph_.dtype});
  }

  void add_kernel(const EdgeKernelText& text) {
    EdgeKernel kernel{.name = text.name, .edge = text.edge, .header = text.header};
    kernel.slots = memory_of(text, "slots", text.slots);
    kernel.signals = memory_of(text, "signals", text.signals);
    kernel.blocks = text.blocks.value_or(kernel.blocks);
    kernel.threads = text.threads.value_or(kernel.threads);
    kernel.us = text.us.value_or(0);
    kernel.source = text.source;
    graph_.kernels.push_back(std::move(kernel));
  }

  // 0 where it is refused, or hangs on what is not known.
  int64_t memory_of(const EdgeKernelText& text, std::string_view what,
                    const std::optional<Extent>& extent) {
    if (!extent || !binding_.knows_ranks) return 0;
    const auto size = [&](std::string_view name) {
      return name == "ranks" ? std::optional<int64_t>(graph_.ranks) : graph_.size(name);
    };
    for (const Extent::Name& one : extent->names()) {
      if (!size(one.name)) return 0;
    }
    const auto value = extent->value([&](std::string_view name) { return *size(name); });
    if (value && *value <= kMostKernelMemory) return *value;
    refuse(text.place, fmt::format("kernel {}: {}={} is {}; it can be at most {}", text.name, what,
                                   extent->text(), value ? std::to_string(*value) : "too large",
                                   kMostKernelMemory));
    return 0;
  }

  void add_input(const InputText& input) {
    Known known;
    known.held = input.knows_held;
    known.dtype = input.knows_dtype;
    const auto size_of = [&](const Extent& extent, bool& is_known) {
      const std::optional<int64_t> size = binding_.extent(extent, input.place);
      is_known = size.has_value();
      return size.value_or(1);
    };
    Tensor tensor{input.name, 1, 1, input.held, -1, input.dtype.value_or(graph_.dtype)};
    tensor.rows = size_of(input.rows, known.rows);
    tensor.cols = size_of(input.cols, known.cols);
    Causes causes{input.rows.text(), input.cols.text()};
    if (input.matrices) {
      tensor.matrices = size_of(*input.matrices, known.matrices);
      causes.matrices = input.matrices->text();
    } else if (known.held && input.held == Held::experts) {
      refuse(input.place,
             fmt::format("{} is no stack of matrices: give [matrices, rows, columns]", input.name));
      known.matrices = false;
    }
    if (input.matrices && known.held && input.held == Held::routed) {
      refuse(input.place,
             fmt::format("{} is a stack of matrices, which is dealt as experts: routed "
                         "are rows",
                         input.name));
      known.held = false;
    }
    deal(input, tensor, causes, known);
    binding_.add(std::move(tensor), input.place, std::move(causes), known);
  }

  // Lines that cannot be read may say whether a team has it as a weight.
  void deal(const InputText& input, Tensor& tensor, const Causes& causes, Known& known) {
    const bool is_of_team = !input.team.empty();
    if (!known.all() || !binding_.knows_ranks || !dealing_.knows_team(input.team) ||
        (is_of_team && text_.doubtful.count(input.name))) {
      known.held = known.held && !is_of_team;
      return;
    }
    dealing_.give_to_teams(tensor, input, causes);
    // Indices are dealt as the tables are that they look up in.
    if (!is_index(tensor.dtype)) dealing_.check_divides(tensor, tensor.held, input.place, causes);
  }

  // Products that experts are chosen by, with a bias or without, and nothing else reads, stay in
  // fp32.
  void keep_scores() {
    for (Tensor& tensor : graph_.tensors) {
      if (tensor.stage < 0 || tensor.held == Held::partial) continue;
      const StageKind kind = graph_.stage(tensor.stage).kind;
      if (kind != StageKind::gemm && kind != StageKind::bias) continue;
      const int id = binding_.ids.at(tensor.name);
      bool any = false, all = !graph_.output_held(id);
      for (const Stage& stage : graph_.stages) {
        for (size_t i = 0; i < stage.in.size(); ++i) {
          if (stage.in[i] != id) continue;
          any = true;
          all = all && i == 0 && (chooses_experts(stage.kind) || weighs_experts(stage.kind));
        }
      }
      if (any && all) tensor.dtype = DType::fp32;
    }
  }

  void add_output(const OutputText& output) {
    const auto found = binding_.ids.find(output.tensor);
    if (found == binding_.ids.end()) return;
    const Tensor& tensor = graph_.tensors[static_cast<size_t>(found->second)];
    const Known& known = binding_.known(found->second);
    if (!known.held || !dealing_.knows_team(output.team)) return;
    if (known.all() && binding_.knows_ranks) {
      dealing_.check_divides(tensor, output.held, output.place, binding_.causes_of(found->second));
    }
    if (const int team = dealing_.team_named(output.team);
        output.held != Held::rows && tensor.team != team) {
      refuse(output.place,
             fmt::format("output {} is to be held by {}, and it is made by {}: there "
                         "is no edge from one to the other",
                         output.tensor, Dealing::teams_of(team), Dealing::teams_of(tensor.team)));
    }
    const bool has_choices = tensor.held == Held::routed && !are_sums_of_some(graph_, tensor);
    if (has_choices != (output.held == Held::routed)) {
      refuse(
          output.place,
          has_choices
              ? fmt::format("output {} has a row for each choice, where its expert is: output it "
                            "as routed, or weigh it",
                            output.tensor)
              : fmt::format("output {} has no row for each choice: output it otherwise than "
                            "routed",
                            output.tensor));
    } else if (!edge_between(tensor.held, output.held)) {
      refuse(output.place,
             fmt::format("output {} is to be held as {}, and it is made {}: there is no edge from "
                         "one to the other",
                         output.tensor, to_string(output.held), to_string(tensor.held)));
    }
    graph_.outputs.push_back({found->second, output.held});
  }

  Binding binding_;
  Dealing dealing_;
  StageBinder stages_;
  const GraphText& text_;
  Operator& graph_;
};

}  // namespace

Operator make_graph(std::shared_ptr<const GraphText> text, const Sizes& sizes, int ranks,
                    DType dtype) {
  return Binder(std::move(text), ranks, dtype).bind(sizes);
}

std::vector<std::string> faults_without_sizes(std::shared_ptr<const GraphText> text) {
  return Binder(std::move(text), 1, DType::bf16).faults_without_sizes();
}

void refuse_faults(std::shared_ptr<const GraphText> text) {
  const std::vector<std::string> faults = faults_without_sizes(std::move(text));
  if (!faults.empty()) throw UsageError(join(faults, "; "));
}

UsageError with_faults_of(std::shared_ptr<const GraphText> text, const UsageError& of_sizes) {
  const bool knows_sizes = text->knows_sizes;
  std::vector<std::string> all = faults_without_sizes(std::move(text));
  // A graph whose sizes are not known has none that fit.
  if (knows_sizes) all.emplace_back(of_sizes.what());
  return UsageError(join(all, "; "));
}

}  // namespace stretto
