#include "server/devices/device_executable.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/geometry.h"
#include "engine/base/status_macros.h"

namespace upscaled::server {
namespace {

absl::StatusOr<std::vector<std::shared_ptr<const Executable>>> LoadAll(
    ModelCache& models, std::span<const ModelPass> passes, Precision precision,
    Cancellation* cancellation) {
  std::vector<std::shared_ptr<const Executable>> loaded;
  for (const ModelPass& pass : passes) {
    ASSIGN_OR_RETURN(loaded.emplace_back(),
                     models.Get(*pass.model, *pass.variant, precision, cancellation));
  }
  return loaded;
}

}  // namespace

DeviceExecutable::DeviceExecutable(std::vector<Part> parts) : parts_(std::move(parts)) {
  UPSCALED_CHECK(!parts_.empty());
}

const DeviceExecutable::Part* DeviceExecutable::PartOn(const Device& device) const {
  const auto part = std::find_if(parts_.begin(), parts_.end(), [&](const Part& candidate) {
    return candidate.device.get() == &device;
  });
  return part == parts_.end() ? nullptr : &*part;
}

const DeviceExecutable::Part& DeviceExecutable::PartOf(int device_class) const {
  const auto part = std::ranges::find_if(parts_, [&](const Part& candidate) {
    return candidate.device->device_class() == device_class;
  });
  UPSCALED_CHECK(part != parts_.end());
  return *part;
}

TileTask DeviceExecutable::TaskFor(const Device& device, TileTask task) const {
  const Executable* const executable = On(device);
  if (task.plan->maker == executable) return task;
  task.plan = std::make_shared<const TilePlan>(executable->Plan(task.plan->tile, task.plan->image));
  return task;
}

size_t DeviceExecutable::ScratchBytes(Size tile) const {
  size_t bytes = 0;
  for (const Part& part : parts_) {
    const Executable& executable = *part.executable;
    const size_t stream = std::max(executable.HostWorkspaceBytes(tile),
                                   executable.HostWorkspaceBytes({tile.height, tile.width}));
    bytes += stream * static_cast<size_t>(part.device->stream_count());
  }
  return bytes;
}

TilePlan DeviceExecutable::MakePlan(const Rect& tile, Size image) const {
  TilePlan plan = first().Plan(tile, image);
  for (const Part& part : parts().subspan(1)) {
    plan.input = Cover(plan.input, part.executable->Plan(tile, image).input);
  }
  return plan;
}

size_t DeviceExecutable::WorkspaceBytes(Size tile) const {
  size_t bytes = 0;
  for (const Part& part : parts_) bytes = std::max(bytes, part.executable->WorkspaceBytes(tile));
  return bytes;
}

size_t DeviceExecutable::WeightBytes() const {
  size_t bytes = 0;
  for (const Part& part : parts_) bytes += part.executable->WeightBytes();
  return bytes;
}

absl::StatusOr<DeviceExecutables> LoadOnDevices(
    const DeviceList& devices, std::span<const ModelPass> passes, Precision precision,
    Cancellation* cancellation, const std::function<void(Device&, const absl::Status&)>& on_fault) {
  std::vector<std::vector<DeviceExecutable::Part>> parts(passes.size());  // for each pass
  absl::Status refusal;
  for (const std::shared_ptr<Device>& device : devices) {
    auto loaded = LoadAll(device->models(), passes, precision, cancellation);
    // Its reason may be evidence against a device otherwise.
    if (cancellation != nullptr) RETURN_IF_ERROR(cancellation->status());
    if (!loaded.ok()) {
      refusal.Update(loaded.status());
      if (IsLoadFault(loaded.status())) on_fault(*device, loaded.status());
      continue;
    }
    for (size_t i = 0; i < passes.size(); ++i) {
      parts[i].push_back({device, (*loaded)[i]});
    }
  }
  DeviceExecutables executables;
  for (std::vector<DeviceExecutable::Part>& of_pass : parts) {
    if (of_pass.empty()) return refusal;
    executables.push_back(std::make_shared<DeviceExecutable>(std::move(of_pass)));
  }
  return executables;
}

}  // namespace upscaled::server
