#include "client/spread/tile_message.h"

#include <bit>
#include <cstddef>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/error_details.h"

namespace upscaled::client {
namespace {

namespace v1 = ::upscale::v1;

constexpr size_t kColours = 3;

// The wire's pixels are little endian, the engine's native.
static_assert(std::endian::native == std::endian::little);

int BitsOf(SampleType type) { return static_cast<int>(8 * SampleBytes(type)); }

// The first three channels of a row, from pixels `from_bytes` large to such of `to_bytes`.
void CopyColours(const uint8_t* from, size_t from_bytes, uint8_t* to, size_t to_bytes,
                 size_t colour_bytes, int width) {
  if (from_bytes == to_bytes) {
    std::memcpy(to, from, to_bytes * static_cast<size_t>(width));
    return;
  }
  for (int x = 0; x < width; ++x, from += from_bytes, to += to_bytes) {
    std::memcpy(to, from, colour_bytes);
  }
}

}  // namespace

v1::Tile ToTile(const TileTask& task) {
  const Rect &input = task.plan->input, &part = task.plan->tile;
  const ImageView src = task.src.Crop(Shift(input, -task.src_rect.x, -task.src_rect.y));
  v1::Tile tile;
  tile.set_width_px(input.width);
  tile.set_height_px(input.height);
  tile.set_bits_per_sample(BitsOf(src.spec.type));
  tile.set_result_bits_per_sample(BitsOf(task.dst.spec.type));
  v1::TilePlace& place = *tile.mutable_place();
  place.set_image_width_px(task.plan->image.width);
  place.set_image_height_px(task.plan->image.height);
  place.set_x_px(input.x);
  place.set_y_px(input.y);
  v1::TileMargins& margins = *place.mutable_margins();
  margins.set_left_px(part.x - input.x);
  margins.set_top_px(part.y - input.y);
  margins.set_right_px(input.right() - part.right());
  margins.set_bottom_px(input.bottom() - part.bottom());

  const size_t colour_bytes = kColours * SampleBytes(src.spec.type);
  const size_t row_bytes = colour_bytes * static_cast<size_t>(input.width);
  std::string& pixels = *tile.mutable_pixels();
  pixels.resize(row_bytes * static_cast<size_t>(input.height));
  auto* row = reinterpret_cast<uint8_t*>(pixels.data());
  for (int y = 0; y < input.height; ++y, row += row_bytes) {
    CopyColours(src.row(y), src.spec.pixel_bytes(), row, colour_bytes, colour_bytes, input.width);
  }
  return tile;
}

absl::Status CopyResult(const v1::Tile& result, MutableImageView dst) {
  const size_t colour_bytes = kColours * SampleBytes(dst.spec.type);
  const size_t row_bytes = colour_bytes * static_cast<size_t>(dst.width_px());
  if (result.width_px() != dst.width_px() || result.height_px() != dst.height_px() ||
      result.bits_per_sample() != BitsOf(dst.spec.type) ||
      result.pixels().size() != row_bytes * static_cast<size_t>(dst.height_px())) {
    return WithOrigin(absl::InternalError(absl::StrCat(
                          "the server made a tile of ", result.width_px(), " x ",
                          result.height_px(), " pixels of ", result.bits_per_sample(), " bits in ",
                          result.pixels().size(), " bytes; ", dst.width_px(), " x ",
                          dst.height_px(), " of ", BitsOf(dst.spec.type), " were asked for")),
                      ErrorOrigin::kServer);
  }
  const auto* row = reinterpret_cast<const uint8_t*>(result.pixels().data());
  for (int y = 0; y < dst.height_px(); ++y, row += row_bytes) {
    CopyColours(row, colour_bytes, dst.row(y), dst.spec.pixel_bytes(), colour_bytes,
                dst.width_px());
  }
  return absl::OkStatus();
}

}  // namespace upscaled::client
