/* fold8: run a compiled INT8 model (.f8) inside a C, C++ or foreign-language service. A stable C
 * ABI.
 *
 *   fold8_model* model;   fold8_session* session;
 *   if (fold8_model_load("net.f8", 0, &model) != FOLD8_OK) puts(fold8_last_error());
 *   fold8_session_create(model, NULL, &session);
 *   fold8_session_set_input(session, 0, FOLD8_F32, 4, dims, pixels);
 *   fold8_session_run(session);
 *   fold8_session_output(session, 0, &output);
 *
 * Models are immutable: any number of threads may share one. A session is used by one thread at a
 * time; create one per thread. No function throws, prints, aborts or exits. Functions that can fail
 * return a fold8_status and leave a message for fold8_last_error(). A null handle is
 * FOLD8_INVALID_ARGUMENT, and ignored by the release functions.
 */
#ifndef FOLD8_FOLD8_H
#define FOLD8_FOLD8_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define FOLD8_API __attribute__((visibility("default")))
#else
#define FOLD8_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- library */

/* major * 10000 + minor * 100 + patch of the library that runs (not of this header). */
FOLD8_API uint32_t fold8_version(void);
FOLD8_API const char* fold8_version_string(void); /* "0.1.0" */

/* Who has to act. Values are fixed; later versions may add some. */
typedef enum fold8_status {
  FOLD8_OK = 0,
  FOLD8_INVALID_ARGUMENT = 1, /* the caller: wrong shape, dtype, index or option */
  FOLD8_INVALID_MODEL = 2,    /* the file contradicts itself or its format */
  FOLD8_UNSUPPORTED = 3,      /* a valid model that this fold8 or CPU cannot run */
  FOLD8_IO = 4,               /* the operating system refused: files, memory, threads */
  FOLD8_INTERNAL = 5          /* a bug of fold8 */
} fold8_status;

/* Why the last failing call of this thread failed; "" if none did. Valid until the thread's next
 * failing call. */
FOLD8_API const char* fold8_last_error(void);

/* Element types. f16 and bf16 are bit patterns; s4 and u4 are held one element per byte. */
typedef enum fold8_dtype {
  FOLD8_F32 = 0,
  FOLD8_S32 = 1,
  FOLD8_S64 = 2,
  FOLD8_U8 = 3,
  FOLD8_S8 = 4,
  FOLD8_BOOL = 5,
  FOLD8_F16 = 6,
  FOLD8_BF16 = 7,
  FOLD8_F64 = 8,
  FOLD8_S16 = 9,
  FOLD8_U16 = 10,
  FOLD8_U32 = 11,
  FOLD8_U64 = 12,
  FOLD8_S4 = 13,
  FOLD8_U4 = 14
} fold8_dtype;

FOLD8_API size_t
fold8_dtype_size(fold8_dtype dtype); /* bytes of one element; 0 for an unknown dtype */
FOLD8_API const char* fold8_dtype_name(fold8_dtype dtype); /* "f32"; "" for an unknown dtype */

#define FOLD8_MAX_RANK 8

/* ---------------------------------------------------------------- models */

typedef struct fold8_model fold8_model;

enum {
  FOLD8_VERIFY_FULL = 1 /* also check the checksum of every weight (header and graph always are) */
};

/* Maps `path` read-only. Replace a file that is in use by renaming another onto it, never by
 * writing into it. */
FOLD8_API fold8_status fold8_model_load(const char* path, uint32_t flags, fold8_model** model);
/* Sessions keep what they need: a model may be released before them. */
FOLD8_API void fold8_model_release(fold8_model* model);

/* The instruction set the model runs on, e.g. "avx512_vnni"; the environment variable FOLD8_TARGET
 * forces one. */
FOLD8_API const char* fold8_model_target(const fold8_model* model);

FOLD8_API size_t fold8_model_input_count(const fold8_model* model);
FOLD8_API size_t fold8_model_output_count(const fold8_model* model);

/* Set struct_size = sizeof(fold8_tensor_info) before the call: later versions append fields. */
typedef struct fold8_tensor_info {
  size_t struct_size;
  const char* name; /* lives as long as the model */
  fold8_dtype dtype;
  int32_t rank;
  int64_t dims[FOLD8_MAX_RANK];        /* -1: dynamic */
  const char* symbols[FOLD8_MAX_RANK]; /* name of a dynamic extent ("batch"), or NULL; equal names
                                          are equal extents */
  int32_t quantized;                   /* 1: real = scale * (stored - zero_point) */
  float scale;
  int32_t zero_point;
} fold8_tensor_info;

FOLD8_API fold8_status fold8_model_input_info(const fold8_model* model, size_t index,
                                              fold8_tensor_info* info);
FOLD8_API fold8_status fold8_model_output_info(const fold8_model* model, size_t index,
                                               fold8_tensor_info* info);

/* The index of the input or output of that name. */
FOLD8_API fold8_status fold8_model_find_input(const fold8_model* model, const char* name,
                                              size_t* index);
FOLD8_API fold8_status fold8_model_find_output(const fold8_model* model, const char* name,
                                               size_t* index);

/* ---------------------------------------------------------------- sessions */

typedef struct fold8_session fold8_session;

/* Filled with defaults by fold8_session_options_init(). */
typedef struct fold8_session_options {
  size_t struct_size;    /* sizeof(fold8_session_options) of the caller's header */
  int32_t threads;       /* 1; 0: every CPU this process may use. Results do not depend on it */
  int32_t plan_cache;    /* 16: how many input shapes are remembered */
  const char* engine;    /* NULL: "fold8"; or "onednn" */
  uint64_t memory_limit; /* 0: 75 % of the physical memory; larger plans are refused */
} fold8_session_options;

FOLD8_API void fold8_session_options_init(fold8_session_options* options);

/* options may be NULL. */
FOLD8_API fold8_status fold8_session_create(const fold8_model* model,
                                            const fold8_session_options* options,
                                            fold8_session** session);
FOLD8_API void fold8_session_release(fold8_session* session);

/* Row-major data, borrowed: it must stay valid and unchanged until fold8_session_run() has
 * returned. The setting is kept for later runs. Shapes are checked by fold8_session_run(). */
FOLD8_API fold8_status fold8_session_set_input(fold8_session* session, size_t index,
                                               fold8_dtype dtype, int32_t rank, const int64_t* dims,
                                               const void* data);

/* Runs the model. The first run of a shape plans and allocates; later ones do neither. */
FOLD8_API fold8_status fold8_session_run(fold8_session* session);

typedef struct fold8_tensor {
  size_t struct_size; /* sizeof(fold8_tensor), set by the caller */
  fold8_dtype dtype;
  int32_t rank;
  int64_t dims[FOLD8_MAX_RANK];
  const void* data; /* row-major, owned by the session, valid until its next run or release; NULL
                       where the output is kept as a state */
  size_t bytes;
} fold8_tensor;

/* An output of the last successful run. */
FOLD8_API fold8_status fold8_session_output(const fold8_session* session, size_t index,
                                            fold8_tensor* tensor);

/* ---------------------------------------------------------------- states
 *
 * An output that the session keeps as an input of its next run: keys and values of a decoder, the
 * state of a recurrent network. It lies in the session; the input is not set, the output has no
 * data. A state grows along one axis, from nothing, or is replaced in each run, from zeros. What
 * attention or a concatenation puts behind a state is written where it lies: nothing is copied.
 *
 *   fold8_session_add_state(session, "present.*", "past_key_values.*", 1024);
 *   for each token: set the other inputs, fold8_session_run(session);
 *   fold8_session_reset_states(session);  // the next text
 */

/* Names may hold up to three '*', which stand for the same text in both; each output that matches
 * becomes a state. capacity: how long it may grow until memory is allocated and planned anew, twice
 * as long each time; 0: 64. Until then a run does neither. */
FOLD8_API fold8_status fold8_session_add_state(fold8_session* session, const char* output,
                                               const char* input, int64_t capacity);
FOLD8_API size_t fold8_session_state_count(const fold8_session* session);
/* Along the axis that grows; 0 before the first run, and for a state that is replaced. */
FOLD8_API int64_t fold8_session_state_length(const fold8_session* session, size_t index);
/* A copy of the contents, valid until the next call of this function for the session. An error
 * before the first run. */
FOLD8_API fold8_status fold8_session_state(fold8_session* session, size_t index,
                                           fold8_tensor* tensor);
/* As in the beginning; memory and plans remain. */
FOLD8_API fold8_status fold8_session_reset_states(fold8_session* session);
/* Only the first `length` of every state that grows remain; an error if one is shorter. */
FOLD8_API fold8_status fold8_session_truncate_states(fold8_session* session, int64_t length);

/* Bytes of intermediate tensors of the last run's plan. */
FOLD8_API size_t fold8_session_arena_bytes(const fold8_session* session);

#ifdef __cplusplus
}
#endif

#endif
