/* two_threads MODEL.f8 IMAGE.f32: one model, two threads with a session each; prints the class both
 * find. */
#include <fold8.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#define MUST(call)                                        \
  do {                                                    \
    if ((call) != FOLD8_OK) {                             \
      fprintf(stderr, "fold8: %s\n", fold8_last_error()); \
      exit(1);                                            \
    }                                                     \
  } while (0)

static fold8_model* model;
static float image[1 << 20];

static void* classify(void* best) {
  fold8_session* session;
  fold8_tensor_info in = {.struct_size = sizeof in};
  fold8_tensor out = {.struct_size = sizeof out};
  MUST(fold8_session_create(model, NULL, &session));
  MUST(fold8_model_input_info(model, 0, &in));
  in.dims[0] = 1; /* one image, whatever batch the model takes */
  MUST(fold8_session_set_input(session, 0, FOLD8_F32, in.rank, in.dims, image));
  MUST(fold8_session_run(session));
  MUST(fold8_session_output(session, 0, &out));
  const float* scores = out.data;
  for (size_t i = 0; i < out.bytes / sizeof(float); ++i)
    *(size_t*)best = scores[i] > scores[*(size_t*)best] ? i : *(size_t*)best;
  fold8_session_release(session);
  return NULL;
}

int main(int argc, char** argv) {
  FILE* file = argc == 3 ? fopen(argv[2], "rb") : NULL;
  if (file == NULL || fread(image, 1, sizeof image, file) == 0)
    return fprintf(stderr, "usage: two_threads MODEL.f8 IMAGE.f32\n"), 2;
  MUST(fold8_model_load(argv[1], 0, &model));
  pthread_t thread[2];
  size_t best[2] = {0, 0};
  for (int t = 0; t < 2; ++t) pthread_create(&thread[t], NULL, classify, &best[t]);
  for (int t = 0; t < 2; ++t) pthread_join(thread[t], NULL);
  return printf("%zu\n", best[0]) < 0 || best[0] != best[1];
}
