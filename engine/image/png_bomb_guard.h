// Follows the chunks of a PNG file as its bytes pass by, and refuses chunks small in the file and
// large in memory. Private to engine/image.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "engine/image/codec.h"

struct z_stream_s;

namespace upscaled {

inline constexpr size_t kPngSignatureBytes = 8;
inline constexpr size_t kPngChunkHeaderBytes = 8;  // length, type
inline constexpr size_t kPngCrcBytes = 4;

class PngBombGuard {
 public:
  explicit PngBombGuard(const DecodeLimits& limits) : limits_(limits) {}
  PngBombGuard(const PngBombGuard&) = delete;
  PngBombGuard& operator=(const PngBombGuard&) = delete;

  // `bytes` come next in the file, from its signature on. `has_all_rows`: the decoder has every row
  // of the image before it looks at them. RESOURCE_EXHAUSTED, naming chunk, value and limit, when
  //   - the compressed metadata so far (iCCP, zTXt, iTXt) inflate to more than the limit together;
  //     they are inflated into a small buffer, and no further than that;
  //   - the pixels' chunks (IDAT) go on long after the last row, as libpng would inflate them all.
  absl::Status Follow(std::span<const uint8_t> bytes, bool has_all_rows = false);

  // The inflated size of the compressed metadata so far.
  size_t inflated_bytes() const { return inflated_bytes_; }

 private:
  struct EndInflate {
    void operator()(z_stream_s* stream) const;
  };

  absl::Status BeginChunk();
  absl::Status FollowData(std::span<const uint8_t> data, bool has_all_rows);
  absl::Status Inflate(std::span<const uint8_t> data);

  const DecodeLimits limits_;
  std::array<uint8_t, kPngChunkHeaderBytes> head_;
  size_t head_bytes_ = 0;                   // bytes of head_ that have passed
  size_t data_bytes_ = 0;                   // bytes of the chunk's data that are to come
  size_t skip_bytes_ = kPngSignatureBytes;  // signature or CRC that is to come after them
  std::string_view type_;                   // the chunk's, in head_
  std::string_view fields_;                 // before the chunk's deflated data, as FieldsOf says
  std::unique_ptr<z_stream_s, EndInflate> inflater_;  // null but for the deflated data of a chunk
  size_t inflated_bytes_ = 0;
  size_t surplus_bytes_ = 0;  // bytes of IDAT after the last row
};

}  // namespace upscaled
