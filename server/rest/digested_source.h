// A source with its bytes compared to the sender's digest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "engine/base/status_macros.h"
#include "engine/image/byte_stream.h"
#include "server/handlers/image_request.h"
#include "server/results/digest.h"

namespace upscaled::server {

// Gives the bytes of `source`. `source` must outlive it. Its end is an INVALID_ARGUMENT
// (kInvalidOption)
// if they have another digest than `claimed`.
class DigestedSource final : public ByteSource {
 public:
  DigestedSource(ByteSource& source, const std::optional<Digest>& claimed)
      : source_(source), claimed_(claimed) {}

  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) override {
    ASSIGN_OR_RETURN(const size_t count, source_.Read(dst));
    if (!claimed_.has_value() || dst.empty()) return count;
    if (count > 0) {
      hash_.Update(dst.first(count));
      return count;
    }
    RETURN_IF_ERROR(CheckClaimedDigest(claimed_, hash_.Finish()));
    claimed_.reset();
    return 0;
  }

 private:
  ByteSource& source_;
  std::optional<Digest> claimed_;  // none: nothing is left to be compared
  Sha256 hash_;
};

}  // namespace upscaled::server
