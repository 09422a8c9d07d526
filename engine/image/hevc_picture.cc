#include "engine/image/hevc_picture.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include <libde265/de265.h>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/heif_boxes.h"

namespace upscaled {
namespace {

struct FreeDe265 {
  void operator()(de265_decoder_context* decoder) const { de265_free_decoder(decoder); }
};
using De265 = std::unique_ptr<de265_decoder_context, FreeDe265>;

absl::Status De265Fault(de265_error error) {
  if (error == DE265_ERROR_OUT_OF_MEMORY) return absl::ResourceExhaustedError("HEIC: no memory");
  return HeicFault(
      absl::StrCat("the data are corrupt or truncated (", de265_get_error_text(error), ")"));
}

// The size of plane `c` where the first has `size`.
Size PlaneSize(Size size, int chroma, int c) {
  if (c > 0 && (chroma == 1 || chroma == 2)) size.width = (size.width + 1) / 2;
  if (c > 0 && chroma == 1) size.height = (size.height + 1) / 2;
  return size;
}

int PlaneCount(int chroma) { return chroma == 0 ? 1 : 3; }

// Gives the decoder one unit, if it belongs to the picture.
absl::Status PushUnit(de265_decoder_context* decoder, std::span<const uint8_t> nal) {
  if (HevcNalLayer(nal) > 0) return absl::OkStatus();
  const de265_error error =
      de265_push_NAL(decoder, nal.data(), static_cast<int>(nal.size()), 0, nullptr);
  return de265_isOK(error) != 0 ? absl::OkStatus() : De265Fault(error);
}

absl::Status PushUnits(const HevcConfiguration& configuration, std::span<const uint8_t> data,
                       de265_decoder_context* decoder) {
  for (const std::span<const uint8_t> set : configuration.parameter_sets)
    RETURN_IF_ERROR(PushUnit(decoder, set));
  constexpr int kFirstOtherType = 32;  // those below are of slices
  int pictures = 0;
  BoxReader reader(data);
  while (!reader.at_end()) {
    const std::span<const uint8_t> nal = reader.TakeBytes(reader.Take(configuration.length_bytes));
    if (!reader.ok()) return HeicFault("the data of a picture are cut short");
    if (nal.size() < 3) continue;
    const bool begins_picture =
        HevcNalType(nal) < kFirstOtherType && HevcNalLayer(nal) == 0 && (nal[2] & 0x80) != 0;
    if (begins_picture && ++pictures > 1) return HeicFault("one item holds several pictures");
    if (HevcNalType(nal) == kHevcSequenceNal && HevcNalLayer(nal) == 0) {
      ASSIGN_OR_RETURN(const HevcSequence sequence, ParseHevcSequence(nal));
      if (sequence != configuration.sequence)
        return HeicFault("a picture has another size or depth than its parameters say");
    }
    RETURN_IF_ERROR(PushUnit(decoder, nal));
  }
  const de265_error error = de265_flush_data(decoder);
  return de265_isOK(error) != 0 ? absl::OkStatus() : De265Fault(error);
}

// The picture, once all of it is decoded; it is the decoder's.
absl::StatusOr<const de265_image*> NextPicture(de265_decoder_context* decoder) {
  for (int more = 1; more != 0;) {
    const de265_error error = de265_decode(decoder, &more);
    // There is more to do while a picture waits to be taken.
    if (const de265_image* const picture = de265_get_next_picture(decoder); picture != nullptr)
      return picture;
    if (de265_isOK(error) == 0) return De265Fault(error);
  }
  return HeicFault("the data hold no picture");
}

// Remarks about damage, and not about speed or side information.
std::string TakeRemarks(de265_decoder_context* decoder) {
  std::string remarks;
  while (true) {
    const de265_error warning = de265_get_warning(decoder);
    if (warning == DE265_OK) return remarks;
    const bool is_harmless = warning == DE265_WARNING_NO_WPP_CANNOT_USE_MULTITHREADING ||
                             warning == DE265_WARNING_INCORRECT_ENTRY_POINT_OFFSET ||
                             warning == DE265_WARNING_SPS_MISSING_CANNOT_DECODE_SEI;
    if (!is_harmless && remarks.empty()) remarks = de265_get_error_text(warning);
  }
}

absl::Status CheckPicture(const de265_image* picture, const HevcSequence& sequence) {
  bool is_as_stated = de265_get_chroma_format(picture) == sequence.chroma;
  for (int c = 0; is_as_stated && c < PlaneCount(sequence.chroma); ++c)
    is_as_stated = Size{de265_get_image_width(picture, c), de265_get_image_height(picture, c)} ==
                       PlaneSize(sequence.shown, sequence.chroma, c) &&
                   de265_get_bits_per_pixel(picture, c) == sequence.bits;
  return is_as_stated ? absl::OkStatus()
                      : HeicFault("a picture has another size or depth than its parameters say");
}

void PlacePicture(const de265_image* picture, int x, int y, HevcPlanes& planes) {
  const size_t sample_bytes = planes.bits > 8 ? 2 : 1;
  for (int c = 0; c < PlaneCount(planes.chroma); ++c) {
    int stride = 0;
    const uint8_t* src = de265_get_image_plane(picture, c, &stride);
    const Size whole = PlaneSize(planes.size, planes.chroma, c);
    const Size place = PlaneSize({x, y}, planes.chroma, c);
    const int width = std::min(de265_get_image_width(picture, c), whole.width - place.width);
    const int height = std::min(de265_get_image_height(picture, c), whole.height - place.height);
    HevcPlanes::Plane& plane = planes.planes[c];
    uint8_t* dst =
        plane.samples.data() + place.height * plane.row_bytes + place.width * sample_bytes;
    for (int row = 0; row < height; ++row, src += stride, dst += plane.row_bytes)
      std::memcpy(dst, src, width * sample_bytes);
  }
}

}  // namespace

HevcPlanes::HevcPlanes(Size size, const HevcSequence& sequence)
    : size(size), chroma(sequence.chroma), bits(sequence.bits) {
  for (int c = 0; c < PlaneCount(chroma); ++c) {
    const Size plane = PlaneSize(size, chroma, c);
    planes[c].row_bytes = static_cast<size_t>(plane.width) * (bits > 8 ? 2 : 1);
    planes[c].samples.resize(planes[c].row_bytes * plane.height);
  }
}

absl::StatusOr<std::string> DecodeHevcPicture(const HevcConfiguration& configuration,
                                              std::span<const uint8_t> data, int x, int y,
                                              HevcPlanes& planes) {
  const De265 decoder(de265_new_decoder());
  if (decoder == nullptr) return absl::ResourceExhaustedError("HEIC: no memory");
  de265_set_parameter_bool(decoder.get(), DE265_DECODER_PARAM_BOOL_SEI_CHECK_HASH, 1);
  RETURN_IF_ERROR(PushUnits(configuration, data, decoder.get()));
  ASSIGN_OR_RETURN(const de265_image* const picture, NextPicture(decoder.get()));
  RETURN_IF_ERROR(CheckPicture(picture, configuration.sequence));
  PlacePicture(picture, x, y, planes);
  planes.colours = {static_cast<uint16_t>(de265_get_image_colour_primaries(picture)),
                    static_cast<uint16_t>(de265_get_image_transfer_characteristics(picture)),
                    static_cast<uint16_t>(de265_get_image_matrix_coefficients(picture)),
                    de265_get_image_full_range_flag(picture) != 0};
  return TakeRemarks(decoder.get());
}

}  // namespace upscaled
