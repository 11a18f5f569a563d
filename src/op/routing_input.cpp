#include "op/routing_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/text.h"
#include "op/integer_input.h"
#include "stretto/error.h"

namespace stretto {
namespace {

// What a tensor says of the rows that stages route.
struct Role {
  const Stage* stage = nullptr;
  bool is_ids = false, is_weights = false;
  int64_t experts = 0;
  int64_t tables = 0;  // each of which has so many experts, which are rows of it; 0: none
};

Role role_of(const Operator& op, int tensor) {
  Role role;
  for (const Stage& stage : op.stages) {
    if (makes_choices_rows(stage.kind) && stage.in[operand_of_ids(stage.kind)] == tensor) {
      role.is_ids = true;
      role.experts = op.experts_of(stage);
    } else if (stage.kind == StageKind::weigh && stage.in[2] == tensor) {
      role.is_weights = true;
    } else if (stage.kind == StageKind::slice_ids && stage.in[0] == tensor) {
      role.is_ids = true;
      role.experts = stage.experts;
    } else if (stage.kind == StageKind::slice_weights && stage.in[0] == tensor) {
      role.is_weights = true;
    } else if (weighs_experts(stage.kind) && stage.in[1] == tensor) {
      role.is_ids = true;
      role.experts = op.tensor(stage.in[0]).cols;
    } else if (looks_up(stage.kind) && stage.in[0] == tensor) {
      role.is_ids = true;
      role.experts = op.tensor(stage.in[1]).rows;
      role.tables = op.tensor(stage.in[1]).matrices;
    }
  }
  return role;
}

// A number in [0, 1).
double unit(uint64_t hash) { return static_cast<double>(hash >> 11) * 0x1p-53; }

class Drawer {
 public:
  Drawer(uint64_t seed, int64_t row, int64_t experts)
      : key_(hash_row(seed, static_cast<Input>(7), row)), experts_(experts) {}

  uint64_t dice() { return hash_element(key_, next_++); }
  int32_t uniform() { return static_cast<int32_t>(dice() % static_cast<uint64_t>(experts_)); }
  // The inverse of the integral of 1 / (x + 1), which is near the sum and needs no table.
  int32_t zipf() {
    const double x = std::pow(static_cast<double>(experts_) + 1, unit(dice())) - 1;
    return std::min(static_cast<int32_t>(x), static_cast<int32_t>(experts_) - 1);
  }
  // Different from those that are there.
  template <typename Draw>
  void fill(std::vector<int32_t>& ids, size_t count, const Draw& draw) {
    while (ids.size() < count) {
      int32_t id = draw();
      while (std::count(ids.begin(), ids.end(), id)) {
        id = static_cast<int32_t>((id + 1) % experts_);
      }
      ids.push_back(id);
    }
  }

 private:
  uint64_t key_;
  int64_t experts_, next_ = 0;
};

// What a bag looks up in a table: any number of rows, the same ones too, and -1 behind them.
void add_bag(Drawer& draw, const Routing& routing, uint64_t seed, size_t slots, int64_t rows,
             std::vector<int32_t>& ids) {
  const size_t end = ids.size() + slots;
  const auto fill = [&](size_t count, const auto& next) {
    for (size_t i = 0; i < count; ++i) ids.push_back(next());
  };
  const size_t some = draw.dice() % (slots + 1);
  switch (routing.kind) {
    case RoutingKind::uniform:
      fill(some, [&] { return draw.uniform(); });
      break;
    case RoutingKind::zipf:
      fill(some, [&] { return draw.zipf(); });
      break;
    case RoutingKind::one_hot:
      fill(slots,
           [&] { return static_cast<int32_t>(mix_bits(seed) % static_cast<uint64_t>(rows)); });
      break;
    case RoutingKind::adversarial: {
      const auto last = static_cast<int32_t>(rows - 1);
      const uint64_t what = draw.dice() % 4;
      const auto same = draw.uniform();
      if (what == 0) break;
      fill(slots, [&]() -> int32_t {
        if (what == 1) return same;
        if (what == 2) return draw.dice() % 2 == 0 ? last + 1 : -2147483647;
        return static_cast<int32_t>(draw.dice() % static_cast<uint64_t>(rows + 3)) - 2;
      });
      break;
    }
  }
  ids.resize(end, -1);
}

std::vector<int32_t> adversarial(Drawer& draw, size_t count, int64_t experts) {
  const auto last = static_cast<int32_t>(experts - 1);
  std::vector<int32_t> ids;
  switch (draw.dice() % 6) {
    case 0:  // nothing at all
      return std::vector<int32_t>(count, -1);
    case 1:  // one expert again and again
      return std::vector<int32_t>(count, draw.uniform());
    case 2:
      return std::vector<int32_t>(count, last);
    case 3:  // none that there is
      for (size_t i = 0; i < count; ++i) ids.push_back(i % 2 == 0 ? last + 1 : -2147483647);
      return ids;
    case 4:  // some of everything
      for (size_t i = 0; i < count; ++i) {
        ids.push_back(static_cast<int32_t>(draw.dice() % static_cast<uint64_t>(experts + 3)) - 2);
      }
      return ids;
    default:
      draw.fill(ids, count, [&] { return draw.uniform(); });
      return ids;
  }
}

}  // namespace

std::string_view to_string(RoutingKind kind) {
  switch (kind) {
#define STRETTO_CASE(name, text, meaning) \
  case RoutingKind::name:                 \
    return text;
    STRETTO_ROUTINGS(STRETTO_CASE)
#undef STRETTO_CASE
  }
  STRETTO_ASSERT(false, "routing out of range");
}

std::vector<int32_t> ids_of_row(const Operator& op, const InputData& data, int tensor,
                                int64_t row) {
  const Role role = role_of(op, tensor);
  const int64_t experts = role.experts;
  const auto count = static_cast<size_t>(op.tensor(tensor).cols);
  if (data.routing.table) {
    const int32_t* const first = data.routing.table->ids.data() + row * data.routing.table->top_k;
    return {first, first + count};
  }
  Drawer draw(data.seed, row, experts);
  std::vector<int32_t> ids;
  if (role.tables > 0) {
    const size_t slots = count / static_cast<size_t>(role.tables);
    for (int64_t table = 0; table < role.tables; ++table) {
      add_bag(draw, data.routing, data.seed, slots, experts, ids);
    }
    return ids;
  }
  switch (data.routing.kind) {
    case RoutingKind::uniform:
      break;
    case RoutingKind::zipf:
      draw.fill(ids, count, [&] { return draw.zipf(); });
      return ids;
    case RoutingKind::one_hot:
      ids.push_back(static_cast<int32_t>(mix_bits(data.seed) % static_cast<uint64_t>(experts)));
      break;
    case RoutingKind::adversarial:
      return adversarial(draw, count, experts);
  }
  draw.fill(ids, count, [&] { return draw.uniform(); });
  return ids;
}

bool fill_routing(const Operator& op, const InputData& data, int tensor, int64_t row, int64_t col0,
                  std::span<float> values) {
  const Role role = role_of(op, tensor);
  if (!role.is_ids && !role.is_weights) return false;
  const auto first = static_cast<size_t>(col0);
  if (role.is_ids) {
    const std::vector<int32_t> ids = ids_of_row(op, data, tensor, row);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(ids[first + i]);
    return true;
  }
  const RoutingTable* const table = data.routing.table.get();
  const uint64_t key = hash_row(data.seed, static_cast<Input>(8), row);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto slot = static_cast<int64_t>(first + i);
    const uint64_t dice = hash_element(key, slot);
    if (table != nullptr && !table->weights.empty()) {
      values[i] = table->weights[static_cast<size_t>(row * table->top_k + slot)];
    } else if (data.fill == Fill::integers) {
      values[i] = static_cast<float>(1 + dice % 2);
    } else {  // of 6 bits, so that every type has it
      values[i] = static_cast<float>(1 + dice % 63) / 64;
    }
  }
  return true;
}

std::shared_ptr<const RoutingTable> parse_routing(std::string_view text,
                                                  std::string_view file_name) {
  auto table = std::make_shared<RoutingTable>();
  int number = 0;
  bool is_first = true, has_weights = false;
  for (const std::string_view whole : split(text, '\n')) {
    ++number;
    std::string_view line = whole.substr(0, whole.find('#'));
    const auto fail = [&](const std::string& what) {
      throw UsageError(fmt::format("{} line {}: {}", file_name, number, what));
    };
    int64_t ids = 0, weights = 0;
    bool behind = false;
    for (size_t at = 0; (at = line.find_first_not_of(" \t\r", at)) != std::string_view::npos;) {
      const size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
      const std::string_view word = line.substr(at, end - at);
      at = end;
      if (word == "|" && !behind) {
        behind = true;
        continue;
      }
      const char* const stop = word.data() + word.size();
      if (!behind) {
        int32_t id = 0;
        const auto [read, error] = std::from_chars(word.data(), stop, id);
        // Tensors of the emulator's inputs are made in fp32.
        constexpr int32_t kMost = 1 << 24;
        if (error != std::errc() || read != stop || id < -kMost || id > kMost) {
          fail(fmt::format("expected an expert's number, -1 for none, found {}", quote(word)));
        }
        table->ids.push_back(id);
        ++ids;
      } else {
        float weight = 0;
        const auto [read, error] = std::from_chars(word.data(), stop, weight);
        if (error != std::errc() || read != stop || !std::isfinite(weight)) {
          fail(fmt::format("expected a weight, a finite number, found {}", quote(word)));
        }
        table->weights.push_back(weight);
        ++weights;
      }
    }
    if (ids == 0 && !behind) continue;
    if (is_first) {
      table->top_k = ids;
      has_weights = behind;
      is_first = false;
    }
    if (ids == 0 || ids != table->top_k || behind != has_weights || (behind && weights != ids)) {
      fail(fmt::format("expected {} experts{}, as in the first line, found {} and {} weights",
                       table->top_k, has_weights ? ", '|' and their weights" : "", ids, weights));
    }
  }
  if (is_first) {
    throw UsageError(
        fmt::format("{}: expected a line of experts' numbers for each row, found none", file_name));
  }
  return table;
}

bool takes_ids(const Operator& op) {
  for (size_t i = 0; i < op.tensors.size(); ++i) {
    if (op.tensors[i].stage < 0 && role_of(op, static_cast<int>(i)).is_ids) return true;
  }
  return false;
}

std::string why_not_routing_of(const RoutingTable& table, const Operator& op) {
  bool any = false, makes_ids = false;
  for (size_t i = 0; i < op.tensors.size(); ++i) {
    if (!role_of(op, static_cast<int>(i)).is_ids) continue;
    if (op.tensors[i].stage >= 0) {
      makes_ids = true;
      continue;
    }
    any = true;
    const Tensor& ids = op.tensors[i];
    const auto rows = static_cast<int64_t>(table.ids.size()) / table.top_k;
    if (rows == ids.rows && table.top_k == ids.cols) continue;
    return fmt::format("{} has {} rows of {} experts, and the file {} of {}", ids.name, ids.rows,
                       ids.cols, rows, table.top_k);
  }
  if (any) return "";
  return makes_ids ? fmt::format("{} chooses experts itself, by its scores", op.name())
                   : fmt::format("rows of {} choose no experts", op.name());
}

}  // namespace stretto
