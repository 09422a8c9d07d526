#include "engine/backends/cuda/handles.h"

#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"

namespace upscaled::cuda {
namespace {

double ToMiB(size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

absl::StatusOr<DeviceMemory> AllocateDevice(const std::shared_ptr<Context>& context, size_t bytes,
                                            std::string_view what) {
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, bytes);
  if (error != cudaSuccess) {
    size_t free = 0, total = 0;
    RETURN_IF_ERROR(context->Check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo"));
    return context->Check(
        error, absl::StrFormat("cudaMalloc of %.1f MiB for %s, with %.1f of %.1f MiB free",
                               ToMiB(bytes), ToAbsl(what), ToMiB(free), ToMiB(total)));
  }
  return DeviceMemory(context, data, bytes);
}

absl::StatusOr<PinnedMemory> AllocatePinned(const std::shared_ptr<Context>& context, size_t bytes,
                                            std::string_view what) {
  void* data = nullptr;
  const cudaError_t error = cudaHostAlloc(&data, bytes, cudaHostAllocDefault);
  if (error != cudaSuccess) {
    return context->Check(
        error, absl::StrFormat("cudaHostAlloc of %.1f MiB for %s", ToMiB(bytes), ToAbsl(what)));
  }
  return PinnedMemory(context, data, bytes);
}

absl::StatusOr<DeviceMemory> Upload(const std::shared_ptr<Context>& context,
                                    std::span<const std::byte> values, std::string_view what) {
  ASSIGN_OR_RETURN(DeviceMemory memory, AllocateDevice(context, values.size(), what));
  const cudaError_t error =
      cudaMemcpy(memory.data(), values.data(), values.size(), cudaMemcpyHostToDevice);
  RETURN_IF_ERROR(context->Check(error, "cudaMemcpy"));
  // It may return before the device has the copied bytes, and streams do not wait for it.
  ASSIGN_OR_RETURN(const EventHandle copied, CreateEvent(context));
  RETURN_IF_ERROR(context->Check(cudaEventRecord(copied.get(), nullptr), "cudaEventRecord"));
  RETURN_IF_ERROR(context->Await(copied.get(), /*cost=*/0, "a copy to the device"));
  return memory;
}

absl::StatusOr<StreamHandle> CreateStream(const std::shared_ptr<Context>& context) {
  cudaStream_t stream = nullptr;
  const cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  RETURN_IF_ERROR(context->Check(error, "cudaStreamCreateWithFlags"));
  return StreamHandle(stream, {context});
}

absl::StatusOr<EventHandle> CreateEvent(const std::shared_ptr<Context>& context) {
  cudaEvent_t event = nullptr;
  RETURN_IF_ERROR(context->Check(cudaEventCreateWithFlags(&event, cudaEventBlockingSync),
                                 "cudaEventCreateWithFlags"));
  return EventHandle(event, {context});
}

absl::StatusOr<GraphExecHandle> Capture(const std::shared_ptr<Context>& context,
                                        cudaStream_t stream,
                                        absl::FunctionRef<absl::Status()> enqueue) {
  // Relaxed: other threads may allocate meanwhile.
  RETURN_IF_ERROR(context->Check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed),
                                 "cudaStreamBeginCapture"));
  const absl::Status enqueued = enqueue();
  cudaGraph_t captured = nullptr;
  const absl::Status ended =
      context->Check(cudaStreamEndCapture(stream, &captured), "cudaStreamEndCapture");
  const GraphHandle graph(captured, {context});
  RETURN_IF_ERROR(enqueued);
  RETURN_IF_ERROR(ended);
  cudaGraphExec_t executable = nullptr;
  RETURN_IF_ERROR(
      context->Check(cudaGraphInstantiate(&executable, graph.get(), 0), "cudaGraphInstantiate"));
  return GraphExecHandle(executable, {context});
}

}  // namespace upscaled::cuda
