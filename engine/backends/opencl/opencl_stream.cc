#include "engine/backends/opencl/opencl_stream.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_join.h"
#include "engine/backends/layer_profile.h"
#include "engine/backends/opencl/elementwise.h"
#include "engine/backends/opencl/pooling.h"
#include "engine/graph/pooling.h"

namespace upscaled::opencl {
namespace {

std::vector<Tensor> PlaceTensors(const OpenClExecutable& executable, const TilePlan& plan,
                                 const TileSlots& slots) {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < plan.rects.size(); ++i) {
    tensors.push_back({slots[executable.slot_of()[i]], plan.rects[i], plan.regions[i],
                       plan.layers[i], executable.network().layers[i].out_channels});
  }
  return tensors;
}

absl::Status IgnoreLayer(size_t /*layer*/) { return absl::OkStatus(); }

}  // namespace

absl::Status OpenClStream::Run(const Executable& executable, std::span<const TileTask> tiles) {
  if (!launcher_.has_value()) {
    ASSIGN_OR_RETURN(launcher_, Launcher::Create(*context_, false));
  }
  for (const TileTask& task : tiles) {
    RETURN_IF_ERROR(CheckTileTask(executable, task));
    RETURN_IF_ERROR(
        RunTile(static_cast<const OpenClExecutable&>(executable), task, *launcher_, IgnoreLayer));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<LayerProfile>> OpenClStream::Profile(const Executable& executable,
                                                                const TileTask& task) {
  RETURN_IF_ERROR(CheckTileTask(executable, task));
  const auto& compiled = static_cast<const OpenClExecutable&>(executable);
  ASSIGN_OR_RETURN(Launcher launcher, Launcher::Create(*context_, /*profile=*/true));
  const TilePlan plan = compiled.Plan(task.image, task.tile);
  std::vector<LayerProfile> layers;
  for (size_t i = 0; i < plan.regions.size(); ++i) {
    LayerProfile& layer = layers.emplace_back(
        DescribeLayer(compiled.network(), i, plan.regions, StorageBytes(compiled.precision())));
    const upscaled::KernelInfo* const kernel = compiled.kernel_infos()[i];
    layer.kernel = kernel == nullptr ? "load" : kernel->name;
  }
  const auto add_to = [&](size_t i) -> absl::Status {
    ASSIGN_OR_RETURN(const std::vector<Launcher::Command> commands, launcher.TakeCommands());
    double longest = 0;
    for (const Launcher::Command& command : commands) {
      layers[i].seconds += command.seconds;
      if (command.seconds <= longest) continue;
      longest = command.seconds;
      layers[i].work_group = absl::StrJoin(command.group, "x");
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(RunTile(compiled, task, launcher, add_to));
  const std::string group = layers.back().work_group;
  RETURN_IF_ERROR(add_to(layers.size() - 1));  // the result's pixels
  layers.back().work_group = group;
  return layers;
}

absl::Status OpenClStream::RunTile(const OpenClExecutable& executable, const TileTask& task,
                                   Launcher& launcher, LayerEnqueued layer_enqueued) {
  const TilePlan plan = executable.Plan(task.image, task.tile);
  ASSIGN_OR_RETURN(const std::vector<size_t> slot_bytes, executable.SlotBytesOf(plan));
  ASSIGN_OR_RETURN(CachedTile * kept, CacheOf(executable, task, slot_bytes, launcher));
  if (kept == nullptr) {
    RETURN_IF_ERROR(
        slots_.Reserve(*context_, launcher, executable.zero(), executable.precision(), slot_bytes));
  }
  const std::vector<Tensor> tensors = PlaceTensors(executable, plan, kept ? kept->slots : slots_);
  const std::vector<int>& poolings = executable.poolings();
  const int begin = kept ? DeviceActivationCache::FirstLayer(poolings, task) : 0;
  if (begin == 0) RETURN_IF_ERROR(Load(executable, task, tensors[0], launcher));
  if (task.sums != nullptr) {
    const int pooling = poolings[task.means.size()];
    RETURN_IF_ERROR(
        ComputeLayers(executable, task, tensors, begin, pooling, launcher, layer_enqueued));
    const Rect share = PooledShare(executable.network(), pooling, task.image, task.tile);
    const Tensor& pooled = tensors[executable.network().layers[pooling].inputs[0]];
    ASSIGN_OR_RETURN(*task.sums, SumUp(*context_, launcher, executable.precision(), pooled, share));
  } else {
    RETURN_IF_ERROR(
        ComputeLayers(executable, task, tensors, begin, tensors.size(), launcher, layer_enqueued));
    RETURN_IF_ERROR(StorePixels(*context_, launcher, download_, tensors.back(),
                                executable.precision(),
                                Scale(task.tile, executable.network().scale), task.dst));
  }
  if (kept != nullptr) {
    RETURN_IF_ERROR(ToStatus(launcher.queue().finish(), "clFinish"));
    kept->End(task);
  }
  return absl::OkStatus();
}

absl::StatusOr<CachedTile*> OpenClStream::CacheOf(const OpenClExecutable& executable,
                                                  const TileTask& task,
                                                  std::span<const size_t> slot_bytes,
                                                  Launcher& launcher) const {
  auto* const kept = static_cast<CachedTile*>(task.memory);
  const size_t bytes = std::accumulate(slot_bytes.begin(), slot_bytes.end(), size_t{0});
  if (kept == nullptr || !kept->Begin(task, bytes)) return nullptr;
  const absl::Status status = kept->slots.Reserve(*context_, launcher, executable.zero(),
                                                  executable.precision(), slot_bytes);
  if (status.ok()) return kept;
  kept->Drop();
  if (absl::IsResourceExhausted(status)) return nullptr;  // goes without
  return status;
}

absl::Status OpenClStream::Load(const OpenClExecutable& executable, const TileTask& task,
                                const Tensor& dst, Launcher& launcher) {
  const Rect source = executable.InputRect(task.tile, task.image);
  const Rect in_src{source.x - task.src_rect.x, source.y - task.src_rect.y, source.width,
                    source.height};
  return LoadPixels(*context_, launcher, upload_, task.src.Crop(in_src), source, task.image,
                    executable.network().pad_px, executable.precision(), dst);
}

absl::Status OpenClStream::ComputeLayers(const OpenClExecutable& executable, const TileTask& task,
                                         const std::vector<Tensor>& tensors, size_t begin,
                                         size_t end, Launcher& launcher,
                                         LayerEnqueued layer_enqueued) {
  const std::vector<int>& poolings = executable.poolings();
  auto means = task.means.begin() +
               (std::lower_bound(poolings.begin(), poolings.end(), begin) - poolings.begin());
  std::vector<Tensor> src;
  for (size_t i = begin; i < end; ++i) {
    const Layer& layer = executable.network().layers[i];
    src.clear();
    if (layer.op == Op::kGlobalAveragePool) {
      ASSIGN_OR_RETURN(src.emplace_back(), UploadMeans(*context_, *means++));
    } else {
      for (const int input : layer.inputs) src.push_back(tensors[input]);
    }
    if (tensors[i].region.empty()) continue;
    RETURN_IF_ERROR(EnqueueHalo(launcher, executable.zero(), tensors[i]));
    if (layer.op != Op::kInput) {  // which is loaded
      RETURN_IF_ERROR(executable.kernels()[i]->Enqueue(launcher, src, tensors[i]));
    }
    RETURN_IF_ERROR(layer_enqueued(i));
  }
  return absl::OkStatus();
}

}  // namespace upscaled::opencl
