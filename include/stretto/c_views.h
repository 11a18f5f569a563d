/* Looks at plans as text (docs/plan-format.md), of `stretto plan`, stretto_plan_text() or by hand:
 * a part of stretto/c.h, which says how functions return and how long texts live. No GPU is needed.
 * What is found comes as JSON; `machine` is a name or a file, NULL: the one for so many ranks. */
#ifndef STRETTO_C_VIEWS_H
#define STRETTO_C_VIEWS_H

#include "stretto/c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Reads it: {"operator", "schedule", "ranks", "lanes", "instructions", "tasks", "waits",
 * "notifies"}; `name` is what errors call it ("NAME:LINE:COLUMN: expected ..."). */
STRETTO_C_API int stretto_text_read(const char* plan, const char* name, const char** json);

/* What the checker finds: {"clean", "truncated", "problems": [{"kind", "message", "hint", "line",
 * "other_line"}]}; lines are counted from 1, and null where there is none. */
STRETTO_C_API int stretto_text_check(const char* plan, const char** json);

/* The predicted timeline: times in microseconds, spans as columns of equal length. "released_by_*"
 * say which notify ended a wait; -1 in other rows:
 * {"total_us", "gemm_us", "communication_us", "exposed_us", "floor_us", "efficiency",
 *  "lanes": {"kind", "rank", "index"}, "spans": {"lane", "position", "line", "op", "tile",
 *  "start_us", "end_us", "bytes", "bytes_between_ranks", "released_by_lane",
 *  "released_by_position"}, "links": {"rank", "network", "start_us", "end_us"},
 *  "critical_path": [{"lane", "position", "line", "start_us", "end_us", "why"}]} */
STRETTO_C_API int stretto_text_simulate(const char* plan, const char* machine, const char** json);

/* A page on several plans of one operator, in HTML, as `stretto report` writes it. */
STRETTO_C_API int stretto_text_report(const char* const* names, const char* const* plans,
                                      size_t count, const char* machine, const char** html);

#ifdef __cplusplus
}
#endif

#endif
