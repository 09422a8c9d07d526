// The form of a result: its encoding and its samples, by the options and the source.
#pragma once

#include "absl/status/statusor.h"
#include "engine/image/codec.h"
#include "server/options/request_options.h"

namespace upscaled::server {

// Returns the asked encoding, with the source's format if the request names none and the format is
// written. The caller sets its threads.
EncodeOptions EncodingFor(const RequestOptions& options, const ImageHeader& source);

// Returns the type of the samples of a result of `size`. INVALID_ARGUMENT (kInvalidOption) if
// `format` cannot hold such an image.
absl::StatusOr<SampleType> SampleTypeFor(const RequestOptions& options, ImageFormat format,
                                         const ImageSpec& source, Size size);

// Appends a warning if the request names no format and the source's is not written, and for each
// option of another format.
void WarnOfFormat(const RequestOptions& options, ImageFormat format, ImageFormat source,
                  std::vector<std::string>& warnings);

}  // namespace upscaled::server
