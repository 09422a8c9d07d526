// Forms of strangers: the first two bytes say how many bytes come at a time and are asked for at a
// time. The parts must not depend on either.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "engine/image/memory_io.h"
#include "server/base/error.h"
#include "server/rest/multipart.h"

namespace upscaled::server {
namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

class PieceSource final : public ByteSource {
 public:
  PieceSource(std::string_view bytes, size_t piece_bytes)
      : source_(bytes), piece_bytes_(piece_bytes) {}
  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) override {
    Require(!dst.empty());
    return source_.Read(dst.first(std::min(dst.size(), piece_bytes_)));
  }

 private:
  MemorySource source_;
  const size_t piece_bytes_;
};

// All that the reader gives, as one text; ends with the error's message.
std::string ReadForm(std::string_view body, size_t piece_bytes, size_t read_bytes) {
  PieceSource source(body, piece_bytes);
  MultipartReader reader(source, "XX");
  std::string all;
  while (true) {
    const auto part = reader.Next();
    if (!part.ok()) {
      Require(ReasonOf(part.status()) == ErrorReason::kInvalidOption);
      return all + std::string(part.status().message());
    }
    if (!part->has_value()) return all;
    Require(!(*part)->name.empty());
    all += (*part)->name + "\n" + (*part)->file_name.value_or("none") + "\n";
    std::vector<uint8_t> bytes(read_bytes);
    while (true) {
      const auto count = reader.Read(bytes);
      if (!count.ok()) return all + std::string(count.status().message());
      if (*count == 0) break;
      Require(*count <= bytes.size());
      all.append(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(*count));
    }
  }
}

}  // namespace
}  // namespace upscaled::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace upscaled::server;  // NOLINT
  if (size < 2) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::string pieces = ReadForm(body, data[0] + 1u, data[1] + 1u);
  Require(pieces == ReadForm(body, size, MultipartReader::kBufferBytes));
  return 0;
}
