// A graph as it is written: what is known before its sizes are.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "op/extent.h"
#include "stretto/operator.h"

namespace stretto {

// Where a part of a graph stands in its text, counted from 1; 0: nowhere.
struct TextPlace {
  int line = 0, column = 0;
};

// The ranks are cut into teams of so many, one behind the other.
struct TeamText {
  std::string name;
  Extent ranks;
  TextPlace place = {};
};

// A kernel of the device language that schedules may take for edges.
struct EdgeKernelText {
  std::string name;
  Edge edge = Edge::all_reduce;
  std::string header;
  std::optional<Extent> slots = {}, signals = {};  // of sizes and "ranks"
  std::optional<int> blocks = {}, threads = {};
  std::optional<double> us = {};
  TextPlace place = {};
  // What the header says. It is no part of the text: who runs plans gives it.
  std::shared_ptr<const std::string> source = {};
};

struct InputText {
  std::string name;
  Extent rows, cols;
  Held held = Held::whole;
  TextPlace place = {};
  std::optional<Extent> matrices = {};         // of a stack
  std::optional<DType> dtype = {};             // none: the operator's
  std::string team = {};                       // whose ranks hold it; empty: all
  bool knows_held = true, knows_dtype = true;  // false: the line says what is refused
};

struct StageText {
  std::string out;
  StageKind kind = StageKind::gemm;
  std::vector<std::string> in;
  double eps = 0;                                        // norm
  std::optional<Extent> k = {}, groups = {}, best = {};  // of what chooses experts
  std::optional<Extent> slices = {}, experts = {};  // of what slices choices; of permute, count
  std::optional<double> scale = {};                 // of what weighs them
  std::optional<bool> normalises = {};
  TextPlace place = {}, in_place = {};
};

struct OutputText {
  std::string tensor;
  Held held = Held::whole;
  TextPlace place = {};
  std::string team = {};  // as an input's
};

struct GraphText {
  std::string file;  // for messages
  std::string name;
  std::vector<std::string> sizes;
  std::vector<TeamText> teams;
  std::vector<EdgeKernelText> kernels;
  std::vector<InputText> inputs;
  std::vector<StageText> stages;
  std::vector<OutputText> outputs;
  std::string canonical;  // print() of it
  // What is wrong with lines, each with its place; the rest is what could be read of all of them.
  std::vector<std::string> faults = {};
  std::set<std::string, std::less<>> doubtful = {};  // names that such lines may use
  bool knows_sizes = true;                           // its first line could be read
};

size_t num_operands(StageKind kind);

// Where the first faults of very many are told.
inline constexpr std::string_view kMoreFaults = "and there may be more";

// "FILE:LINE:COLUMN: "
std::string prefix(const GraphText& text, TextPlace place);

}  // namespace stretto
