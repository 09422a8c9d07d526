// The record of a finished request: it feeds the metrics and the log line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/base/geometry.h"
#include "engine/base/interval.h"
#include "server/base/trace_context.h"

namespace upscaled::server {

// When the stages of a call ran; a stage's bits take turns with those of the others.
struct StageIntervals {
  Interval queue, decode, infer, encode;
  std::vector<Interval> tiles;  // of infer: when the first ones ran; a bounded number
};

// Zero or empty where a request did not get that far.
struct RequestRecord {
  std::string transport;  // "grpc" or "http"
  std::string method;     // "UpscaleImage", "UpscaleTiles", "Upscale", ...
  std::string request_id;
  std::string peer;
  std::string key;                 // the name of the caller's; empty: the server asks for none
  std::string tenant;              // whose key that is
  bool tenant_has_limits = false;  // in the key file, so that it has counters of its own
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string reason;        // name of the ErrorReason, without its prefix; empty when OK
  std::string message;       // the error's; of an internal one what the client does not get
  std::string limit;         // that was passed: a flag's name, or a constant's; empty: none
  std::string fetched_from;  // the origin that was asked for the source; empty: the client sent it
  std::string model;
  std::string device;
  Size source;
  Size result;
  int64_t source_pixels = 0;  // accepted; UpscaleTiles: summed over tiles
  int64_t result_pixels = 0;  // computed
  int64_t tiles = 0;
  int64_t spared_pixels = 0;     // source pixels of flat areas, copied instead of computed
  int64_t unchanged_pixels = 0;  // source pixels of an animation, copied from the frame before
  int64_t cost = 0;              // multiply-adds that were computed for it
  int64_t received_bytes = 0;
  int64_t sent_bytes = 0;
  TraceContext trace;
  absl::Time start;  // by the server's clock, as the intervals
  absl::Duration total;
  absl::Duration forecast;  // of the total, once the image's header is known
  absl::Duration queue;     // summed over tiles
  absl::Duration decode;
  absl::Duration infer;  // of all threads, summed over tiles
  absl::Duration encode;
  StageIntervals stages;  // of the four
};

}  // namespace upscaled::server
