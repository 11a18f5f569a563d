// Which buffer a tensor has, and under which name.
#include "lower/declarer.h"

#include "stretto/error.h"
#include "stretto/reference.h"

namespace stretto {

std::string Declarer::free_name(std::string name) const {
  while (plan_.find_buffer(name) || op().find_tensor(name)) name += '_';
  return name;
}

std::string Declarer::name_of(const Tensor& made) const {
  return prefix_.empty() ? made.name : free_name(prefix_ + made.name);
}

uint16_t Declarer::add_named(std::string name, DType dtype, BufferRole role, int64_t rows,
                             int64_t cols, int copies) {
  STRETTO_ASSERT(rows <= INT32_MAX, "a plan this large is not legal");
  STRETTO_ASSERT(!plan_.find_buffer(name), "a buffer has its name alone");
  plan_.buffers.push_back({std::move(name), dtype, role, static_cast<int32_t>(rows),
                           static_cast<int32_t>(cols), 0, static_cast<uint8_t>(copies)});
  return static_cast<uint16_t>(plan_.buffers.size() - 1);
}

uint16_t Declarer::add(std::string name, DType dtype, BufferRole role, int64_t rows, int64_t cols,
                       int copies) {
  return add_named(free_name(std::move(name)), dtype, role, rows, cols, copies);
}

uint16_t Declarer::add_tensor(std::string name, const Tensor& tensor, Held held, BufferRole role,
                              int copies) {
  const RowShards shards{tensor.rows, op().ranks};
  const bool is_stack = tensor.matrices > 1 || held == Held::experts;
  // What ranks have of a stack's matrices lies below one another.
  const int64_t rows = is_stack ? slice_of(op(), *op().find_tensor(tensor.name), held, 0).rows()
                       : held == Held::rows ? shards.block()
                                            : op().team_rows(tensor);
  const ColShards cols = op().shares_of(tensor.cols, tensor.unit, tensor.team);
  const uint16_t buffer = add_named(std::move(name), tensor.dtype, role, rows,
                                    held == Held::cols ? cols.block() : tensor.cols, copies);
  if (held == Held::cols) set_shares(buffer, cols);
  if (held == Held::rows && !is_stack) {
    plan_.buffers[buffer].sharded_rows = static_cast<int32_t>(tensor.rows);
  }
  if (held == Held::experts && tensor.matrices % op().ranks != 0) {
    plan_.buffers[buffer].sharded_rows = static_cast<int32_t>(tensor.matrices * tensor.rows);
  }
  return buffer;
}

void Declarer::set_shares(uint16_t buffer, const ColShards& cols) {
  if (cols.are_even()) return;
  plan_.buffers[buffer].sharded_cols = static_cast<int32_t>(cols.cols);
  state_.cuts_columns = true;
}

uint16_t Declarer::input(int id, bool is_weight) {
  const Tensor& tensor = state_.op.tensor(id);
  if (tensor.stage >= 0) return part_->results[static_cast<size_t>(id)];
  if (const auto known = plan_.find_buffer(tensor.name)) return *known;
  const uint16_t buffer = add_callers(id, tensor.held, BufferRole::input);
  if (is_weight && tensor.held == Held::rows) {
    const ColShards shares = op().shares_of(tensor.rows, 0, tensor.team);
    Buffer& weight = plan_.buffers[buffer];
    if (tensor.matrices == 1) weight.rows = static_cast<int32_t>(shares.block());
    weight.sharded_rows = shares.are_even() ? 0 : static_cast<int32_t>(shares.cols);
  }
  return buffer;
}

uint16_t Declarer::add_callers(int id, Held held, BufferRole role) {
  const Tensor& tensor = state_.op.tensor(id);
  const uint16_t buffer = add_tensor(tensor.name, tensor, held, role);
  const std::vector<int32_t>& each = state_.rows.rows_each;
  if (!each.empty()) state_.set_rows_of_all_parts(buffer, each[static_cast<size_t>(id)]);
  return buffer;
}

uint16_t Declarer::result(const OperatorSegment& segment, bool peers_write, int copies) {
  const auto id = static_cast<size_t>(segment.result);
  const Tensor& tensor = op().tensor(segment.result);
  const std::optional<Held> output = op().output_held(segment.result);
  if (output == segment.result_held) {
    const bool is_first = part_ == &state_.parts.front();
    return part_->results[id] =
               is_first ? add_callers(segment.result, segment.result_held, BufferRole::output)
                        : state_.parts.front().results[id];
  }
  // Its name is the output's, where that is held otherwise.
  return part_->results[id] = add_tensor(
             output ? free_name(prefix_ + tensor.name + "_own") : name_of(tensor), tensor,
             segment.result_held, peers_write ? BufferRole::symmetric : BufferRole::local,
             peers_write ? copies : 1);
}

}  // namespace stretto
