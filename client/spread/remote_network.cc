#include "client/spread/remote_network.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/error_details.h"
#include "engine/base/status_macros.h"
#include "engine/image/image.h"

namespace upscaled::client {
namespace {

// A call's own time is little compared to its pixels', and a lost tile is little compared to the
// image.
constexpr int kTilePx = 512;
constexpr int kMinTilePx = 32;
// The bytes of a pixel between two passes.
constexpr int64_t kMaxPixelBytes = 3 * sizeof(float);
// The bytes of a message in addition to its pixels.
constexpr int64_t kMessageOverheadBytes = 4096;

int64_t SideOf(int64_t pixels) {
  return static_cast<int64_t>(std::sqrt(static_cast<double>(std::max<int64_t>(pixels, 0))));
}

// --- Tiles as messages ---

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

// With its place in the image; the colours only.
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

// The colours of `dst`. Its alpha stays. INTERNAL, of the server, unless sizes and samples are
// those of `dst`.
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

}  // namespace

absl::StatusOr<std::shared_ptr<const RemoteNetwork>> RemoteNetwork::Open(
    UpscaleClient& client, v1::UpscaleTilesStart start, int64_t max_tile_pixels,
    int64_t max_message_bytes, std::stop_token stop) {
  ASSIGN_OR_RETURN(const v1::UpscaleTilesHeader header, client.DescribeTiles(start, stop));
  const int64_t max_result_px =
      SideOf((max_message_bytes - kMessageOverheadBytes) / kMaxPixelBytes);
  const int64_t tile_px =
      std::min<int64_t>({kTilePx, SideOf(max_tile_pixels) - 2 * int64_t{header.reach_px()},
                         max_result_px / std::max(start.scale(), 1)});
  if (tile_px < kMinTilePx) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the server takes tiles of ", max_tile_pixels, " pixels, the client messages of ",
        max_message_bytes, " bytes; of model ", start.model(), ", ", header.reach_px(),
        " px around a part count, which leaves less than ", kMinTilePx));
  }
  start.set_computation(header.computation());
  return std::shared_ptr<const RemoteNetwork>(
      new RemoteNetwork(std::move(start), header, static_cast<int>(tile_px)));
}

RemoteNetwork::RemoteNetwork(v1::UpscaleTilesStart start, const v1::UpscaleTilesHeader& header,
                             int tile_px)
    : start_(std::move(start)),
      reach_px_(header.reach_px()),
      whole_px_(header.whole_px()),
      tile_px_(tile_px) {
  network_.name = start_.model();
  network_.scale = start_.scale();
}

Precision RemoteNetwork::precision() const {
  return start_.precision() == v1::PRECISION_FAST ? Precision::kFast : Precision::kExact;
}

TilePlan RemoteNetwork::MakePlan(const Rect& tile, Size image) const {
  TilePlan plan{.tile = tile, .image = image};
  const Rect all{0, 0, image.width, image.height};
  const bool sees_all = std::max(image.width, image.height) <= whole_px_;
  plan.input = sees_all ? all : Intersect(Expand(tile, reach_px_), all);
  plan.pass_costs = {plan.input.Area()};
  return plan;
}

absl::Status RemoteStream::Run(const Executable& executable, std::span<const TileTask> tiles) {
  const auto& network = static_cast<const RemoteNetwork&>(executable);
  for (const TileTask& task : tiles) {
    RETURN_IF_ERROR(CheckTileTask(executable, task));
    const v1::Tile tile = ToTile(task);
    absl::Status outcome;
    const auto on_answer = [&](const v1::UpscaleTilesResponse& answer) {
      outcome =
          answer.has_error() ? FromTileError(answer.error()) : CopyResult(answer.tile(), task.dst);
    };
    RETURN_IF_ERROR(
        client_.UpscaleTiles(network.start(), std::span(&tile, 1), on_answer, stop_, deadline_));
    RETURN_IF_ERROR(outcome);
  }
  return absl::OkStatus();
}

}  // namespace upscaled::client
