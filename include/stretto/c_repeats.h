/* Calls that come again, of tensors that are objects of another language, whose framework speaks
 * DLPack's C exchange API (Python's PyTorch): a part of stretto/c.h, which says how functions
 * return. One function looks at the objects, takes where they lie and enqueues the run. Neither a
 * GPU nor another rank is asked. */
#ifndef STRETTO_C_REPEATS_H
#define STRETTO_C_REPEATS_H

#include "stretto/c.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stretto_repeat stretto_repeat;

/* The objects are not as those of the first call were: nothing is enqueued. */
enum { STRETTO_OTHERWISE = 1 };

/* What the other language does. Its lock is held whenever one of these but `lock` is called. */
typedef struct stretto_objects {
  size_t size;
  int (*view)(void* object, void* tensor);    /* lends a DLTensor; not 0: there is none */
  void (*clear)(void);                        /* forgets why a view or an item failed */
  void* (*item)(void* list, ptrdiff_t index); /* lends one of a list's objects */
  void* (*type)(void* object);                /* of an object; given back by drop */
  void (*drop)(void* type);
  void* (*unlock)(void); /* lets the language's other threads go on, until lock(its result) */
  void (*lock)(void* unlocked);
  const void* types[2]; /* that objects have */
} stretto_objects;

/* Which tensor of the run an input is, where it is none by itself: */
enum {
  STRETTO_BEHIND = -1, /* it lies right behind the input before it, as a part of that one's */
  STRETTO_ADDED = -2   /* it is not the run's */
};

typedef struct stretto_repeat_request {
  size_t size;
  /* stretto_operation_run, or what stands for it */
  int (*run)(stretto_operation* operation, int64_t rows, const stretto_call_tensor* tensors,
             size_t count, void* stream);
  stretto_operation* operation; /* outlives the calls */
  int64_t rows;
  const stretto_call_tensor* tensors; /* of a run, all of them: their addresses change */
  size_t count;
  const stretto_objects* objects;
  void* inputs;          /* a list of contiguous tensors, as those of all calls are to be */
  const int32_t* places; /* by input: an index in `tensors`, or STRETTO_BEHIND, STRETTO_ADDED */
  size_t num_inputs;
  void* outputs; /* a list of contiguous tensors, which are the last of `tensors` */
  size_t num_outputs;
} stretto_repeat_request;

STRETTO_C_API int stretto_repeat_make(const stretto_repeat_request* request,
                                      stretto_repeat** repeat);
STRETTO_C_API int stretto_repeat_close(stretto_repeat* repeat);

/* Whether inputs are of the types, sizes and GPU that they were of, contiguous, and at multiples of
 * 16 bytes: STRETTO_GOOD or STRETTO_OTHERWISE. */
STRETTO_C_API int stretto_repeat_takes(const stretto_repeat* repeat, void* inputs);
/* Runs with such inputs and outputs, if no output overlaps another tensor. */
STRETTO_C_API int stretto_repeat_run(const stretto_repeat* repeat, void* inputs, void* outputs,
                                     void* stream);

#ifdef __cplusplus
}
#endif

#endif
