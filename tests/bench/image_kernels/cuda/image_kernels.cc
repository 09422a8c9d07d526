#include "tests/bench/image_kernels/cuda/image_kernels.h"

#include <cuda_runtime_api.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/image/bilateral_window.h"
#include "engine/image/quality.h"
#include "tests/bench/image_kernels/cuda/bilateral.h"
#include "tests/bench/image_kernels/cuda/indices.h"
#include "tests/bench/image_kernels/cuda/quality.h"
#include "tests/bench/image_kernels/cuda/reduce.h"
#include "tests/bench/image_kernels/cuda/transpose.h"

namespace upscaled::cuda {
namespace {

absl::Status ToStatus(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return absl::OkStatus();
  (void)cudaGetLastError();  // or the next launch would report it once more
  return absl::InternalError(absl::StrCat(call, ": ", cudaGetErrorString(error)));
}

struct FreeMemory {
  void operator()(void* data) const { cudaFree(data); }
};
using Memory = std::unique_ptr<void, FreeMemory>;

absl::StatusOr<Memory> Allocate(size_t bytes) {
  void* data = nullptr;
  RETURN_IF_ERROR(ToStatus(cudaMalloc(&data, bytes), "cudaMalloc for an image kernel"));
  return Memory(data);
}

absl::StatusOr<Memory> Upload(const void* src, size_t bytes) {
  ASSIGN_OR_RETURN(Memory memory, Allocate(bytes));
  RETURN_IF_ERROR(
      ToStatus(cudaMemcpy(memory.get(), src, bytes, cudaMemcpyHostToDevice), "cudaMemcpy"));
  return memory;
}

class Event {
 public:
  static absl::StatusOr<Event> Create() {
    cudaEvent_t event = nullptr;
    RETURN_IF_ERROR(ToStatus(cudaEventCreate(&event), "cudaEventCreate"));
    return Event(event);
  }
  cudaEvent_t get() const { return event_.get(); }

 private:
  struct Destroy {
    void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
  };
  explicit Event(cudaEvent_t event) : event_(event) {}

  std::unique_ptr<CUevent_st, Destroy> event_;
};

// A step of an operation, by its number in the family's enum.
struct Step {
  ImageStep step;
  int number = 0;
};

constexpr Step kSteps[] = {
    {{ImageOp::kCopy, "cudaMemcpy"}},
    {{ImageOp::kBilateral, "naive"}, static_cast<int>(BilateralStep::kNaive)},
    {{ImageOp::kBilateral, "shared memory"}, static_cast<int>(BilateralStep::kShared)},
    {{ImageOp::kBilateral, "4 pixels a thread"}, static_cast<int>(BilateralStep::kSeveral)},
    {{ImageOp::kTranspose, "naive"}, static_cast<int>(TransposeStep::kNaive)},
    {{ImageOp::kTranspose, "shared memory"}, static_cast<int>(TransposeStep::kShared)},
    {{ImageOp::kTranspose, "padded"}, static_cast<int>(TransposeStep::kPadded)},
    {{ImageOp::kTranspose, "4 values a thread"}, static_cast<int>(TransposeStep::kSeveral)},
    {{ImageOp::kToPlanes, "naive"}, static_cast<int>(PlanesStep::kNaive)},
    {{ImageOp::kToPlanes, "a pixel a thread"}, static_cast<int>(PlanesStep::kPixel)},
    {{ImageOp::kToPlanes, "words, 4 pixels a thread"}, static_cast<int>(PlanesStep::kShared)},
    {{ImageOp::kFromPlanes, "naive"}, static_cast<int>(PlanesStep::kNaive)},
    {{ImageOp::kFromPlanes, "a pixel a thread"}, static_cast<int>(PlanesStep::kPixel)},
    {{ImageOp::kFromPlanes, "words, 4 pixels a thread"}, static_cast<int>(PlanesStep::kShared)},
    {{ImageOp::kRowStats, "naive"}, static_cast<int>(RowStatsStep::kNaive)},
    {{ImageOp::kRowStats, "shared memory"}, static_cast<int>(RowStatsStep::kShared)},
    {{ImageOp::kRowStats, "shuffles, 4 values"}, static_cast<int>(RowStatsStep::kShuffles)},
    {{ImageOp::kColumnStats, "naive"}, static_cast<int>(ColumnStatsStep::kNaive)},
    {{ImageOp::kColumnStats, "runs of rows"}, static_cast<int>(ColumnStatsStep::kRuns)},
    {{ImageOp::kColumnStats, "4 columns a thread"}, static_cast<int>(ColumnStatsStep::kSeveral)},
    {{ImageOp::kSquaredError, "naive"}, static_cast<int>(SquaredErrorStep::kNaive)},
    {{ImageOp::kSquaredError, "shared memory"}, static_cast<int>(SquaredErrorStep::kShared)},
    {{ImageOp::kSquaredError, "shuffles, 4 values"}, static_cast<int>(SquaredErrorStep::kShuffles)},
    {{ImageOp::kSsim, "naive"}, static_cast<int>(SsimStep::kNaive)},
    {{ImageOp::kSsim, "shared memory, separable"}, static_cast<int>(SsimStep::kShared)},
};

// Memory in addition to source and result: constants of the operation, room for first passes.
struct Scratch {
  Memory constants;
  Memory partials;
};

size_t PartialBytes(const Step& step, const ImageWork& work) {
  switch (work.op) {
    case ImageOp::kColumnStats:
      return sizeof(LineStats) * BlockCount(work.size.height, kRunRows) * work.size.width;
    case ImageOp::kSquaredError:
      return sizeof(float) * SquaredErrorPartials(work.size);
    case ImageOp::kSsim:
      return sizeof(float) * SsimPartials(static_cast<SsimStep>(step.number), work.size);
    default:
      return 0;
  }
}

std::vector<float> ConstantsOf(const ImageWork& work) {
  if (work.op == ImageOp::kBilateral) return BilateralWindow(work.bilateral, 255).space;
  if (work.op != ImageOp::kSsim) return {};
  const auto window = SsimWindow();
  return {window.begin(), window.end()};
}

absl::StatusOr<Scratch> PrepareScratch(const Step& step, const ImageWork& work) {
  Scratch scratch;
  if (const std::vector<float> constants = ConstantsOf(work); !constants.empty()) {
    ASSIGN_OR_RETURN(scratch.constants, Upload(constants.data(), constants.size() * sizeof(float)));
  }
  if (const size_t bytes = PartialBytes(step, work); bytes > 0) {
    ASSIGN_OR_RETURN(scratch.partials, Allocate(bytes));
  }
  return scratch;
}

cudaError_t Launch(const Step& step, const ImageWork& work, const Scratch& scratch, const void* src,
                   void* dst) {
  const Size size = work.size;
  const auto* bytes = static_cast<const uint8_t*>(src);
  const auto* floats = static_cast<const float*>(src);
  const auto* constants = static_cast<const float*>(scratch.constants.get());
  auto* sums = static_cast<float*>(scratch.partials.get());
  constexpr cudaStream_t kStream = nullptr;
  switch (work.op) {
    case ImageOp::kCopy:
      return cudaMemcpyAsync(dst, src, SourceBytes(work), cudaMemcpyDeviceToDevice, kStream);
    case ImageOp::kBilateral: {
      const BilateralWindow window(work.bilateral, 255);
      return LaunchBilateral(
          static_cast<BilateralStep>(step.number),
          {bytes, size, window.radius_px, window.range, constants, static_cast<uint8_t*>(dst)},
          kStream);
    }
    case ImageOp::kTranspose:
      return LaunchTranspose(static_cast<TransposeStep>(step.number), floats, size,
                             static_cast<float*>(dst), kStream);
    case ImageOp::kToPlanes:
      return LaunchToPlanes(static_cast<PlanesStep>(step.number), bytes, size.Area(),
                            static_cast<float*>(dst), kStream);
    case ImageOp::kFromPlanes:
      return LaunchFromPlanes(static_cast<PlanesStep>(step.number), floats, size.Area(),
                              static_cast<uint8_t*>(dst), kStream);
    case ImageOp::kRowStats:
      return LaunchRowStats(static_cast<RowStatsStep>(step.number), floats, size,
                            static_cast<float4*>(dst), kStream);
    case ImageOp::kColumnStats:
      return LaunchColumnStats(static_cast<ColumnStatsStep>(step.number), floats, size,
                               static_cast<float4*>(scratch.partials.get()),
                               static_cast<float4*>(dst), kStream);
    case ImageOp::kSquaredError:
      return LaunchSquaredError(static_cast<SquaredErrorStep>(step.number), floats, size, sums,
                                static_cast<double*>(dst), kStream);
    case ImageOp::kSsim:
      return LaunchSsim(static_cast<SsimStep>(step.number), floats, size, constants, sums,
                        static_cast<double*>(dst), kStream);
  }
  return cudaErrorInvalidValue;
}

class CudaImageKernels final : public ImageKernels {
 public:
  CudaImageKernels(int device, Event start, Event end)
      : device_(device), start_(std::move(start)), end_(std::move(end)) {
    for (const Step& step : kSteps) steps_.push_back(step.step);
  }

  std::span<const ImageStep> steps() const override { return steps_; }

  absl::StatusOr<double> Run(size_t index, const ImageWork& work, std::span<const uint8_t> src,
                             std::span<uint8_t> dst) override {
    const Step& step = kSteps[index];
    UPSCALED_CHECK(step.step.op == work.op && src.size() == SourceBytes(work) &&
                   dst.size() == ResultBytes(work));
    RETURN_IF_ERROR(ToStatus(cudaSetDevice(device_), "cudaSetDevice"));
    ASSIGN_OR_RETURN(const Memory source, Upload(src.data(), src.size()));
    ASSIGN_OR_RETURN(const Memory result, Allocate(dst.size()));
    ASSIGN_OR_RETURN(const Scratch scratch, PrepareScratch(step, work));
    RETURN_IF_ERROR(ToStatus(cudaEventRecord(start_.get()), "cudaEventRecord"));
    RETURN_IF_ERROR(ToStatus(Launch(step, work, scratch, source.get(), result.get()),
                             "launch of an image kernel"));
    RETURN_IF_ERROR(ToStatus(cudaEventRecord(end_.get()), "cudaEventRecord"));
    RETURN_IF_ERROR(ToStatus(
        cudaMemcpy(dst.data(), result.get(), dst.size(), cudaMemcpyDeviceToHost), "cudaMemcpy"));
    float milliseconds = 0;
    RETURN_IF_ERROR(ToStatus(cudaEventElapsedTime(&milliseconds, start_.get(), end_.get()),
                             "cudaEventElapsedTime"));
    return milliseconds * 1e-3;
  }

 private:
  const int device_;
  const Event start_, end_;
  std::vector<ImageStep> steps_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ImageKernels>> CreateImageKernels(int device) {
  if (const cudaError_t error = cudaSetDevice(device); error != cudaSuccess) {
    return absl::UnavailableError(absl::StrCat("cuda:", device, ": ", cudaGetErrorString(error)));
  }
  ASSIGN_OR_RETURN(Event start, Event::Create());
  ASSIGN_OR_RETURN(Event end, Event::Create());
  return std::make_unique<CudaImageKernels>(device, std::move(start), std::move(end));
}

}  // namespace upscaled::cuda
