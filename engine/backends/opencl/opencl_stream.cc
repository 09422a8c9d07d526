#include "engine/backends/opencl/opencl_stream.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_join.h"
#include "engine/backends/layer_profile.h"
#include "engine/backends/opencl/elementwise.h"
#include "engine/backends/opencl/pooling.h"
#include "engine/graph/tile_geometry.h"

namespace upscaled::opencl {
namespace {

std::vector<Tensor> PlaceTensors(const OpenClExecutable& executable, const TilePlan& plan,
                                 std::span<const Rect> rects, const TileSlots& slots) {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < rects.size(); ++i) {
    tensors.push_back({slots[executable.slot_of()[i]], rects[i], plan.regions[i],
                       plan.layer_sizes[i], executable.network().layers[i].out_channels});
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
  const TilePlan& plan = *task.plan;
  std::vector<LayerProfile> layers;
  for (size_t i = 0; i < plan.regions.size(); ++i) {
    LayerProfile& layer = layers.emplace_back(
        DescribeLayer(compiled.network(), i, plan.regions, StorageBytes(compiled.precision())));
    const KernelInfo* const kernel = compiled.kernel_infos()[i];
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
  const TilePlan& plan = *task.plan;
  const PoolingPass& pass = *task.pooling;
  const std::vector<Rect> rects = executable.TensorRectsOf(plan);
  ASSIGN_OR_RETURN(const std::vector<size_t> slot_bytes, executable.SlotBytesOf(rects));
  ASSIGN_OR_RETURN(CachedTile * cache, CacheOf(executable, pass, slot_bytes, launcher));
  if (cache == nullptr) {
    RETURN_IF_ERROR(
        slots_.Reserve(*context_, launcher, executable.zero(), executable.precision(), slot_bytes));
  }
  const std::vector<Tensor> tensors =
      PlaceTensors(executable, plan, rects, cache ? cache->slots : slots_);
  const std::vector<int>& poolings = executable.poolings();
  const int begin = cache ? pass.FirstCachedLayer(poolings) : 0;
  if (begin == 0) RETURN_IF_ERROR(Load(executable, task, tensors[0], launcher));
  if (pass.gathers()) {
    const int pooling = poolings[pass.number()];
    RETURN_IF_ERROR(
        ComputeLayers(executable, pass, tensors, begin, pooling, launcher, layer_enqueued));
    const Tensor& pooled = tensors[executable.network().layers[pooling].inputs[0]];
    ASSIGN_OR_RETURN(*pass.partial_sums, SumUp(*context_, launcher, executable.precision(), pooled,
                                               plan.partial_sum_rects[pass.number()]));
  } else {
    RETURN_IF_ERROR(
        ComputeLayers(executable, pass, tensors, begin, tensors.size(), launcher, layer_enqueued));
    RETURN_IF_ERROR(StorePixels(*context_, launcher, download_, tensors.back(),
                                executable.precision(),
                                Scale(plan.tile, executable.network().scale), task.dst));
  }
  if (cache != nullptr) {
    RETURN_IF_ERROR(ToStatus(launcher.queue().finish(), "clFinish"));
    cache->End(pass.number());
  }
  return absl::OkStatus();
}

absl::StatusOr<CachedTile*> OpenClStream::CacheOf(const OpenClExecutable& executable,
                                                  const PoolingPass& pass,
                                                  std::span<const size_t> slot_bytes,
                                                  Launcher& launcher) const {
  const size_t bytes = std::accumulate(slot_bytes.begin(), slot_bytes.end(), size_t{0});
  if (pass.cache == nullptr || !pass.cache->Begin(&executable, pass.number(), bytes)) {
    return nullptr;
  }
  auto* const cache = static_cast<CachedTile*>(pass.cache);
  const absl::Status status = cache->slots.Reserve(*context_, launcher, executable.zero(),
                                                   executable.precision(), slot_bytes);
  if (status.ok()) return cache;
  cache->Drop();
  if (absl::IsResourceExhausted(status)) return nullptr;  // goes without
  return status;
}

absl::Status OpenClStream::Load(const OpenClExecutable& executable, const TileTask& task,
                                const Tensor& dst, Launcher& launcher) {
  const TilePlan& plan = *task.plan;
  // plan.input may cover the needs of other devices.
  const Rect source = SourceRect(executable.network(), plan.regions[0], plan.image);
  const Rect in_src{source.x - task.src_rect.x, source.y - task.src_rect.y, source.width,
                    source.height};
  return LoadPixels(*context_, launcher, upload_, task.src.Crop(in_src), source, plan.image,
                    executable.network().pad_px, executable.precision(), dst);
}

absl::Status OpenClStream::ComputeLayers(const OpenClExecutable& executable,
                                         const PoolingPass& pass,
                                         const std::vector<Tensor>& tensors, size_t begin,
                                         size_t end, Launcher& launcher,
                                         LayerEnqueued layer_enqueued) {
  const std::vector<int>& poolings = executable.poolings();
  auto means = pass.means.begin() +
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
