/* Calls that come again, of tensors that are objects of another language, whose framework speaks
 * DLPack's C exchange API (Python's PyTorch): a part of stretto/c.h, which says how functions
 * return. One function looks at the objects, finds the call that they were in before, has its
 * results made and enqueues the run. Neither a GPU nor another rank is asked. */
#ifndef STRETTO_C_REPEATS_H
#define STRETTO_C_REPEATS_H

#include "stretto/c.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stretto_repeats stretto_repeats;

/* What the other language does, with lists that never change. Its lock is held whenever something
 * here is called, but for `lock`. What is lent lives as long as what it is of. */
typedef struct stretto_objects {
  size_t size;
  int (*view)(void* object, void* tensor); /* lends a DLTensor; not 0: there is none */
  void (*clear)(void);                     /* forgets why something failed */
  ptrdiff_t (*length)(void* list);
  void* (*item)(void* list, ptrdiff_t index);            /* lent */
  void* (*list)(ptrdiff_t length);                       /* a new one; NULL: it failed */
  int (*put)(void* list, ptrdiff_t index, void* object); /* into a new list, which has it then */
  void* (*type)(void* object);
  void* (*call)(void* function, void* arguments, void* named); /* NULL: it failed */
  void (*keep)(void* object);
  void (*drop)(void* object); /* what was kept, or is no longer needed of list, type, call */
  void (*fail)(void* error, const char* what); /* so that a result of NULL raises it */
  void* (*unlock)(void); /* lets the language's other threads go on, until lock(its result) */
  void (*lock)(void* unlocked);
  const void* types[2]; /* that tensors have */
  void* none;           /* the result of what cannot come again */
  void *usage_error, *system_fault;
} stretto_objects;

/* Which tensor of the run an input is, where it is none by itself: */
enum {
  STRETTO_BEHIND = -1, /* it lies right behind the input before it, as a part of that one's */
  STRETTO_ADDED = -2   /* it is not the run's */
};

/* A call that was made. */
typedef struct stretto_repeat {
  size_t size;
  /* stretto_operation_run, or what stands for it */
  int (*run)(stretto_operation* operation, int64_t rows, const stretto_call_tensor* tensors,
             size_t count, void* stream);
  stretto_operation* operation; /* outlives the calls */
  int64_t rows;
  const stretto_call_tensor* tensors; /* of a run, all of them: their addresses change */
  size_t count;
  void* inputs;          /* a list of contiguous tensors, as those of calls to come */
  const int32_t* places; /* by input: an index in `tensors`, or STRETTO_BEHIND, STRETTO_ADDED */
  void* outputs;         /* a list of contiguous tensors, which are the last of `tensors` */
  void* make;            /* a function that makes an output */
  void* arguments;       /* a list of its arguments, by output */
} stretto_repeat;

/* Calls of one operator, alike but for their tensors. `objects` outlives them. */
STRETTO_C_API int stretto_repeats_make(const stretto_objects* objects, stretto_repeats** repeats);
STRETTO_C_API int stretto_repeats_close(stretto_repeats* repeats);
/* Takes the place of one of the same kind. */
STRETTO_C_API int stretto_repeats_add(stretto_repeats* repeats, const stretto_repeat* repeat);

/* Whether such a call may come again: its inputs are of the types, sizes and GPU of one that was
 * made, contiguous, and at multiples of 16 bytes; 1 or 0. */
STRETTO_C_API int stretto_repeats_takes(const stretto_repeats* repeats, void* inputs);
/* Runs it, and returns the outputs as a list: those given, or new ones where that is `none`.
 * Returns `none` where it cannot come again, as where given outputs overlap another tensor, and
 * NULL where something failed. */
STRETTO_C_API void* stretto_repeats_call(const stretto_repeats* repeats, void* inputs,
                                         void* outputs, void* stream);

#ifdef __cplusplus
}
#endif

#endif
