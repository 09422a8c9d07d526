#include "engine/backends/cuda/kernel_candidate.h"

#include <cstdint>
#include <utility>

#include "engine/backends/cuda/kernels/half_bits.h"
#include "engine/backends/cuda/tile_place.h"
#include "engine/base/status_macros.h"
#include "engine/model/half.h"
#include "engine/model/shapes.h"
#include "engine/model/without_weights.h"

namespace upscaled::cuda {
namespace {

// Calls function(index in [channel][y][x], index in the tensor) for all values.
template <typename Function>
void ForEachValue(const TensorView& tensor, const Function& function) {
  size_t index = 0;
  for (int c = 0; c < tensor.channels; ++c) {
    for (int y = 0; y < tensor.layer.height; ++y) {
      for (int x = 0; x < tensor.layer.width; ++x) {
        const int64_t pixel = PixelIndex(tensor, 0, c / kPlaneChannels, x, y);
        function(index++, pixel * kPlaneChannels + c % kPlaneChannels);
      }
    }
  }
}

}  // namespace

KernelCandidate::KernelCandidate(std::shared_ptr<Context> context, const Layer& layer,
                                 Precision precision, const ConvKernel& kernel, Size input)
    : context_(std::move(context)), precision_(precision) {
  SetStatus(Prepare(layer, kernel, input));
}

absl::Status KernelCandidate::Prepare(const Layer& layer, const ConvKernel& kernel, Size input) {
  RETURN_IF_ERROR(context_->Enter());
  ASSIGN_OR_RETURN(queue_, CreateStream(context_));
  ASSIGN_OR_RETURN(begin_, CreateEvent(context_));
  ASSIGN_OR_RETURN(end_, CreateEvent(context_));
  Network network;
  network.layers = {{.out_channels = layer.in_channels}, layer};
  network.layers[1].inputs = {0};
  program_ = BuildProgram(
      {.network = WithoutWeights(network), .nodes = {{.layers = {1}, .main = 1, .inputs = {0}}}});
  ASSIGN_OR_RETURN(kernel_,
                   StepKernel::Create(context_, network, program_, 0, precision_, &kernel));
  views_.tensors.resize(2);
  RETURN_IF_ERROR(Place(views_.tensors[0], src_, input, layer.in_channels));
  return Place(views_.tensors[1], dst_, OutputSize(layer, input), layer.out_channels);
}

// Zeros: times may depend on NaNs.
absl::Status KernelCandidate::Place(TensorView& tensor, DeviceMemory& memory, Size size,
                                    int channels) {
  const Rect whole{0, 0, size.width, size.height};
  const int64_t pixels = PlaneCount(channels) * whole.Area();
  if (pixels > kMaxTilePixels)
    return absl::ResourceExhaustedError("a candidate larger than any tile");
  const size_t bytes = pixels * kPlaneChannels * StorageBytes(precision_);
  ASSIGN_OR_RETURN(memory, AllocateDevice(context_, bytes, "a candidate"));
  tensor = {
      .data = memory.data(), .rect = whole, .region = whole, .layer = size, .channels = channels};
  return context_->Check(cudaMemsetAsync(memory.data(), 0, bytes, queue_.get()), "cudaMemsetAsync");
}

// Behind another run, so the kernel waits in the queue when its time begins.
absl::StatusOr<absl::Duration> KernelCandidate::RunOnce() {
  RETURN_IF_ERROR(context_->Enter());
  RETURN_IF_ERROR(kernel_->Enqueue(*context_, views_, queue_.get()));
  RETURN_IF_ERROR(context_->Check(cudaEventRecord(begin_.get(), queue_.get()), "cudaEventRecord"));
  RETURN_IF_ERROR(kernel_->Enqueue(*context_, views_, queue_.get()));
  RETURN_IF_ERROR(context_->Check(cudaEventRecord(end_.get(), queue_.get()), "cudaEventRecord"));
  RETURN_IF_ERROR(context_->Await(end_.get(), /*cost=*/0, "a candidate"));
  float milliseconds = 0;
  RETURN_IF_ERROR(context_->Check(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()),
                                  "cudaEventElapsedTime"));
  return absl::Milliseconds(milliseconds);
}

absl::StatusOr<std::vector<float>> KernelCandidate::ComputeFrom(std::span<const float> input) {
  RETURN_IF_ERROR(context_->Enter());
  const TensorView &src = views_.tensors[0], &dst = views_.tensors[1];
  std::vector<uint8_t> sent(src_.bytes()), received(dst_.bytes());
  ForEachValue(src, [&](size_t from, size_t to) {
    if (precision_ == Precision::kFast) {
      reinterpret_cast<uint16_t*>(sent.data())[to] = FloatToHalfBits(input[from]);
    } else {
      reinterpret_cast<float*>(sent.data())[to] = input[from];
    }
  });
  const cudaStream_t queue = queue_.get();
  RETURN_IF_ERROR(context_->Check(
      cudaMemcpyAsync(src_.data(), sent.data(), sent.size(), cudaMemcpyHostToDevice, queue),
      "cudaMemcpyAsync to the device"));
  RETURN_IF_ERROR(kernel_->Enqueue(*context_, views_, queue));
  RETURN_IF_ERROR(context_->Check(
      cudaMemcpyAsync(received.data(), dst_.data(), received.size(), cudaMemcpyDeviceToHost, queue),
      "cudaMemcpyAsync from the device"));
  RETURN_IF_ERROR(context_->Check(cudaEventRecord(end_.get(), queue), "cudaEventRecord"));
  RETURN_IF_ERROR(context_->Await(end_.get(), /*cost=*/0, "a candidate"));
  std::vector<float> output(size_t{1} * dst.channels * dst.layer.Area());
  ForEachValue(dst, [&](size_t to, size_t from) {
    output[to] = precision_ == Precision::kFast
                     ? HalfToFloat(reinterpret_cast<const uint16_t*>(received.data())[from])
                     : reinterpret_cast<const float*>(received.data())[from];
  });
  return output;
}

}  // namespace upscaled::cuda
