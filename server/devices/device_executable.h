// A network on all devices of a request.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/backends/backend.h"
#include "engine/base/cancellation.h"
#include "engine/model/precision.h"
#include "engine/model/repository.h"
#include "server/devices/device.h"

namespace upscaled::server {

// The Executable behind a request's plan. It asks for the source pixels and the scratch memory of
// the most demanding device: a tile can move to any of them. Tiles have the first one's favourite
// size. Immutable; keeps its devices.
class DeviceExecutable final : public Executable {
 public:
  struct Part {
    std::shared_ptr<Device> device;
    std::shared_ptr<const Executable> executable;
  };
  // At least one part, the preferred one first.
  explicit DeviceExecutable(std::vector<Part> parts);

  std::span<const Part> parts() const { return parts_; }
  int device_class() const { return parts_.front().device->device_class(); }
  // Null for a device outside the parts.
  const Part* PartOn(const Device& device) const;
  // The first one of the class. It has one.
  const Part& PartOf(int device_class) const;
  const Executable* On(const Device& device) const {
    const Part* const part = PartOn(device);
    return part == nullptr ? nullptr : part->executable.get();
  }
  // `task` for Stream::Run of a device among the parts: another one than the first plans again.
  TileTask TaskFor(const Device& device, TileTask task) const;
  // Bytes of the host's memory for tiles up to this size, either way up, in all streams of all
  // devices.
  size_t ScratchBytes(Size tile) const;

  const Network& network() const override { return first().network(); }
  Precision precision() const override { return first().precision(); }
  size_t WorkspaceBytes(Size tile) const override;
  size_t WeightBytes() const override;
  Size PreferredTile() const override { return first().PreferredTile(); }
  bool ComputesWhole(Size image) const override {
    return std::ranges::any_of(
        parts_, [&](const Part& part) { return part.executable->ComputesWhole(image); });
  }
  bool ComputesTiles(Size image) const override { return first().ComputesTiles(image); }
  int MinSharePx() const override { return first().MinSharePx(); }
  // The first device's; another one with the tile does without.
  std::unique_ptr<ActivationCache> CreateActivationCache() const override {
    return first().CreateActivationCache();
  }
  size_t ActivationCacheBytes(Size tile, Size image) const override {
    return first().ActivationCacheBytes(tile, image);
  }
  // The first device's; no other can go on with its rows.
  std::unique_ptr<RowStream> CreateRowStream(Size image) const override {
    return first().CreateRowStream(image);
  }
  std::optional<RowStreamNeed> PlanRowStream(Size image) const override {
    return first().PlanRowStream(image);
  }

 private:
  // The first device's plan, with the input for all of them.
  TilePlan MakePlan(const Rect& tile, Size image) const override;
  const Executable& first() const { return *parts_.front().executable; }

  const std::vector<Part> parts_;
};

using DeviceExecutables = std::vector<std::shared_ptr<const DeviceExecutable>>;

// The networks of `passes` on those of `devices` able to run all of them, in order; loads the
// missing ones. The first device's error if all fail, or the reason why `cancellation` (may be
// null) has ended the wait for others' loads. `on_fault` is called with each failed device.
absl::StatusOr<DeviceExecutables> LoadOnDevices(
    const DeviceList& devices, std::span<const ModelPass> passes, Precision precision,
    Cancellation* cancellation, const std::function<void(Device&, const absl::Status&)>& on_fault);

}  // namespace upscaled::server
