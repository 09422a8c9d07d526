#include "engine/backends/opencl/kernel_candidate.h"

#include <utility>

#include "engine/backends/opencl/elementwise.h"
#include "engine/backends/opencl/layer_constants.h"
#include "engine/backends/opencl/tile_tensors.h"
#include "engine/model/shapes.h"

namespace upscaled::opencl {
namespace {

Rect Whole(Size size) { return {0, 0, size.width, size.height}; }

}  // namespace

KernelCandidate::KernelCandidate(std::shared_ptr<Context> context, const Layer& layer,
                                 Precision precision, const KernelChoice& choice, Size input)
    : context_(std::move(context)), precision_(precision) {
  SetStatus(Prepare(layer, choice, input));
}

absl::StatusOr<cl::Buffer> KernelCandidate::MakeBuffer(size_t bytes) const {
  cl_int error = CL_SUCCESS;
  cl::Buffer buffer(context_->handle, CL_MEM_READ_WRITE, bytes, nullptr, &error);
  RETURN_IF_ERROR(ToStatus(error, "clCreateBuffer for a candidate"));
  return buffer;
}

absl::Status KernelCandidate::Prepare(const Layer& layer, const KernelChoice& choice, Size input) {
  ASSIGN_OR_RETURN(launcher_, Launcher::Create(*context_, /*profile=*/true));
  ASSIGN_OR_RETURN(kernel_, Create(*context_, layer, precision_, choice));
  const Size output = OutputSize(layer, input);
  const Rect read = RectRead(layer, kernel_->block_px(), Whole(output), input);
  src_ = {{}, Cover(read, Whole(input)), Whole(input), input, layer.in_channels};
  dst_ = {{}, Whole(output), Whole(output), output, layer.out_channels};
  for (Tensor* tensor : {&src_, &dst_}) {
    const size_t bytes = TensorValues(tensor->rect, tensor->channels) * StorageBytes(precision_);
    ASSIGN_OR_RETURN(tensor->buffer, MakeBuffer(bytes));
    // Times may depend on NaNs and denormals.
    const cl_int error = launcher_->queue().enqueueFillBuffer(tensor->buffer, cl_uint{0}, 0, bytes);
    RETURN_IF_ERROR(ToStatus(error, "clEnqueueFillBuffer"));
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::Duration> KernelCandidate::RunOnce() {
  RETURN_IF_ERROR(launcher_->TakeSeconds().status());  // drops the time of what ran before
  RETURN_IF_ERROR(kernel_->Enqueue(*launcher_, {&src_, 1}, dst_));
  ASSIGN_OR_RETURN(const double seconds, launcher_->TakeSeconds());
  return absl::Seconds(seconds);
}

absl::StatusOr<std::vector<float>> KernelCandidate::ComputeFrom(std::span<const float> input) {
  ASSIGN_OR_RETURN(const auto pack, ElementwiseFunction(*context_, precision_, "pack"));
  ASSIGN_OR_RETURN(const auto unpack, ElementwiseFunction(*context_, precision_, "unpack"));
  ASSIGN_OR_RETURN(const auto zero, ElementwiseFunction(*context_, precision_, "zero"));
  ASSIGN_OR_RETURN(const cl::Buffer values,
                   UploadFloats(*context_, std::vector<float>(input.begin(), input.end())));
  std::vector<float> output(static_cast<size_t>(dst_.region.Area()) * dst_.channels);
  ASSIGN_OR_RETURN(const cl::Buffer result, MakeBuffer(output.size() * sizeof(float)));
  RETURN_IF_ERROR(EnqueueHalo(*launcher_, zero, src_));
  RETURN_IF_ERROR(launcher_->Launch(pack, ItemsOf(src_.region, src_.planes()), kItemGroup, values,
                                    src_, src_.region, cl_int{src_.planes()},
                                    cl_int{src_.channels}));
  RETURN_IF_ERROR(kernel_->Enqueue(*launcher_, {&src_, 1}, dst_));
  RETURN_IF_ERROR(launcher_->Launch(unpack, ItemsOf(dst_.region, dst_.planes()), kItemGroup, dst_,
                                    dst_.region, cl_int{dst_.planes()}, cl_int{dst_.channels},
                                    result));
  const cl_int error = launcher_->queue().enqueueReadBuffer(
      result, CL_TRUE, 0, output.size() * sizeof(float), output.data());
  RETURN_IF_ERROR(ToStatus(error, "clEnqueueReadBuffer"));
  return output;
}

}  // namespace upscaled::opencl
