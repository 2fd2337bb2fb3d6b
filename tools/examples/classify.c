/* Two threads, one model: prints the class of an image.
 * usage: classify MODEL.f8 [IMAGE.f32]    IMAGE: the input's floats, row-major; without it a
 * generated pattern */
#include <fold8.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static fold8_model* model;
static const char* image_path;

static void check(fold8_status status) {
  if (status == FOLD8_OK) return;
  fprintf(stderr, "fold8: %s\n", fold8_last_error());
  exit(1);
}

static float* read_image(size_t count) {
  float* x = malloc(count * sizeof(float));
  FILE* file = image_path != NULL ? fopen(image_path, "rb") : NULL;
  if (image_path != NULL && (file == NULL || fread(x, sizeof(float), count, file) != count)) {
    fprintf(stderr, "%s does not hold %zu floats\n", image_path, count);
    exit(1);
  }
  if (file != NULL)
    fclose(file);
  else
    for (size_t i = 0; i < count; ++i) x[i] = (float)(i % 17) / 17.0f;
  return x;
}

static void* classify(void* best) {
  fold8_session* session;
  check(fold8_session_create(model, NULL, &session));
  fold8_tensor_info in = {.struct_size = sizeof in};
  check(fold8_model_input_info(model, 0, &in));
  size_t count = 1;
  for (int a = 0; a < in.rank; ++a) {
    if (in.dims[a] < 0) in.dims[a] = 1; /* a dynamic batch: one image */
    count *= (size_t)in.dims[a];
  }
  float* image = read_image(count);
  check(fold8_session_set_input(session, 0, FOLD8_F32, in.rank, in.dims, image));
  check(fold8_session_run(session));
  fold8_tensor out = {.struct_size = sizeof out};
  check(fold8_session_output(session, 0, &out));
  const float* scores = out.data;
  size_t argmax = 0;
  for (size_t i = 1; i < out.bytes / sizeof(float); ++i)
    if (scores[i] > scores[argmax]) argmax = i;
  *(size_t*)best = argmax;
  fold8_session_release(session);
  free(image);
  return NULL;
}

int main(int argc, char** argv) {
  if (argc < 2) return fprintf(stderr, "usage: %s MODEL.f8 [IMAGE.f32]\n", argv[0]), 2;
  if (argc > 2) image_path = argv[2];
  check(fold8_model_load(argv[1], 0, &model));
  pthread_t threads[2];
  size_t best[2];
  for (int t = 0; t < 2; ++t) pthread_create(&threads[t], NULL, classify, &best[t]);
  for (int t = 0; t < 2; ++t) pthread_join(threads[t], NULL);
  printf("class %zu\n", best[0]);
  fold8_model_release(model);
  return best[0] == best[1] ? 0 : 1;
}
