// Rows are collected into bands. Bands are encoded on up to EncodeOptions::threads threads and
// written in order. The bytes of a band depend only on its rows and on the last one above them.
#include <algorithm>
#include <chrono>
#include <deque>
#include <future>

#include <zlib.h>

#include "engine/base/int_math.h"
#include "engine/base/status_macros.h"
#include "engine/image/codec_checks.h"
#include "engine/image/codec_list.h"
#include "engine/image/memory_io.h"
#include "engine/image/png_band.h"
#include "engine/image/png_chunk.h"
#include "engine/image/png_metadata.h"

namespace upscaled {
namespace {

constexpr std::string_view kSignature = "\x89PNG\r\n\x1a\n";
constexpr std::string_view kProfileBegin("icc\0\0", 5);  // name, deflate
constexpr size_t kOverheadBytes = 16 << 10;              // everything small

int BandsAtOnce(const EncodeOptions& options, const ImageSpec& spec) {
  return std::min(options.threads, CeilDiv(spec.height_px, PngBand::RowsOf(spec)));
}

class PngEncoder final : public ImageEncoder {
 public:
  PngEncoder(const EncodeOptions& options, const ImageSpec& spec, ByteSink& sink)
      : options_(options), spec_(spec), band_rows_(PngBand::RowsOf(spec)), sink_(sink) {}

  absl::Status Start(const ImageMetadata& metadata);
  absl::Status WriteRows(ImageView rows) override;
  void AddLateMetadata(ImageMetadata late) override { late_ = PngChunksOf(late); }
  absl::Status Finish() override;

 private:
  absl::Status WriteChunk(std::string_view type, std::span<const uint8_t> data);
  absl::Status WriteHeader();
  absl::Status WriteProfile(const std::string& icc_profile);
  absl::Status AddRow(const uint8_t* samples);
  // Encodes the band of the added rows, on another thread if there may be one.
  absl::Status SubmitBand();
  // Waits for the oldest running band and writes it.
  absl::Status WriteBand();
  absl::Status WriteEnd();

  const EncodeOptions options_;
  const ImageSpec spec_;
  const int band_rows_;
  ByteSink& sink_;
  std::vector<PngChunk> late_;  // to follow the pixels
  absl::Status status_;         // the first error
  int next_row_ = 0;
  uint32_t adler_ = 1;  // checksum of the bands that were written
  std::vector<std::unique_ptr<PngBand>> bands_;
  size_t filled_ = 0;  // bands_[filled_] takes rows
  struct Running {
    PngBand* band;
    std::future<void> done;
  };
  std::deque<Running> running_;  // oldest first; last, so that its threads end before the bands go
};

absl::Status PngEncoder::WriteChunk(std::string_view type, std::span<const uint8_t> data) {
  std::vector<uint8_t> chunk(kPngChunkHeadBytes);
  chunk.reserve(kPngChunkHeadBytes + data.size() + kPngChunkTailBytes);
  chunk.insert(chunk.end(), data.begin(), data.end());
  FinishPngChunk(type, chunk);
  return sink_.Write(chunk);
}

absl::Status PngEncoder::WriteHeader() {
  constexpr uint8_t kColorTypes[] = {0, 4, 2, 6};  // by channels
  uint8_t ihdr[13] = {};  // compression, filter and interlace methods are 0
  StoreBe32(spec_.width_px, ihdr);
  StoreBe32(spec_.height_px, ihdr + 4);
  ihdr[8] = static_cast<uint8_t>(8 * SampleBytes(spec_.type));
  ihdr[9] = kColorTypes[spec_.channels - 1];
  RETURN_IF_ERROR(sink_.Write(AsBytes(kSignature)));
  return WriteChunk("IHDR", ihdr);
}

absl::Status PngEncoder::WriteProfile(const std::string& icc_profile) {
  uLongf deflated_bytes = compressBound(icc_profile.size());
  std::vector<uint8_t> data(kProfileBegin.size() + deflated_bytes);
  std::copy(kProfileBegin.begin(), kProfileBegin.end(), data.begin());
  if (compress(&data[kProfileBegin.size()], &deflated_bytes, AsBytes(icc_profile).data(),
               icc_profile.size()) != Z_OK)
    return absl::ResourceExhaustedError("PNG: no memory for zlib");
  data.resize(kProfileBegin.size() + deflated_bytes);
  return WriteChunk("iCCP", data);
}

absl::Status PngEncoder::Start(const ImageMetadata& metadata) {
  for (int i = 0; i < BandsAtOnce(options_, spec_); ++i) {
    ASSIGN_OR_RETURN(bands_.emplace_back(), PngBand::Create(spec_, options_.compression));
  }
  bands_[0]->Begin(nullptr);
  RETURN_IF_ERROR(WriteHeader());
  if (!metadata.icc_profile.empty()) RETURN_IF_ERROR(WriteProfile(metadata.icc_profile));
  for (const PngChunk& chunk : PngChunksOf(metadata))
    RETURN_IF_ERROR(WriteChunk(chunk.type, AsBytes(chunk.data)));
  return absl::OkStatus();
}

absl::Status PngEncoder::WriteRows(ImageView rows) {
  RETURN_IF_ERROR(CheckRows(spec_, next_row_, rows.spec));
  for (int y = 0; y < rows.height_px() && status_.ok(); ++y) status_ = AddRow(rows.row(y));
  return status_;
}

absl::Status PngEncoder::AddRow(const uint8_t* samples) {
  PngBand& band = *bands_[filled_];
  band.AddRow(samples);
  ++next_row_;
  if (band.row_count() < band_rows_ && next_row_ < spec_.height_px) return absl::OkStatus();
  RETURN_IF_ERROR(SubmitBand());
  if (next_row_ == spec_.height_px) return absl::OkStatus();
  filled_ = (filled_ + 1) % bands_.size();
  if (running_.size() == bands_.size()) RETURN_IF_ERROR(WriteBand());
  bands_[filled_]->Begin(&band);
  return absl::OkStatus();
}

absl::Status PngEncoder::SubmitBand() {
  PngBand* band = bands_[filled_].get();
  const bool last = next_row_ == spec_.height_px;
  // Without a thread to be had, it is encoded where it is waited for.
  const auto policy =
      bands_.size() > 1 ? std::launch::async | std::launch::deferred : std::launch::deferred;
  running_.push_back({band, std::async(policy, [band, last] { band->Encode(last); })});
  while (!running_.empty() &&
         running_.front().done.wait_for(std::chrono::seconds(0)) == std::future_status::ready)
    RETURN_IF_ERROR(WriteBand());
  return absl::OkStatus();
}

absl::Status PngEncoder::WriteBand() {
  const PngBand& band = *running_.front().band;
  running_.front().done.get();
  running_.pop_front();
  adler_ = static_cast<uint32_t>(
      adler32_combine(adler_, band.adler(), static_cast<z_off_t>(band.filtered_bytes())));
  return sink_.Write(band.chunk());
}

absl::Status PngEncoder::Finish() {
  RETURN_IF_ERROR(CheckAllWritten(spec_, next_row_));
  while (!running_.empty() && status_.ok()) status_ = WriteBand();
  if (status_.ok()) status_ = WriteEnd();
  return status_;
}

absl::Status PngEncoder::WriteEnd() {
  uint8_t adler[4];
  StoreBe32(adler_, adler);
  RETURN_IF_ERROR(WriteChunk("IDAT", adler));
  for (const PngChunk& chunk : late_) RETURN_IF_ERROR(WriteChunk(chunk.type, AsBytes(chunk.data)));
  return WriteChunk("IEND", {});
}

}  // namespace

size_t PngEncoderBytes(const EncodeOptions& options, const ImageSpec& spec) {
  return kOverheadBytes + BandsAtOnce(options, spec) * PngBand::BytesOf(spec);
}

absl::StatusOr<std::unique_ptr<ImageEncoder>> CreatePngEncoder(const EncodeOptions& options,
                                                               const ImageSpec& spec,
                                                               const ImageMetadata& metadata,
                                                               ByteSink& sink,
                                                               const Cancellation*) {
  auto encoder = std::make_unique<PngEncoder>(options, spec, sink);
  RETURN_IF_ERROR(encoder->Start(metadata));
  return encoder;
}

}  // namespace upscaled
