// One command queue with its scratch memory.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/backends/backend.h"
#include "engine/backends/opencl/context.h"
#include "engine/backends/opencl/launcher.h"
#include "engine/backends/opencl/opencl_executable.h"
#include "engine/backends/opencl/pixels.h"
#include "engine/backends/opencl/tile_slots.h"

namespace upscaled::opencl {

class OpenClStream final : public Stream {
 public:
  explicit OpenClStream(std::shared_ptr<Context> context) : context_(std::move(context)) {}

  absl::Status Run(const Executable& executable, std::span<const TileTask> tiles) override;
  // By the device's clock; a layer's work-group is that of its longest command. Reading and writing
  // pixels counts for the first layer and the last.
  absl::StatusOr<std::vector<LayerProfile>> Profile(const Executable& executable,
                                                    const TileTask& task) override;

 private:
  // After a layer's work was enqueued.
  using LayerEnqueued = absl::FunctionRef<absl::Status(size_t layer)>;

  absl::Status RunTile(const OpenClExecutable& executable, const TileTask& task, Launcher& launcher,
                       LayerEnqueued layer_enqueued);
  // The pass's activation cache, with room for its tensors, if it can go on with it; otherwise
  // null.
  absl::StatusOr<CachedTile*> CacheOf(const OpenClExecutable& executable, const PoolingPass& pass,
                                      std::span<const size_t> slot_bytes, Launcher& launcher) const;
  absl::Status Load(const OpenClExecutable& executable, const TileTask& task, const Tensor& dst,
                    Launcher& launcher);
  // Enqueues layers `begin` (of layer 0 only its halo) to `end` - 1.
  absl::Status ComputeLayers(const OpenClExecutable& executable, const PoolingPass& pass,
                             const std::vector<Tensor>& tensors, size_t begin, size_t end,
                             Launcher& launcher, LayerEnqueued layer_enqueued);

  const std::shared_ptr<Context> context_;
  std::optional<Launcher> launcher_;  // made by the first run, which can report why it fails
  TileSlots slots_;
  TransferBuffer upload_, download_;
};

}  // namespace upscaled::opencl
