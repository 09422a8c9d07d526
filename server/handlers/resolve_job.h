// A request resolved for one source: its options after sizes, formats and networks are known.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/image/codec.h"
#include "server/handlers/handler_environment.h"
#include "server/models/model_chain.h"
#include "server/options/request_options.h"

namespace upscaled::server {

struct ResolvedJob {
  Rect part;  // of the source, which the result shows
  Size result;
  int frame = 1;                // of the source, from 1; 0: all of them, encode.animation
  bool frame_is_asked = false;  // of a source with more: no warning tells of the others
  EncodeOptions encode;
  SampleType sample_type = SampleType::kU8;
  int noise_level = kNoDenoise;   // of the request, or chosen by the source
  std::vector<ModelPass> passes;  // of the chain's models; empty: no network runs
  Precision precision = Precision::kExact;
  bool keep_colours = false;         // false, too, if no network runs
  std::optional<AlphaMethod> alpha;  // no value if the source has no alpha, or no network runs
  std::optional<AlphaColour> alpha_colour;  // no value if the source has no alpha
  std::vector<std::string> warnings;        // of what was asked for
};

// The consequences of the source's header, checked against the limits; reserves and loads nothing.
// INVALID_ARGUMENT with the client's reason.
absl::StatusOr<ResolvedJob> ResolveJob(const HandlerEnvironment& environment,
                                       const RequestOptions& options, const ModelChain& models,
                                       const ImageHeader& source);

// The least bytes of the result of a source of `source_bytes`: its pixels if they are not
// compressed, otherwise a small share of the source's bytes for as many pixels.
int64_t LeastResultBytes(const ImageSpec& source, int64_t source_bytes, const ResolvedJob& job);

// INVALID_ARGUMENT (kLimitExceeded) for a result of more than `max_bytes` in a unary call; of at
// least `least_bytes`, if known.
absl::Status ResultTooLong(int64_t max_bytes, int64_t least_bytes = 0);

}  // namespace upscaled::server
