/* One .f8 model, kept alive for bench/model_bench: the C API as a service would use it, one thread.
 *
 * usage: model_bench_worker MODEL.f8 SAMPLES NAME=FILE...
 *
 * FILE holds the raw bytes of input NAME, SAMPLES samples one after another. model_bench compiles
 * this against libfold8_runtime. Once the model is loaded and has run, it prints a JSON line with
 * load_ms and first_ms (CPU time), rss_mb and peak_mb. Then, like peers/peer_worker.py, it answers
 * one line a command:
 *     bench SECONDS   {"cpu_ms": [...], "wall_ms": [...]}, an inference each, at least 4
 *     eval FILE       {}, having written the first output of every sample to FILE
 *     quit
 */
#define _GNU_SOURCE
#include <fold8.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_INPUTS = 16, MAX_TIMES = 1 << 18 };

typedef struct {
  size_t index, sample_bytes;
  fold8_tensor_info info;
  char* data;
} input;

static fold8_session* session;
static input inputs[MAX_INPUTS];
static int input_count;
static long samples;

static void fail(const char* what, const char* why) {
  fprintf(stderr, "model_bench_worker: %s: %s\n", what, why);
  exit(1);
}

static void check(fold8_status status, const char* what) {
  if (status != FOLD8_OK) fail(what, fold8_last_error());
}

static double now_ms(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* "VmRSS:" or "VmHWM:" of this process in MB. */
static double memory_mb(const char* field) {
  FILE* file = fopen("/proc/self/status", "r");
  char line[256];
  double kilobytes = 0;
  while (file != NULL && fgets(line, sizeof line, file) != NULL)
    if (strncmp(line, field, strlen(field)) == 0) kilobytes = atof(line + strlen(field));
  if (file != NULL) fclose(file);
  return kilobytes / 1024;
}

/* The peak counts from here. */
static void forget_peak(void) {
  malloc_trim(0);
  FILE* file = fopen("/proc/self/clear_refs", "w");
  if (file == NULL || fputs("5", file) < 0 || fclose(file) != 0)
    fail("/proc/self/clear_refs", "cannot be written");
}

/* NAME=FILE: the data are read before the model is loaded, so that they do not count as its memory.
 */
static void read_input(input* in, const char* file_name) {
  FILE* file = fopen(file_name, "rb");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) fail(file_name, "cannot be read");
  long bytes = ftell(file);
  if (bytes <= 0 || bytes % samples != 0)
    fail(file_name, "does not hold a whole number of samples");
  rewind(file);
  in->sample_bytes = (size_t)(bytes / samples);
  in->data = malloc((size_t)bytes);
  if (in->data == NULL || fread(in->data, 1, (size_t)bytes, file) != (size_t)bytes)
    fail(file_name, "cannot be read");
  fclose(file);
}

static void bind_input(const fold8_model* model, input* in, const char* name) {
  in->info.struct_size = sizeof in->info;
  check(fold8_model_find_input(model, name, &in->index), name);
  check(fold8_model_input_info(model, in->index, &in->info), name);
  size_t bytes = fold8_dtype_size(in->info.dtype);
  for (int axis = 0; axis < in->info.rank; ++axis) {
    if (in->info.dims[axis] < 0) fail(name, "has a dynamic extent");
    bytes *= (size_t)in->info.dims[axis];
  }
  if (bytes != in->sample_bytes) fail(name, "the file's samples are not of the model's size");
}

static void run(long sample) {
  for (int i = 0; i < input_count; ++i) {
    const input* in = &inputs[i];
    const char* data = in->data + (size_t)(sample % samples) * in->sample_bytes;
    check(fold8_session_set_input(session, in->index, in->info.dtype, in->info.rank, in->info.dims,
                                  data),
          "set_input");
  }
  check(fold8_session_run(session), "run");
}

static void print_times(const char* name, const double* times, long count) {
  printf("\"%s\": [", name);
  for (long i = 0; i < count; ++i) printf(i != 0 ? ", %.5f" : "%.5f", times[i]);
  printf("]");
}

/* Samples in turn from number `start`; returns how many inferences were timed. */
static long bench(long start, double seconds) {
  static double cpu[MAX_TIMES], wall[MAX_TIMES];
  double end = now_ms(CLOCK_MONOTONIC) + seconds * 1e3;
  long count = 0;
  run(start); /* not timed: the caches hold another process's data */
  while (count < MAX_TIMES && (now_ms(CLOCK_MONOTONIC) < end || count < 4)) {
    double cpu_begin = now_ms(CLOCK_PROCESS_CPUTIME_ID), wall_begin = now_ms(CLOCK_MONOTONIC);
    run(start + count);
    wall[count] = now_ms(CLOCK_MONOTONIC) - wall_begin;
    cpu[count++] = now_ms(CLOCK_PROCESS_CPUTIME_ID) - cpu_begin;
  }
  printf("{");
  print_times("cpu_ms", cpu, count);
  printf(", ");
  print_times("wall_ms", wall, count);
  printf("}\n");
  return count;
}

static void eval(const char* file_name) {
  FILE* file = fopen(file_name, "wb");
  if (file == NULL) fail(file_name, "cannot be written");
  for (long i = 0; i < samples; ++i) {
    run(i);
    fold8_tensor y = {.struct_size = sizeof y};
    check(fold8_session_output(session, 0, &y), "output");
    if (y.dtype != FOLD8_F32) fail("first output", "is not float32");
    if (fwrite(y.data, 1, y.bytes, file) != y.bytes) fail(file_name, "cannot be written");
  }
  if (fclose(file) != 0) fail(file_name, "cannot be written");
  printf("{}\n");
}

static void load(const char* path, char** arguments) {
  char names[MAX_INPUTS][256];
  for (int i = 0; i < input_count; ++i) {
    char* file = strchr(arguments[i], '=');
    if (file == NULL || file - arguments[i] >= 256) fail(arguments[i], "should be NAME=FILE");
    snprintf(names[i], sizeof names[i], "%.*s", (int)(file - arguments[i]), arguments[i]);
    read_input(&inputs[i], file + 1);
  }
  forget_peak();
  double rss = memory_mb("VmRSS:"), begin = now_ms(CLOCK_PROCESS_CPUTIME_ID);
  fold8_model* model;
  check(fold8_model_load(path, 0, &model), path);
  check(fold8_session_create(model, NULL, &session), path);
  double loaded = now_ms(CLOCK_PROCESS_CPUTIME_ID);
  for (int i = 0; i < input_count; ++i) bind_input(model, &inputs[i], names[i]);
  run(0);
  double first = now_ms(CLOCK_PROCESS_CPUTIME_ID);
  printf(
      "{\"target\": \"%s\", \"load_ms\": %.3f, \"first_ms\": %.3f, \"rss_mb\": %.2f, \"peak_mb\": "
      "%.2f}\n",
      fold8_model_target(model), loaded - begin, first - loaded, rss, memory_mb("VmHWM:"));
}

int main(int argc, char** argv) {
  if (argc < 4 || argc > 3 + MAX_INPUTS || (samples = atol(argv[2])) <= 0)
    fail("usage", "MODEL.f8 SAMPLES NAME=FILE...");
  input_count = argc - 3;
  load(argv[1], argv + 3);
  char line[4096];
  long start = 0;
  while (fflush(stdout) == 0 && fgets(line, sizeof line, stdin) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, "bench ", 6) == 0)
      start += bench(start, atof(line + 6));
    else if (strncmp(line, "eval ", 5) == 0)
      eval(line + 5);
    else
      break;
  }
  return 0;
}
