#include "engine/image/piece_deflater.h"

#include <algorithm>
#include <vector>

#include <zlib.h>
#ifdef UPSCALED_HAVE_ISAL
#include <isa-l.h>
#endif

#include "absl/status/status.h"
#include "engine/base/check.h"

namespace upscaled {
namespace {

constexpr int kWindowBits = 15;  // 32 KB
constexpr int kMemoryLevel = 8;

class ZlibDeflater final : public PieceDeflater {
 public:
  ~ZlibDeflater() override { deflateEnd(&stream_); }

  absl::Status Start(int level) {
    if (deflateInit2(&stream_, level, Z_DEFLATED, /*raw*/ -kWindowBits, kMemoryLevel, Z_FILTERED) ==
        Z_OK)
      return absl::OkStatus();
    return absl::ResourceExhaustedError("PNG: no memory for zlib");
  }

  size_t Deflate(std::span<const uint8_t> piece, bool last, std::span<uint8_t> deflated) override {
    deflateReset(&stream_);
    stream_.next_in = const_cast<Bytef*>(piece.data());  // zlib only reads it
    stream_.avail_in = static_cast<uInt>(piece.size());
    stream_.next_out = deflated.data();
    stream_.avail_out = static_cast<uInt>(deflated.size());
    deflate(&stream_, last ? Z_FINISH : Z_FULL_FLUSH);
    UPSCALED_CHECK(stream_.avail_in == 0 && stream_.avail_out > 0);
    return stream_.total_out;
  }

 private:
  z_stream stream_ = {};
};

#ifdef UPSCALED_HAVE_ISAL

class IsalDeflater final : public PieceDeflater {
 public:
  explicit IsalDeflater(int level)
      : level_(level), buffer_(level == 1 ? ISAL_DEF_LVL1_DEFAULT : ISAL_DEF_LVL2_DEFAULT) {}

  size_t Deflate(std::span<const uint8_t> piece, bool last, std::span<uint8_t> deflated) override {
    isal_deflate_stateless_init(&stream_);
    stream_.hist_bits = kWindowBits;  // which the call above leaves as it is
    stream_.level = level_;
    stream_.level_buf = buffer_.data();
    stream_.level_buf_size = static_cast<uint32_t>(buffer_.size());
    stream_.gzip_flag = IGZIP_DEFLATE;
    stream_.flush = last ? NO_FLUSH : FULL_FLUSH;
    stream_.end_of_stream = last;
    stream_.next_in = const_cast<uint8_t*>(piece.data());  // ISA-L only reads it
    stream_.avail_in = static_cast<uint32_t>(piece.size());
    stream_.next_out = deflated.data();
    stream_.avail_out = static_cast<uint32_t>(deflated.size());
    UPSCALED_CHECK(isal_deflate_stateless(&stream_) == COMP_OK && stream_.avail_in == 0);
    return stream_.total_out;
  }

 private:
  const int level_;
  std::vector<uint8_t> buffer_;
  isal_zstream stream_ = {};
};

#endif

}  // namespace

absl::StatusOr<std::unique_ptr<PieceDeflater>> MakePieceDeflater(int level) {
#ifdef UPSCALED_HAVE_ISAL
  if (level >= 1 && level <= 3) return std::make_unique<IsalDeflater>(std::min(level, 2));
#endif
  auto deflater = std::make_unique<ZlibDeflater>();
  if (absl::Status status = deflater->Start(level); !status.ok()) return status;
  return deflater;
}

uint32_t Crc32(std::span<const uint8_t> bytes) {
#ifdef UPSCALED_HAVE_ISAL
  return crc32_gzip_refl(0, bytes.data(), bytes.size());
#else
  return crc32_z(0, bytes.data(), bytes.size());
#endif
}

uint32_t Adler32(std::span<const uint8_t> bytes) {
#ifdef UPSCALED_HAVE_ISAL
  return isal_adler32(1, bytes.data(), bytes.size());
#else
  return adler32_z(1, bytes.data(), bytes.size());
#endif
}

}  // namespace upscaled
