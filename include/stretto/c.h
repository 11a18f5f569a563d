/* The C interface, which bindings of other languages load at run time (libstretto.so): what plans
 * are, without a GPU; and operations of this process's rank on its GPU (context.h says more of what
 * contexts and operations are).
 *
 * Every function that returns int returns 0, or what the command would end with: 2 for bad usage, 3
 * for a system fault. stretto_last_error() then says in one line what is wrong. Texts that a
 * function hands out live until the same thread calls the next one; sizes are global, as in
 * operator.h. Any thread may call; calls of one context and its operations come from one thread at
 * a time.
 *
 * Structs begin with `size`, which the caller sets to their sizeof: later versions add fields at
 * the end, and read as 0 those that an older caller's struct does not have. A size that is larger
 * than the library's is refused. What is not set should be 0:
 *
 *     stretto_operator op = {.size = sizeof op, .kind = "gemm-rs", .m = 4096, ...};
 */
#ifndef STRETTO_C_H
#define STRETTO_C_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define STRETTO_C_API __attribute__((visibility("default")))
#else
#define STRETTO_C_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum { STRETTO_GOOD = 0, STRETTO_BAD_USAGE = 2, STRETTO_SYSTEM_FAULT = 3 };

/* Grows whenever a program that was made for this header would no longer work. */
#define STRETTO_C_VERSION 2
STRETTO_C_API int stretto_c_version(void);

STRETTO_C_API const char* stretto_version(void); /* "0.1.0", as STRETTO_VERSION in version.h */
/* What went wrong in the calling thread's last function that failed; empty before. */
STRETTO_C_API const char* stretto_last_error(void);

/* Plans: no GPU is needed. */

typedef struct stretto_operator {
  size_t size;
  const char* kind; /* "ag-gemm", "gemm-rs", "gemm-ar" */
  int64_t m, n, k;
  int32_t ranks;
  const char* dtype; /* "bf16", "fp16", "fp32" */
} stretto_operator;

/* Which plan is asked about. */
typedef struct stretto_plan_request {
  size_t size;
  const stretto_operator* op;
  const char* schedule; /* "auto", a preset's name and changes, or a whole schedule */
  int32_t serves;       /* not 0: runs may have fewer rows than op.m (rows=bucket) */
  const char* machine;  /* a name or a file; NULL: the machine for so many ranks */
} stretto_plan_request;

/* `schedule`: every coordinate of it; `reason`: why auto took it, else empty; `predicted_us`: what
 * the simulation says of one run, in microseconds. Large operators take seconds. */
STRETTO_C_API int stretto_plan(const stretto_plan_request* request, const char** schedule,
                               const char** reason, double* predicted_us);

/* Proves the plan free of races and deadlocks. `num_problems`: 0 when it is proved; `problems`: a
 * line for each. */
STRETTO_C_API int stretto_check(const stretto_plan_request* request, int64_t* num_problems,
                                const char** problems);

typedef enum stretto_tensor { STRETTO_A = 0, STRETTO_B = 1, STRETTO_OUT = 2 } stretto_tensor;

/* Rows and columns that a tensor of a rank must have room for, row-major, without gaps; not 0 in
 * `serves`: in an operation that serves up to op.m rows. It is the same on all ranks, and what the
 * rank uses of it may be less. */
STRETTO_C_API int stretto_shape(const stretto_operator* op, int32_t serves, stretto_tensor tensor,
                                int64_t* rows, int64_t* cols);

/* On a GPU: one process a rank. */

typedef struct stretto_context stretto_context;
typedef struct stretto_operation stretto_operation;

/* Collective over the processes of the job that torchrun, mpirun or `stretto launch` started; this
 * process's rank, on the GPU of its local rank (the only one where it sees one). Without a launcher
 * one rank on GPU 0. A run's wait for another rank ends with an error after `timeout_s`. */
STRETTO_C_API int stretto_context_open(double timeout_s, stretto_context** context);
/* Of operations none may be left. */
STRETTO_C_API int stretto_context_close(stretto_context* context);
/* -1 for NULL. */
STRETTO_C_API int32_t stretto_context_rank(const stretto_context* context);
STRETTO_C_API int32_t stretto_context_ranks(const stretto_context* context);
STRETTO_C_API int32_t stretto_context_gpu(const stretto_context* context);

typedef struct stretto_operation_request {
  size_t size;
  const char* kind;
  int64_t n, k;
  const char* dtype;
  int64_t max_rows;
  int32_t serves;       /* not 0: runs have 1 to max_rows rows; 0: exactly max_rows */
  const char* schedule; /* as of a plan */
  /* Tensors of the caller in GPU memory, each at a multiple of 16 bytes and with the room that
   * stretto_shape() says; 0: the operation allocates it. The result of gemm-ar is its own. */
  uint64_t a, b, out;
} stretto_operation_request;

/* Collective. Tensors must outlive it. With fixed rows `out` may be written already. */
STRETTO_C_API int stretto_operation_make(stretto_context* context,
                                         const stretto_operation_request* request,
                                         stretto_operation** operation);
/* Collective. Waits for its runs; graphs that hold them must not be launched any more. */
STRETTO_C_API int stretto_operation_close(stretto_operation* operation);

STRETTO_C_API int stretto_operation_address(const stretto_operation* operation,
                                            stretto_tensor tensor, uint64_t* address);
/* Makes the plan that serves so many rows ahead of the first run. Collective. */
STRETTO_C_API int stretto_operation_prepare(stretto_operation* operation, int64_t rows);
STRETTO_C_API int stretto_operation_schedule(const stretto_operation* operation, int64_t rows,
                                             const char** schedule);

/* Enqueues one run on a stream (cudaStream_t, CUstream; NULL: the default stream) and returns. The
 * stream may be under capture. All ranks make the same runs in the same order. */
STRETTO_C_API int stretto_operation_run(stretto_operation* operation, int64_t rows, void* stream);
/* The rows are an int32 in GPU memory, read when the run starts; at most `bucket`. So many may be
 * multiplied, whatever stands in those of A that the run does not have. */
STRETTO_C_API int stretto_operation_run_at(stretto_operation* operation, uint64_t rows_address,
                                           int64_t bucket, void* stream);
/* Collective. Waits for all runs; streams on which graphs were launched are synchronised before.
 * Fails with the wait that did not end in time; the operation can then be used again. */
STRETTO_C_API int stretto_operation_finish(stretto_operation* operation);

#ifdef __cplusplus
}
#endif

#endif
