/* Upscales a PPM from standard input: cc upscale_ppm.c $(pkg-config --cflags --libs upscaled) &&
 * ./a.out < in.ppm > out.ppm */
#include <stdio.h>
#include <stdlib.h>
#include <upscaled.h>

static int show(void* user, int64_t done, int64_t total) {
  (void)user;
  fprintf(stderr, "\r%lld of %lld", (long long)done, (long long)total);
  return 0; /* anything else cancels */
}

static void fail(const char* text) {
  fprintf(stderr, "%s\n", text);
  exit(1);
}

int main(void) {
  upscaled_image source = {0, 0, 3, 8};
  if (scanf("P6 %d %d 255", &source.width_px, &source.height_px) != 2) fail("no PPM of 8 bits");
  getchar();
  size_t stride = (size_t)source.width_px * 3;
  unsigned char* pixels = malloc(stride * (size_t)source.height_px);
  if (fread(pixels, stride, (size_t)source.height_px, stdin) != (size_t)source.height_px)
    fail("the PPM is cut off");

  upscaled_model* model;
  if (upscaled_open_model("general-2x", NULL, &model)) fail(upscaled_error());
  upscaled_request request = UPSCALED_REQUEST_INIT;
  request.progress = show;
  upscaled_plan_result plan = {.struct_bytes = sizeof plan};
  if (upscaled_plan(model, &source, &request, &plan)) fail(upscaled_error());
  size_t result_stride = (size_t)plan.result.width_px * 3;
  unsigned char* result = malloc(result_stride * (size_t)plan.result.height_px);
  if (upscaled_run(model, &source, &request, pixels, stride, result, result_stride))
    fail(upscaled_error());
  upscaled_close_model(model);
  printf("P6 %d %d 255\n", plan.result.width_px, plan.result.height_px);
  fwrite(result, result_stride, (size_t)plan.result.height_px, stdout);
  return 0;
}
