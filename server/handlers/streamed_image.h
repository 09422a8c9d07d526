// A large image, computed as it arrives: its name is known only at its end.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/handlers/image_job.h"
#include "server/handlers/resolve_job.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::server {

struct StreamedImage {
  const ImageJob& job;
  ModelChain models;
  ResolvedJob resolved;
  std::vector<uint8_t> prefix;  // of the source, read from the job's input already
  std::string source_header;    // StoredResult::source_header
};

// INVALID_ARGUMENT (kInvalidOption) for a source without the digest that its job tells.
absl::Status CheckSourceDigest(const ImageJob& job, const Digest& digest);

// Runs on the calling thread. Names the result in its summary, and stores it, where the job tells
// the source's size or digest: else the rest of a source that no decoder asks for might never come.
// Ends as CheckSourceDigest, when the result has been written, and then stores nothing.
absl::StatusOr<upscale::v1::UpscaleSummary> StreamImage(const HandlerEnvironment& environment,
                                                        const CallContext& context,
                                                        StreamedImage image);

}  // namespace upscaled::server
