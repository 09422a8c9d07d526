// multipart/form-data (RFC 7578) as a stream: part by part, without holding one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/image/byte_stream.h"

namespace upscaled::server {

// A part's header.
struct MultipartPart {
  std::string name;
  std::optional<std::string> file_name;  // of a file, which may be empty
  std::string content_type;              // "": not given
};

// Whether the part is an image of an upload, by its name.
inline bool IsImage(const MultipartPart& part) {
  return part.name == "image" || part.name == "file";
}

// Whether `content_type` is multipart/form-data, with any parameters.
bool IsMultipart(std::string_view content_type);

// The boundary in a Content-Type of multipart/form-data. INVALID_ARGUMENT (kInvalidOption)
// if it is missing or breaks RFC 2046 (1 to 70 characters of those allowed).
absl::StatusOr<std::string> MultipartBoundary(std::string_view content_type);

// One reader. Errors are `body`'s, and INVALID_ARGUMENT (kInvalidOption) for a body that is not
// multipart/form-data or passes a limit: headers of a part of more than 8 KiB, a body with an end
// before its last boundary.
class MultipartReader {
 public:
  // Reads ahead up to kBufferBytes. `body` must outlive it.
  static constexpr size_t kBufferBytes = size_t{64} << 10;
  MultipartReader(ByteSource& body, std::string_view boundary);

  // The next part, past the rest of this one; none: there are no more.
  absl::StatusOr<std::optional<MultipartPart>> Next();
  // Bytes of this part: fills a part of the nonempty `dst`; 0 at its end.
  absl::StatusOr<size_t> Read(std::span<uint8_t> dst);

 private:
  std::string_view unread() const {
    return {reinterpret_cast<const char*>(buffer_.data()) + begin_, end_ - begin_};
  }
  // Reads more; false: the body's end.
  absl::StatusOr<bool> Fill();
  // Bytes known to be of this part, at least 1 unless it has ended.
  absl::StatusOr<size_t> Available();
  absl::Status SkipPart();
  void Consume(size_t count);  // of this part's
  void LeavePart();            // at its delimiter, which is read
  // Reads the end of a boundary: whether another part follows.
  absl::StatusOr<bool> ReadBoundaryEnd();
  // Until `text`. `text` is read, too.
  absl::StatusOr<std::string> ReadUntil(std::string_view text, size_t max_bytes);

  ByteSource& body_;
  const std::string delimiter_;  // CRLF, "--" and the boundary
  std::vector<uint8_t> buffer_;
  size_t begin_ = 0, end_ = 0;  // what was read and not yet given
  size_t own_ = 0;              // of those, known to be this part's
  bool in_part_ = true;         // before the first boundary is the preamble, a part of no name
  bool ended_ = false;
};

}  // namespace upscaled::server
