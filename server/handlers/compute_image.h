// Computes one image: decodes, upscales and encodes it, once it is admitted.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/image/byte_stream.h"
#include "engine/image/codec.h"
#include "server/calls/call_context.h"
#include "server/handlers/handler_environment.h"
#include "server/handlers/image_request.h"
#include "server/options/request_options.h"
#include "server/results/flight.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::server {

struct ComputedImage {
  upscale::v1::UpscaleSummary summary;
  std::string arithmetic;  // of the devices
  bool mixed = false;      // a device of another arithmetic took over: the result has no name
};

// A computation as the first bytes of its image foretell it.
struct ImageVerdict {
  upscale::v1::UpscaleImageHeader header;
  ImageFormat source_format = ImageFormat::kPng;
  int64_t cost = 0;            // in multiply-adds
  int64_t memory_bytes = 0;    // that it would reserve
  absl::Duration time_to_end;  // with all that is admitted before it; zero: not known yet
};

// Whether ComputeImage would take the image for the model of `options`, decided by the same steps
// up to its first pixel. Its reservation lasts as long as the context's. Reads no more than its
// header. Errors as ComputeImage.
absl::StatusOr<ImageVerdict> JudgeImage(const HandlerEnvironment& environment,
                                        const CallContext& context, const RequestOptions& options,
                                        ByteSource& input);

// Runs on the calling thread until the result is written. Reserves the memory and the pixels of the
// image before anything else is done for it. `request` is resolved; if it has a key, the header
// names the result. `flight` measures the work and pays for it in place of the context's payer;
// null: the request is not shared. Fills in the context's record. Errors carry the client's reason.
absl::StatusOr<ComputedImage> ComputeImage(const HandlerEnvironment& environment,
                                           const CallContext& context, const ImageRequest& request,
                                           const ImageStreams& streams, Flight* flight);

}  // namespace upscaled::server
