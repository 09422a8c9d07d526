// A request resolved for one source: its options after sizes, formats and networks are known.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/image/codec.h"
#include "server/handlers/handler_environment.h"
#include "server/handlers/request_options.h"

namespace upscaled::server {

struct ResolvedJob {
  Rect part;  // of the source, which the result shows
  Size result;
  EncodeOptions encode;
  SampleType sample_type = SampleType::kU8;
  std::vector<const ModelVariant*> passes;  // the model's; empty: no network runs
  Precision precision = Precision::kExact;
};

// All that follows from the source's header, checked against the limits; reserves and loads
// nothing. INVALID_ARGUMENT with the reason that the client gets.
absl::StatusOr<ResolvedJob> ResolveJob(const HandlerEnvironment& environment,
                                       const RequestOptions& options, const CatalogEntry& model,
                                       const ImageHeader& source);

}  // namespace upscaled::server
