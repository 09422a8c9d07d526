#include "engine/backends/opencl/opencl_stream.h"

#include <utility>

#include "engine/backends/opencl/elementwise.h"

namespace upscaled::opencl {
namespace {

std::vector<Tensor> PlaceTensors(const OpenClExecutable& executable, const TilePlan& plan,
                                 const std::vector<cl::Buffer>& slots) {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < plan.rects.size(); ++i) {
    tensors.push_back({slots[executable.slot_of()[i]], plan.rects[i], plan.regions[i],
                       plan.layers[i], executable.network().layers[i].out_channels});
  }
  return tensors;
}

// Zeroes what the tensor holds beyond its layer: strips above, below, left and right of the region.
absl::Status EnqueueRim(Launcher& launcher, const KernelFunction& zero, const Tensor& tensor) {
  const Rect& all = tensor.rect;
  const Rect& inner = tensor.region;
  const Rect strips[] = {
      {all.x, all.y, all.width, inner.y - all.y},
      {all.x, inner.bottom(), all.width, all.bottom() - inner.bottom()},
      {all.x, inner.y, inner.x - all.x, inner.height},
      {inner.right(), inner.y, all.right() - inner.right(), inner.height},
  };
  for (const Rect& strip : strips) RETURN_IF_ERROR(EnqueueZero(launcher, zero, tensor, strip));
  return absl::OkStatus();
}

}  // namespace

absl::Status OpenClStream::Run(const Executable& executable, std::span<const TileTask> tiles) {
  if (!launcher_.has_value()) {
    ASSIGN_OR_RETURN(launcher_, Launcher::Create(*context_, false));
  }
  for (const TileTask& task : tiles) {
    RETURN_IF_ERROR(CheckTileTask(executable, task));
    RETURN_IF_ERROR(RunTile(static_cast<const OpenClExecutable&>(executable), task));
  }
  return absl::OkStatus();
}

absl::Status OpenClStream::RunTile(const OpenClExecutable& executable, const TileTask& task) {
  const TilePlan plan = executable.Plan(task.image, task.tile);
  ASSIGN_OR_RETURN(const std::vector<size_t> slot_bytes, executable.SlotBytesOf(plan));
  RETURN_IF_ERROR(Reserve(slot_bytes));
  const std::vector<Tensor> tensors = PlaceTensors(executable, plan, slots_);
  const Network& network = executable.network();
  const Rect source = executable.InputRect(task.tile, task.image);
  const Rect in_src{source.x - task.src_rect.x, source.y - task.src_rect.y, source.width,
                    source.height};
  RETURN_IF_ERROR(LoadPixels(*context_, *launcher_, upload_, task.src.Crop(in_src), source,
                             task.image, network.pad_px, executable.precision(), tensors[0]));
  RETURN_IF_ERROR(ComputeLayers(executable, tensors));
  return StorePixels(*context_, *launcher_, download_, tensors.back(), executable.precision(),
                     Scale(task.tile, network.scale), task.dst);
}

absl::Status OpenClStream::Reserve(const std::vector<size_t>& slot_bytes) {
  if (slots_.size() < slot_bytes.size()) {
    slots_.resize(slot_bytes.size());
    slot_bytes_.resize(slot_bytes.size());
  }
  for (size_t i = 0; i < slot_bytes.size(); ++i) {
    if (slot_bytes[i] <= slot_bytes_[i]) continue;
    slots_[i] = cl::Buffer();  // frees the old one first: never both at once
    slot_bytes_[i] = 0;
    cl_int error = CL_SUCCESS;
    slots_[i] = cl::Buffer(context_->handle, CL_MEM_READ_WRITE, slot_bytes[i], nullptr, &error);
    RETURN_IF_ERROR(ToStatus(error, "clCreateBuffer for a tile's tensors"));
    slot_bytes_[i] = slot_bytes[i];
  }
  return absl::OkStatus();
}

absl::Status OpenClStream::ComputeLayers(const OpenClExecutable& executable,
                                         const std::vector<Tensor>& tensors) {
  std::vector<Tensor> src;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].region.empty()) continue;
    RETURN_IF_ERROR(EnqueueRim(*launcher_, executable.zero(), tensors[i]));
    if (i == 0) continue;  // loaded
    src.clear();
    for (const int input : executable.network().layers[i].inputs) src.push_back(tensors[input]);
    RETURN_IF_ERROR(executable.kernels()[i]->Enqueue(*launcher_, src, tensors[i]));
  }
  return absl::OkStatus();
}

}  // namespace upscaled::opencl
