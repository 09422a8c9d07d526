// A film's frames through a server, several at a time, in order.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/image_io.h"
#include "client/service.h"
#include "client/video/frame_stream.h"

namespace upscaled::client {

struct FilmOptions {
  v1::UpscaleOptions upscale;
  FrameReaderOptions reader;
  // Frames between reading and writing, at most: the memory of a film is these frames, their
  // results and the calls' own.
  int frames_ahead = 32;
  int64_t resume_at = 0;  // frames at the beginning that are read and left out
  // Blocks within this many levels of 255 of the frame before count as unchanged (HoldNoise); 0:
  // only equal pixels do. For kY4m, kRawYuv and kRawRgb.
  int hold_noise = 0;
};

struct FilmProgress {
  int64_t written = 0;
  int64_t bytes = 0;  // of the sink, up to the end of the last frame
  // Frames among them equal to the one before: its result was written again.
  int64_t repeated = 0;
  // Source pixels of all written frames, and those left out of computation, since they did not
  // change. The latter are counted with the first frame of several in one call.
  int64_t source_px = 0, unchanged_px = 0;
};

// Reads frames from `source`, has the service upscale each, and writes the results to `sink` in
// order and in the source's kind. Frames with few changes go to the service together, as an
// animation: only the changed parts are computed. Whole frames are written, and none after the
// first failed one. `on_progress` is called after each frame. Errors name the frame; CANCELLED when
// `stop` was requested. `progress` is the written part, after an error, too.
absl::Status UpscaleFilm(Service& service, const FilmOptions& options, ImageSource& source,
                         ImageSink& sink, std::function<void(const FilmProgress&)> on_progress,
                         FilmProgress& progress, std::stop_token stop);

}  // namespace upscaled::client
