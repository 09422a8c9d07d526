// Computes one image: decodes, upscales and encodes it, once it is admitted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/image/byte_stream.h"
#include "engine/image/codec.h"
#include "server/base/payer.h"
#include "server/base/payers.h"
#include "server/calls/call_context.h"
#include "server/handlers/handler_environment.h"
#include "server/handlers/request_options.h"
#include "server/models/model_chain.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::server {

struct ComputeJob {
  const RequestOptions& options;
  ModelChain models;
  ByteSource& input;
  ByteSink& output;
  size_t buffer_bytes = 0;  // that input and output hold beside what the call has reserved
  // The result's name, known from the arithmetic of the device (Backend::arithmetic; empty: no
  // network runs), for the header. Null: not known.
  std::function<std::string(std::string_view arithmetic)> name_for;
  // See ImageJob.
  std::function<absl::Status(const upscale::v1::UpscaleImageHeader&)> on_header;
  std::function<void(int64_t done, int64_t total)> on_progress;
  std::shared_ptr<CostMeter> meter = nullptr;  // may be null
  std::shared_ptr<Payers> payers = nullptr;    // of all who wait; null: the context's payer only
};

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
// up to its first pixel, whose reservation lasts as long as the context's; reads no more than its
// header. Errors as ComputeImage.
absl::StatusOr<ImageVerdict> JudgeImage(const HandlerEnvironment& environment,
                                        const CallContext& context, const RequestOptions& options,
                                        ByteSource& input);

// Runs on the calling thread until the result is written. Looks at the image's header, checks it
// against the limits and reserves its memory and pixels before anything else is done for it. Fills
// in the context's record. Errors carry the reason that the client gets.
absl::StatusOr<ComputedImage> ComputeImage(const HandlerEnvironment& environment,
                                           const CallContext& context, const ComputeJob& job);

}  // namespace upscaled::server
