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
 *     stretto_operator op = {.size = sizeof op, .name = "mlp", .sizes = "m=64 h=512 f=1536", ...};
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
#define STRETTO_C_VERSION 3
STRETTO_C_API int stretto_c_version(void);

STRETTO_C_API const char* stretto_version(void); /* "0.1.0", as STRETTO_VERSION in version.h */
/* What went wrong in the calling thread's last function that failed; empty before. */
STRETTO_C_API const char* stretto_last_error(void);

/* Operators: no GPU is needed. */

/* One that Stretto ships, by its name, or a graph of the caller's own (docs/graph-format.md). */
typedef struct stretto_operator {
  size_t size;
  const char* name;  /* "gemm-rs", "mlp", ...; NULL where `graph` is given */
  const char* graph; /* a graph's text; NULL: a shipped one */
  const char* sizes; /* all that the graph has: "m=4096 n=8192 k=14336" */
  int32_t ranks;
  const char* dtype; /* "bf16", "fp16", "fp32" */
} stretto_operator;

/* A tensor that the caller gives or gets: what a rank has of it. */
typedef struct stretto_tensor_info {
  size_t size;
  const char* name;
  const char* held;  /* "whole", "rows" (a block of rows by rank), "cols" or "experts" */
  int32_t is_output; /* else an input */
  int64_t rows, cols;
  const char* dtype; /* "bf16", "fp16", "fp32", "i32", "i64": most have the operator's */
} stretto_tensor_info;

/* How many tensors are the caller's: inputs in the graph's order, then outputs. */
STRETTO_C_API int stretto_tensor_count(const stretto_operator* op, int32_t* count);
/* The one with that index, as `rank` has it. Not 0 in `serves`: of an operation that serves up to
 * the operator's rows; then, and for rank 0, `rows` is what a tensor must have room for on any
 * rank. The caller sets info->size; texts live as those of any function. */
STRETTO_C_API int stretto_tensor_of(const stretto_operator* op, int32_t serves, int32_t rank,
                                    int32_t index, stretto_tensor_info* info);

/* A tensor at a call. */
typedef struct stretto_call_tensor {
  size_t size;
  const char* name;   /* as in the graph; NULL: `index` says which */
  int32_t index;      /* as of stretto_tensor_of() */
  int32_t rank;       /* whose; runs of operations take their own rank's only, and 0 for it */
  uint64_t address;   /* of the first element */
  int64_t row_stride; /* elements from a row to the next; 0: rows without gaps */
} stretto_call_tensor;

/* Plans: no GPU is needed. */

/* Which plan is asked for. */
typedef struct stretto_plan_request {
  size_t size;
  const stretto_operator* op;
  /* "auto", the name of a preset or a system (`stretto strategies`) and changes, or a whole one */
  const char* schedule;
  int32_t serves;      /* not 0: runs may have fewer rows than the operator (rows=bucket) */
  const char* machine; /* a name or a file; NULL: the machine for so many ranks */
} stretto_plan_request;

typedef struct stretto_plan stretto_plan;

/* "auto" simulates, which takes seconds for large operators. */
STRETTO_C_API int stretto_plan_make(const stretto_plan_request* request, stretto_plan** plan);
STRETTO_C_API int stretto_plan_close(stretto_plan* plan);
/* Rows of the largest run: the operator's. */
STRETTO_C_API int stretto_plan_rows(const stretto_plan* plan, int64_t* rows);
/* As stretto_tensor_of(), of a run of so many rows. */
STRETTO_C_API int stretto_plan_tensor(const stretto_plan* plan, int64_t rows, int32_t rank,
                                      int32_t index, stretto_tensor_info* info);
/* `schedule`: every coordinate of it; `reason`: why auto took it, or what a name stands for where
   the schedule does not say it; else empty. */
STRETTO_C_API int stretto_plan_schedule(const stretto_plan* plan, const char** schedule,
                                        const char** reason);
/* What the simulation says of one run, in microseconds. */
STRETTO_C_API int stretto_plan_predict(const stretto_plan* plan, double* microseconds);
/* Proves the plan free of races and deadlocks. `num_problems`: 0 when it is proved; `problems`: a
 * line for each. */
STRETTO_C_API int stretto_plan_check(const stretto_plan* plan, int64_t* num_problems,
                                     const char** problems);
/* Bytes of every GPU that lie between ranks: an operation's workspace is as large as that of its
 * largest plan. */
STRETTO_C_API int stretto_plan_workspace(const stretto_plan* plan, uint64_t* num_bytes);
/* The program of every rank as text (docs/plan-format.md). */
STRETTO_C_API int stretto_plan_text(const stretto_plan* plan, const char** text);
/* One run of `rows` rows on the CPU, of all ranks: each has all its tensors among the `count`, in
 * ordinary memory, sharded as the operator of so many rows has them; outputs lie on no other
 * tensor. Fewer rows than the plan's are for plans that serve; 0 rows do nothing. */
STRETTO_C_API int stretto_plan_execute(stretto_plan* plan, int64_t rows,
                                       const stretto_call_tensor* tensors, size_t count);
/* As stretto_operation_bad_ids(), of all runs so far; of look-ups of all ranks' tables. */
STRETTO_C_API int stretto_plan_bad_ids(const stretto_plan* plan, uint64_t* count);

/* On a GPU: one process a rank. */

typedef struct stretto_context stretto_context;
typedef struct stretto_operation stretto_operation;

/* Which job a context is of. */
typedef struct stretto_context_request {
  size_t size;
  double timeout_s; /* a run's wait for another rank ends with an error after it */
  /* ranks 0: of the job that torchrun, mpirun or `stretto launch` started, which says the rest; the
   * GPU is that of the local rank, or the only one that the process sees. Else this process is
   * `rank` of so many, all on one machine, on the GPU `gpu`; ranks 1 is a job of its own. */
  int32_t rank, ranks, gpu;
  /* With ranks above 1: collective, called once inside stretto_context_open(). Leaves num_bytes of
   * every rank, by rank, at `all`; returns 0, anything else where it failed. What ranks tell each
   * other so is a secret of theirs: who has it can join. */
  int (*exchange)(void* user, const void* mine, void* all, size_t num_bytes);
  void* user;
  /* Of every GPU, for what lies between ranks, shared by all operations: so many bytes are taken
   * with the context, and where `workspace_grows` is not 0 twice as many as a plan needs that needs
   * more; else that is refused. Twice what the largest plan needs lets plans lie side by side,
   * which spares ranks waits for each other. Both 0: each operation has its own. */
  uint64_t workspace_bytes;
  int32_t workspace_grows;
  /* SMs of every GPU that no run holds, for others' kernels that wait for other ranks, such as
   * NCCL's of another group, while runs are under way: half of them at the most. */
  int32_t free_sms;
  /* Not 0: a run waits for the one before it on its GPU where that went to another stream, of all
   * contexts of the process that say so; else the caller orders streams. What graphs hold waits for
   * what the same capture holds: order launches of graphs with other runs. */
  int32_t orders_streams;
} stretto_context_request;

/* Collective over the ranks of the job. */
STRETTO_C_API int stretto_context_open(const stretto_context_request* request,
                                       stretto_context** context);
/* Of operations none may be left. In a fork of the process that opened it this does nothing. */
STRETTO_C_API int stretto_context_close(stretto_context* context);
/* -1 for NULL. */
STRETTO_C_API int32_t stretto_context_rank(const stretto_context* context);
STRETTO_C_API int32_t stretto_context_ranks(const stretto_context* context);
STRETTO_C_API int32_t stretto_context_gpu(const stretto_context* context);
/* What the workspace of all operations has of this GPU now; 0 where each has its own. */
STRETTO_C_API int stretto_context_workspace(const stretto_context* context, uint64_t* num_bytes);
/* Collective. GPU memory of every rank that the others reach, until the context ends; where this
 * rank's is. */
STRETTO_C_API int stretto_context_allocate_shared(stretto_context* context, uint64_t num_bytes,
                                                  uint64_t* address);

typedef struct stretto_operation_request {
  size_t size;
  const stretto_operator* op; /* of the context's ranks; as many rows as a run has at the most */
  int32_t serves;             /* not 0: runs may have fewer, of one product that no all-to-all
                               * feeds or drains; 0: exactly so many */
  const char* schedule;       /* as of a plan */
  /* How long making it may time schedules where auto is not sure, in milliseconds of runs; less
   * than 0: never; 0: as STRETTO_MEASURE_MS says. */
  double measure_ms;
  /* not 0: results that other ranks write lie in memory of stretto_context_allocate_shared(), at
   * the same place on all ranks, and are not copied */
  int32_t shared_results;
} stretto_operation_request;

/* Collective. */
STRETTO_C_API int stretto_operation_make(stretto_context* context,
                                         const stretto_operation_request* request,
                                         stretto_operation** operation);
/* Collective. Waits for its runs; graphs that hold them must not be launched any more. */
STRETTO_C_API int stretto_operation_close(stretto_operation* operation);

/* The most rows of a run. */
STRETTO_C_API int stretto_operation_rows(const stretto_operation* operation, int64_t* rows);
/* As stretto_tensor_of(), of this rank in a run of so many rows. */
STRETTO_C_API int stretto_operation_tensor(const stretto_operation* operation, int64_t rows,
                                           int32_t index, stretto_tensor_info* info);
/* Makes the plan that serves so many rows ahead of the first run. Collective. */
STRETTO_C_API int stretto_operation_prepare(stretto_operation* operation, int64_t rows);
/* For a server that is idle: measures schedules of plans that are there and that auto is not sure
 * of, most used first, each once, and takes the fastest from the next run on. No other plan is
 * begun after `budget_ms` milliseconds, those of rank 0. `left`: how many plans another call would
 * measure. Waits for all runs before and fails as stretto_operation_finish() does; BAD_USAGE on all
 * ranks where a stream is being captured that any of them knows. Graphs that hold an older plan go
 * on with it. Collective. */
STRETTO_C_API int stretto_operation_learn(stretto_operation* operation, double budget_ms,
                                          int32_t* left);
STRETTO_C_API int stretto_operation_schedule(const stretto_operation* operation, int64_t rows,
                                             const char** schedule);
/* Why auto took it, and how sure it is; where the schedule was named, as of a plan. */
STRETTO_C_API int stretto_operation_reason(const stretto_operation* operation, int64_t rows,
                                           const char** reason);
/* Of this GPU, for what lies between ranks; of a workspace that operations share all. */
STRETTO_C_API int stretto_operation_workspace(const stretto_operation* operation,
                                              uint64_t* num_bytes);
/* A captured graph holds a multiple of so many runs of so many rows, whose plan is there. */
STRETTO_C_API int stretto_operation_runs_per_graph(const stretto_operation* operation, int64_t rows,
                                                   int32_t* runs);

/* Enqueues one run on a stream (cudaStream_t, CUstream; NULL: the default stream) and returns. All
 * of this rank's tensors are among the `count`, in memory of its GPU or managed memory, at
 * multiples of 16 bytes and with rows at such; rows of those that are moved as one piece have no
 * gaps, and outputs lie on no other tensor (else BAD_USAGE says so). 0 rows do nothing. The stream
 * may be under capture. All ranks make the same runs in the same order.
 */
STRETTO_C_API int stretto_operation_run(stretto_operation* operation, int64_t rows,
                                        const stretto_call_tensor* tensors, size_t count,
                                        void* stream);
/* The rows are an int32 in GPU memory, read when the run starts; at most `bucket`, for which
 * tensors have room. So many may be multiplied, whatever stands in those that the run does not
 * have. */
STRETTO_C_API int stretto_operation_run_at(stretto_operation* operation, uint64_t rows_address,
                                           int64_t bucket, const stretto_call_tensor* tensors,
                                           size_t count, void* stream);
/* Collective. Waits for all runs; streams on which graphs were launched are synchronised before.
 * Fails with the wait that did not end in time; the operation can then be used again. */
STRETTO_C_API int stretto_operation_finish(stretto_operation* operation);
/* What went wrong so far, as far as this process knows; empty: nothing. Asks no rank and waits for
 * no run; where nothing went wrong it reads a few words of the host's memory. The next run fails
 * with it. */
STRETTO_C_API int stretto_operation_error(const stretto_operation* operation, const char** what);
/* Of tensors that runs have copied, in bytes: results that other ranks write, which lie in memory
 * of the operation's own, and others that it cannot take where they lie. */
STRETTO_C_API int stretto_operation_copied(const stretto_operation* operation, uint64_t* num_bytes);
/* How many ids of all runs that have ended were no expert's and not -1. They count as -1: nothing
 * is chosen there. Of look-ups how many were no row of their table, in this rank's tables; of
 * operators that choose nothing 0. */
STRETTO_C_API int stretto_operation_bad_ids(const stretto_operation* operation, uint64_t* count);

#ifdef __cplusplus
}
#endif

#endif
