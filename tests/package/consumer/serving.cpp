// The lines of docs/serving.md, with what they take for granted around them. They need eight GPUs,
// so here they are compiled only: a page that names what is not there fails to build.
#include <stretto/context.h>

namespace {

using namespace stretto;

[[maybe_unused]] void serve(int rank, GpuStream stream, int64_t rows, GpuAddress a, GpuAddress b,
                            GpuAddress out, GpuAddress address, int64_t bucket) {
  const CallTensor tensors[] = {{"a", a}, {"b", b}, {"out", out}};
  Context context(8);
  Operation down(context, make_operator("gemm-rs", {{"m", 4096}, {"n", 8192}, {"k", 28672}}, 8));
  down.run(rank, stream, rows, {{"a", a}, {"b", b}, {"out", out}});
  down.run(rank, stream, address, bucket, tensors);
  down.finish();
}

}  // namespace
