/* How much memory a service pays for a model: the peak of a process that loads it and answers, less
 * what it had before.
 *
 *   load_memory MODEL.f8 [NAME=1x3x224x224].. [NAME%VALUES].. [--runs N] [--threads N]
 *
 * Integer inputs are ones, or with NAME%VALUES spread over 0 to VALUES - 1: token ids that touch a
 * table everywhere. A mapped page cache page counts with its whole folio: 64 KiB around each
 * touched row of a file that was read from disk, 2 MiB where the file is in the cache as one large
 * write left it.
 *
 * Prints JSON: load_ms, session_ms, first_run_ms, warm_run_ms (median), rss_before_bytes,
 * peak_rss_bytes, added_bytes = the difference; pages of the mapped file count as they are read.
 * Links libfold8_runtime and nothing else of fold8. */
#include <fold8.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kMaxInputs = 16, kMaxRuns = 1000 };

static void stop(const char* what, const char* why) {
  fprintf(stderr, "load_memory: %s: %s\n", what, why);
  exit(2);
}

static void need(fold8_status status, const char* what) {
  if (status != FOLD8_OK) stop(what, fold8_last_error());
}

/* A line of /proc/self/status such as "VmHWM:", in bytes. */
static long status_bytes(const char* key) {
  char line[256];
  long kib = 0;
  FILE* f = fopen("/proc/self/status", "r");
  if (f == NULL) stop("/proc/self/status", "cannot be read");
  while (fgets(line, sizeof line, f) != NULL)
    if (strncmp(line, key, strlen(key)) == 0) kib = strtol(line + strlen(key), NULL, 10);
  fclose(f);
  return kib * 1024;
}

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* "x=1x3x48x320" for the input `name`; other unknown extents are 1. */
static void read_shape(int argc, char** argv, fold8_tensor_info* info) {
  for (int a = 0; a < info->rank; ++a)
    if (info->dims[a] < 0) info->dims[a] = 1;
  for (int i = 2; i < argc; ++i) {
    const size_t n = strlen(info->name);
    if (strncmp(argv[i], info->name, n) != 0 || argv[i][n] != '=') continue;
    char* p = argv[i] + n + 1;
    for (int a = 0; a < info->rank && *p != 0; ++a) {
      info->dims[a] = strtoll(p, &p, 10);
      if (*p == 'x') ++p;
    }
  }
}

/* N of an argument "NAME%N"; 0: not given. */
static uint64_t values_of(int argc, char** argv, const char* name) {
  const size_t n = strlen(name);
  for (int i = 2; i < argc; ++i)
    if (strncmp(argv[i], name, n) == 0 && argv[i][n] == '%')
      return strtoull(argv[i] + n + 1, NULL, 10);
  return 0;
}

/* Pixels between -1 and 1; ones for integers, which are valid indices and masks. */
static void* make_input(const fold8_tensor_info* info, uint64_t values) {
  size_t count = 1;
  for (int a = 0; a < info->rank; ++a) count *= (size_t)info->dims[a];
  const size_t bytes = count * fold8_dtype_size(info->dtype);
  char* data = aligned_alloc(64, (bytes + 127) / 64 * 64);
  if (data == NULL) stop(info->name, "no memory for it");
  memset(data, 0, bytes);
  if (info->dtype == FOLD8_F32)
    for (size_t i = 0; i < count; ++i)
      ((float*)data)[i] = (float)(i * 2654435761u % 2048) / 1024 - 1;
  if (info->dtype == FOLD8_S64)
    for (size_t i = 0; i < count; ++i)
      ((int64_t*)data)[i] = values > 0 ? (int64_t)(i * 2654435761u % values) : 1;
  return data;
}

static long option(int argc, char** argv, const char* name, long otherwise) {
  for (int i = 2; i + 1 < argc; ++i)
    if (strcmp(argv[i], name) == 0) return strtol(argv[i + 1], NULL, 10);
  return otherwise;
}

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void set_inputs(int argc, char** argv, const fold8_model* model, fold8_session* session,
                       void** inputs) {
  for (size_t i = 0; i < fold8_model_input_count(model); ++i) {
    if (i == kMaxInputs) stop(argv[1], "has too many inputs");
    fold8_tensor_info info = {.struct_size = sizeof info};
    need(fold8_model_input_info(model, i, &info), "input");
    read_shape(argc, argv, &info);
    inputs[i] = make_input(&info, values_of(argc, argv, info.name));
    need(fold8_session_set_input(session, i, info.dtype, info.rank, info.dims, inputs[i]),
         info.name);
  }
}

int main(int argc, char** argv) {
  if (argc < 2) stop("usage", "load_memory MODEL.f8 [NAME=1x3x224x224].. [--runs N] [--threads N]");
  long runs = option(argc, argv, "--runs", 20);
  if (runs < 1 || runs > kMaxRuns) stop("--runs", "1 to 1000");
  const long before = status_bytes("VmRSS:");
  fold8_model* model = NULL;
  fold8_session* session = NULL;
  void* inputs[kMaxInputs] = {NULL};
  double times[kMaxRuns];
  const double start = now_ms();
  need(fold8_model_load(argv[1], 0, &model), "load");
  const double loaded = now_ms();
  fold8_session_options options;
  fold8_session_options_init(&options);
  options.threads = (int32_t)option(argc, argv, "--threads", 1);
  need(fold8_session_create(model, &options, &session), "session");
  const double created = now_ms();
  set_inputs(argc, argv, model, session, inputs);
  const double ready = now_ms();
  need(fold8_session_run(session), "run");
  const double answered = now_ms();
  for (long i = 0; i < runs; ++i) {
    const double t = now_ms();
    need(fold8_session_run(session), "run");
    times[i] = now_ms() - t;
  }
  qsort(times, (size_t)runs, sizeof *times, ascending);
  const long peak = status_bytes("VmHWM:");
  printf(
      "{\"model\": \"%s\", \"load_ms\": %.3f, \"session_ms\": %.3f, \"first_run_ms\": %.3f, "
      "\"warm_run_ms\": %.3f, \"rss_before_bytes\": %ld, \"peak_rss_bytes\": %ld, "
      "\"added_bytes\": %ld, \"arena_bytes\": %zu}\n",
      argv[1], loaded - start, created - loaded, answered - ready, times[runs / 2], before, peak,
      peak - before, fold8_session_arena_bytes(session));
  fold8_session_release(session);
  fold8_model_release(model);
  for (int i = 0; i < kMaxInputs; ++i) free(inputs[i]);
  return fflush(stdout) == 0 ? 0 : 5;
}
