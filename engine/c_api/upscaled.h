/* The engine of upscaled as a C library: open a model, ask for the size, work and memory of a
 * result, upscale.
 *
 * Link with -lupscaled; pkg-config and find_package() know it as "upscaled". The bytes of a result
 * are those of the service's PNG, for the same model, noise level and size.
 *
 * Thread safety: all functions may be called from any thread. A model may run several images at a
 * time; they share its threads. ABI: functions keep their meaning within libupscaled.so.1.
 * Structures grow at their end only, and say their size. Errors: functions that return int return
 * UPSCALED_OK, or a code of gRPC's list; upscaled_error() then has the text. */
#ifndef UPSCALED_H
#define UPSCALED_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  UPSCALED_OK = 0,
  UPSCALED_CANCELLED = 1,          /* a callback asked for the end */
  UPSCALED_INVALID_ARGUMENT = 3,   /* the text names value and limit */
  UPSCALED_NOT_FOUND = 5,          /* no such folder, model or device; the text lists the names */
  UPSCALED_RESOURCE_EXHAUSTED = 8, /* out of memory */
  UPSCALED_FAILED_PRECONDITION = 9,
  UPSCALED_UNIMPLEMENTED = 12, /* the device cannot run this network */
  UPSCALED_INTERNAL = 13,
  UPSCALED_UNAVAILABLE = 14 /* the device is not there */
};

/* The version of the library, "0.1.0". */
const char* upscaled_version(void);

/* Text of the last error of the calling thread, until its next call; "" after a success. */
const char* upscaled_error(void);

/* Calls `found` once per device, the best first, with texts that live until it returns. */
int upscaled_list_devices(void (*found)(void* user, const char* name, const char* description),
                          void* user);

typedef struct {
  size_t struct_bytes;      /* sizeof(upscaled_model_options) */
  const char* model_folder; /* with a folder for each model; null: the installed ones */
  const char* device;       /* a name of upscaled_list_devices; null: "auto" */
  int threads;              /* of the CPU; 0: one per core that the machine offers */
  int fast;                 /* 0: fp32; 1: the 16-bit arithmetic of --precision fast */
} upscaled_model_options;

typedef struct upscaled_model upscaled_model;

/* Opens a model by its name, for which null is "general-2x". `options` may be null. Weights are
 * read when a result needs them. */
int upscaled_open_model(const char* name, const upscaled_model_options* options,
                        upscaled_model** model);

/* Must not be called while the model runs. Null does nothing. */
void upscaled_close_model(upscaled_model* model);

/* Samples are interleaved: 1 gray, 2 gray and alpha, 3 RGB, 4 RGBA; not premultiplied, sRGB. */
typedef struct {
  int width_px, height_px;
  int channels; /* 1 to 4 */
  int bits;     /* of a sample: 8, or 16 in the machine's byte order */
} upscaled_image;

typedef struct {
  size_t struct_bytes; /* sizeof(upscaled_request) */
  double scale;        /* above 0 to 16; 0: by width and height, or else the model's own */
  int width_px;        /* alone, or the height alone: the other side keeps the proportions; with */
  int height_px;       /* both, the result lies within them */
  int noise_level;     /* -1: remove none; 0 weak to 3 strong, where the model has it */
  int tta;             /* 1: mean of eight flips and turns, eight times the work */
  /* May be null. Called with parts done, of all of them; any thread. Not 0 ends the run with
   * UPSCALED_CANCELLED. */
  int (*progress)(void* user, int64_t done, int64_t total);
  void* user; /* of the callbacks */
} upscaled_request;

/* The defaults: the model's own scale, no noise removed. */
#define UPSCALED_REQUEST_INIT \
  { sizeof(upscaled_request), 0, 0, 0, -1, 0, 0, 0 }

typedef struct {
  size_t struct_bytes;   /* sizeof(upscaled_plan_result), set by the caller */
  upscaled_image result; /* channels and bits are the source's */
  int64_t multiply_adds; /* work of the networks */
  int64_t memory_bytes;  /* bound on memory for the image, beside the buffers of the caller and the
                            model's own */
} upscaled_plan_result;

/* Plans the result of upscaled_run for an image of this size. Reads no pixels. */
int upscaled_plan(upscaled_model* model, const upscaled_image* source,
                  const upscaled_request* request, upscaled_plan_result* plan);

/* Upscales a buffer into one of the planned result's size. Strides are in bytes from row to row. */
int upscaled_run(upscaled_model* model, const upscaled_image* source,
                 const upscaled_request* request, const void* pixels, size_t stride_bytes,
                 void* result, size_t result_stride_bytes);

/* Upscales rows: memory grows with the width only. Both callbacks run on the calling thread, top
 * row first; `read` fills one row of the source, `write` takes one of the result. Not 0 ends the
 * run with UPSCALED_CANCELLED. */
int upscaled_run_rows(upscaled_model* model, const upscaled_image* source,
                      const upscaled_request* request, int (*read)(void* user, void* row),
                      int (*write)(void* user, const void* row));

#ifdef __cplusplus
}
#endif

#endif
