// Checks of all codecs. Private to engine/image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "engine/image/codec.h"

namespace upscaled {

// The error for an image beyond `limit`, see DecodeLimits::explain.
absl::Status BeyondLimit(const DecodeLimits& limits, DecodeLimit limit, int64_t value,
                         std::string sentence);

// An image of `width` x `height` against the limits on sides and pixels.
absl::Status CheckImageSize(const char* format, int64_t width, int64_t height,
                            const DecodeLimits& limits);

// `end` bytes of the file come before the pixels, as far as is known.
absl::Status CheckMetadataBytes(const char* format, size_t end, const DecodeLimits& limits);

// Bound on the memory for the first `end` bytes of a file during the search for its header: the
// buffer is at most doubled, and copied as it grows.
constexpr size_t HeaderBufferBytes(size_t end) { return (16 << 10) + 3 * end; }

// INTERNAL unless `rows` are rows of `spec` (its height aside) and `next_row` + their height is
// within it: the demands of RowSource::ReadRows and ImageEncoder::WriteRows on their callers.
absl::Status CheckRows(const ImageSpec& spec, int next_row, const ImageSpec& rows);

// FAILED_PRECONDITION unless every row of `spec` was written.
absl::Status CheckAllWritten(const ImageSpec& spec, int rows_written);

}  // namespace upscaled
