#include "streams/nccl_lane.h"

namespace stretto::runtime {
namespace {

void make_call(const fabric::Communicators& nccl, int rank, const cuda::Stream& stream,
               const cuda::NcclCall& call) {
  using Kind = cuda::NcclCall::Kind;
  const auto& [kind, dtype, root, from, to, count, team] = call;
  const fabric::Communicators::Caller caller(rank, team);
  switch (kind) {
    case Kind::all_gather:
      return nccl.all_gather(caller, stream, from, to, count, dtype);
    case Kind::reduce_scatter:
      return nccl.reduce_scatter(caller, stream, from, to, count, dtype);
    case Kind::all_reduce:
      return nccl.all_reduce(caller, stream, from, to, count, dtype);
    case Kind::broadcast:
      return nccl.broadcast(caller, stream, from, to, count, dtype, root);
    case Kind::reduce:
      return nccl.reduce(caller, stream, from, to, count, dtype, root);
    case Kind::send:
      return nccl.send(caller, stream, from, count, dtype, root);
    case Kind::receive:
      return nccl.receive(caller, stream, to, count, dtype, root);
  }
}

}  // namespace

void make_calls(const fabric::Communicators& communicators, int rank, const cuda::Stream& stream,
                const std::vector<cuda::NcclCall>& calls) {
  const auto make_all = [&] {
    for (const cuda::NcclCall& call : calls) make_call(communicators, rank, stream, call);
  };
  if (calls.size() > 1) {
    fabric::as_one_operation(make_all);
  } else {
    make_all();
  }
}

}  // namespace stretto::runtime
