// stretto explore: runs kernels of the device language under many schedules on the emulator.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/json.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "core/text.h"
#include "stretto/error.h"
#include "stretto/fibre/catalog.h"

namespace stretto::cli {
namespace {

using fibre::CatalogEntry;
using fibre::EntryKind;
using fibre::Exploration;
using fibre::Shape;

struct Group {
  std::string_view name;
  EntryKind kind;
  std::string_view heading;
};
constexpr Group kGroups[] = {
    {"kernels", EntryKind::kKernel, "the kernels of the device language"},
    {"bugs", EntryKind::kBug, "bugs that real systems had; each is found"},
    {"twins", EntryKind::kTwin, "NAME:fixed, the same kernels without the bug"}};

void add_options(CLI::App& app, Options& options) {
  add_option(app, "name", options.subject,
             "A kernel, a planted bug, NAME:fixed, or kernels, bugs, twins; none: lists them",
             "NAME");
  const char* group = "Execution";
  add_option(app, "--seed", options.seed, "First seed of the interleavings [0]", "S", group);
  add_option(app, "--seeds", options.seeds, "Number of seeds, each an execution [200]", "COUNT",
             group);
  add_flag(app, "--no-shrink", options.no_shrink, "Report a failure as it was found", group);
  const char* shape = "Shape (each kernel has one of its own)";
  add_option(app, "--ranks", options.ranks, "Number of ranks", "R", shape);
  add_option(app, "--blocks", options.blocks, "Blocks of a rank", "B", shape);
  add_option(app, "--threads", options.threads, "Threads of a block", "T", shape);
}

std::string list_text(const std::vector<CatalogEntry>& catalog) {
  constexpr size_t kLabelWidth = 34;
  std::string out = "stretto explore NAME runs one of these under many schedules\n";
  for (const Group& group : kGroups) {
    out += fmt::format("\n{}: {}\n", group.name, group.heading);
    if (group.kind == EntryKind::kTwin) continue;
    for (const CatalogEntry& entry : catalog) {
      if (entry.kind != group.kind) continue;
      out += labelled("  " + entry.name, entry.about, kLabelWidth);
    }
  }
  return out;
}

const char* kind_name(EntryKind kind) {
  if (kind == EntryKind::kKernel) return "kernel";
  return kind == EntryKind::kBug ? "bug" : "twin";
}

std::vector<CatalogEntry> chosen(std::vector<CatalogEntry> catalog, const std::string& name) {
  const Group* group = nullptr;
  std::vector<std::string_view> known;
  for (const Group& each : kGroups) {
    known.push_back(each.name);
    if (each.name == name) group = &each;
  }
  for (const CatalogEntry& entry : catalog) {
    if (entry.kind == EntryKind::kKernel) known.push_back(entry.name);
  }
  std::vector<CatalogEntry> picked;
  for (const CatalogEntry& entry : catalog) {
    if (group != nullptr ? entry.kind == group->kind : entry.name == name) picked.push_back(entry);
  }
  if (picked.empty()) {
    throw UsageError(unknown_word("kernel", name, known) +
                     "; and the bugs that `stretto explore` lists");
  }
  return picked;
}

Shape shape_of(const CatalogEntry& entry, const Options& options) {
  Shape shape = entry.shape;
  const auto number = [](std::string_view option, const std::string& text, int absent, int least,
                         int most) {
    return static_cast<int>(whole_number(option, text, absent, least, most));
  };
  shape.ranks = number("--ranks", options.ranks, shape.ranks, 2, 64);
  shape.blocks = number("--blocks", options.blocks, shape.blocks, 1, 1024);
  shape.threads = number("--threads", options.threads, shape.threads, 1, 1024);
  if (shape.threads < shape.warp_size) shape.warp_size = shape.threads;
  return shape;
}

Json to_json(const Shape& shape) {
  return {{"ranks", shape.ranks}, {"blocks", shape.blocks}, {"threads", shape.threads}};
}

Json to_json(const fibre::Place& place) {
  if (!place.known()) return nullptr;
  return {{"file", place.where.file}, {"line", place.where.line}, {"rank", place.rank},
          {"block", place.block},     {"thread", place.thread},   {"launch", place.launch}};
}

Json to_json(const fibre::Failure& failure) {
  return {{"kind", fibre::finding_name(failure.finding.kind)},
          {"seed", failure.seed},
          {"message", failure.finding.message},
          {"place", to_json(failure.finding.place)},
          {"other", to_json(failure.finding.other)},
          {"smallest", to_json(failure.shape)},
          {"decisions", failure.decisions.size()}};
}

Outcome list(const Options& options, const std::vector<CatalogEntry>& catalog) {
  if (!options.json) return {list_text(catalog), kGood};
  Json json = json_header("explore");
  json["kernels"] = Json::array();
  for (const CatalogEntry& entry : catalog) {
    json["kernels"].push_back({{"name", entry.name},
                               {"kind", kind_name(entry.kind)},
                               {"about", entry.about},
                               {"shape", to_json(entry.shape)}});
  }
  return {dump(json), kGood};
}

// In pieces, so that progress is seen.
template <class Show>
Exploration explore_in_pieces(const Shape& shape, const fibre::Scenario& scenario,
                              const fibre::ExploreOptions& how, Show show) {
  constexpr uint64_t kPiece = 50;
  Exploration all;
  while (all.seeds_run < how.num_seeds && !all.failure) {
    show(static_cast<double>(all.seeds_run) / static_cast<double>(how.num_seeds));
    fibre::ExploreOptions piece = how;
    piece.first_seed = how.first_seed + all.seeds_run;
    piece.num_seeds = std::min(kPiece, how.num_seeds - all.seeds_run);
    Exploration part = explore(shape, scenario, piece);
    all = {all.seeds_run + part.seeds_run, std::move(part.failure)};
  }
  return all;
}

// The command line that finds a failure again.
std::string again(const CatalogEntry& entry, const Shape& shape, uint64_t seed) {
  std::string line = fmt::format("stretto explore {} --seed {} --seeds 1", entry.name, seed);
  const auto add = [&](const char* option, int now, int usual) {
    if (now != usual) line += fmt::format(" {} {}", option, now);
  };
  add("--ranks", shape.ranks, entry.shape.ranks);
  add("--blocks", shape.blocks, entry.shape.blocks);
  add("--threads", shape.threads, entry.shape.threads);
  return line;
}

// The list runs nothing, so what says how would be ignored.
void refuse_options_of_runs(const Options& options) {
  const std::pair<std::string_view, bool> given[] = {
      {"--seed", !options.seed.empty()},     {"--seeds", !options.seeds.empty()},
      {"--no-shrink", options.no_shrink},    {"--ranks", !options.ranks.empty()},
      {"--blocks", !options.blocks.empty()}, {"--threads", !options.threads.empty()}};
  for (const auto& [option, is_given] : given) {
    if (is_given) {
      throw UsageError(fmt::format(
          "{} needs a kernel to run, or kernels, bugs or twins; stretto explore lists them",
          option));
    }
  }
}

Outcome run(const Options& options) {
  const std::vector<CatalogEntry> catalog = fibre::catalog();
  if (options.subject.empty()) {
    refuse_options_of_runs(options);
    return list(options, catalog);
  }
  const std::vector<CatalogEntry> entries = chosen(catalog, options.subject);
  fibre::ExploreOptions how;
  how.first_seed = static_cast<uint64_t>(whole_number("--seed", options.seed, 0, 0, 1ll << 53));
  how.num_seeds = static_cast<uint64_t>(whole_number("--seeds", options.seeds, 200, 1, 1 << 30));
  how.shrink = !options.no_shrink;
  Table table({"kernel", "verdict", "seeds", "ranks x blocks x threads"});
  std::string reports;
  Json results = Json::array();
  bool clean = true;
  {
    Progress progress;
    for (const CatalogEntry& entry : entries) {
      const Shape shape = shape_of(entry, options);
      const auto [seeds_run, failure] =
          explore_in_pieces(shape, entry.scenario, how, [&](double share) {
            progress.show("exploring " + entry.name, (static_cast<double>(results.size()) + share) /
                                                         static_cast<double>(entries.size()));
          });
      clean &= !failure;
      table.add({entry.name,
                 failure ? paint(Style::bad, fibre::finding_name(failure->finding.kind))
                         : paint(Style::good, "clean"),
                 std::to_string(seeds_run),
                 fmt::format("{} x {} x {}", shape.ranks, shape.blocks, shape.threads)});
      if (failure) {
        reports += fmt::format("\n{}: {}\n{}  again: {}\n", entry.name, entry.about,
                               failure->to_text(), again(entry, shape, failure->seed));
      }
      results.push_back({{"name", entry.name},
                         {"kind", kind_name(entry.kind)},
                         {"about", entry.about},
                         {"shape", to_json(shape)},
                         {"seeds_run", seeds_run},
                         {"finding", failure ? to_json(*failure) : Json(nullptr)}});
    }
  }
  const ExitCode code = clean ? kGood : kWrong;
  if (!options.json) return {table.print() + reports, code};
  Json json = json_header("explore");
  json["clean"] = clean;
  json["results"] = std::move(results);
  return {dump(json), code};
}

}  // namespace

Verb explore_verb() {
  return {"explore", "Run a device kernel under many schedules; shrink what fails", add_options,
          run, "stretto explore all_to_all --seeds 1000"};
}

}  // namespace stretto::cli
