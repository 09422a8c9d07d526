#include "client/spread/remote_network.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/error_details.h"
#include "client/spread/tile_message.h"
#include "engine/base/status_macros.h"

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
